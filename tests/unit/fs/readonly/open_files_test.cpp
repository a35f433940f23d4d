#include "fs/readonly/open_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

namespace tierfs {
namespace open_files_test {

class FakeIds final : public BackingIds {
  public:
    Result<std::int32_t> add(int file) override {
        EXPECT_GE(file, 0);
        if (error != 0) return fail(error, "refused");
        ids.insert(++last);
        return last;
    }
    void remove(std::int32_t id) override { EXPECT_EQ(ids.erase(id), 1U); }

    int error = 0;
    std::int32_t last = 0;
    std::set<std::int32_t> ids;
};

class OpenFilesTest : public testing::Test {
  protected:
    using Mode = OpenFiles::Mode;

    static std::uint64_t as(Mode mode) { return OpenFiles::Answer{mode, 0, 0}.handle(); }
    static Settings with(Profile profile) {
        Settings settings;
        settings.profile = profile;
        return settings;
    }
    OpenFiles::FindFile whole() {
        return [this] {
            FileDescriptor file(::memfd_create("whole", MFD_CLOEXEC));
            EXPECT_EQ(::ftruncate(file.get(), kFileBytes), 0);
            return WholeFile{std::move(file), pin};
        };
    }
    static OpenFiles::FindFile nothing() {
        return [] { return std::optional<WholeFile>(); };
    }

    static constexpr off_t kFileBytes = 123456;
    std::shared_ptr<int> pin = std::make_shared<int>(0);
    FakeIds ids;
    MountProfile profile{with(Profile::large)};
    OpenFiles files{profile};
};

TEST_F(OpenFilesTest, OneBackingIdForANodeUntilItsLastClose) {
    files.allow(ids);
    const auto first = files.open(7, {}, whole());
    EXPECT_EQ(first.mode, Mode::passthrough);
    const auto second = files.open(7, {}, nothing());
    EXPECT_EQ(second.mode, Mode::passthrough);
    EXPECT_EQ(second.backing_id, first.backing_id);
    EXPECT_EQ(files.status().open_files, 1U);
    EXPECT_EQ(files.status().opens, 2U);
    EXPECT_EQ(pin.use_count(), 2);
    files.close(7, as(Mode::passthrough));
    EXPECT_EQ(ids.ids.size(), 1U);
    files.close(7, as(Mode::passthrough));
    EXPECT_TRUE(ids.ids.empty());
    EXPECT_EQ(pin.use_count(), 1) << "the file may be evicted again";
    EXPECT_EQ(files.status().open_files, 0U);
}

TEST_F(OpenFilesTest, ACachedOpenKeepsTheNodeCached) {
    files.allow(ids);
    EXPECT_EQ(files.open(7, {}, nothing()).mode, Mode::cached);
    EXPECT_EQ(files.open(7, {}, whole()).mode, Mode::cached);
    files.close(7, as(Mode::cached));
    EXPECT_EQ(files.open(7, {}, whole()).mode, Mode::cached);
    files.close(7, as(Mode::cached));
    files.close(7, as(Mode::cached));
    EXPECT_EQ(files.open(7, {}, whole()).mode, Mode::passthrough);
    EXPECT_EQ(files.open(8, {}, nothing()).mode, Mode::cached);
}

TEST_F(OpenFilesTest, WhoComesSecondTakesWhatTheFirstDecided) {
    files.allow(ids);
    // While one open looks for its file, another one of the same node is answered.
    const auto slow = files.open(7, {}, [&] {
        EXPECT_EQ(files.open(7, {}, nothing()).mode, Mode::cached);
        return whole()();
    });
    EXPECT_EQ(slow.mode, Mode::cached);
    EXPECT_TRUE(ids.ids.empty()) << "what it had registered is given back";
    EXPECT_EQ(pin.use_count(), 1);
}

TEST_F(OpenFilesTest, ALastingRefusalEndsIt) {
    files.allow(ids);
    const auto before = files.open(7, {}, whole());
    ids.error = EPERM;
    EXPECT_EQ(files.open(8, {}, whole()).mode, Mode::cached);
    EXPECT_FALSE(files.status().enabled);
    EXPECT_EQ(files.status().reason, "refused");
    ids.error = 0;
    EXPECT_EQ(files.open(9, {}, whole()).mode, Mode::cached);
    EXPECT_EQ(files.open(7, {}, whole()).backing_id, before.backing_id) << "what is open so goes on";
    files.close(7, as(Mode::passthrough));
    files.close(7, as(Mode::passthrough));
    EXPECT_TRUE(ids.ids.empty());
}

TEST_F(OpenFilesTest, APassingRefusalIsForOneOpen) {
    files.allow(ids);
    ids.error = ENOMEM;
    EXPECT_EQ(files.open(8, {}, whole()).mode, Mode::cached);
    ids.error = 0;
    EXPECT_TRUE(files.status().enabled);
    EXPECT_EQ(files.open(9, {}, whole()).mode, Mode::passthrough);
}

TEST_F(OpenFilesTest, NothingIsPassedThroughBeforeItIsAllowed) {
    EXPECT_EQ(files.open(7, {}, whole()).mode, Mode::cached);
    EXPECT_FALSE(files.status().enabled);
    EXPECT_FALSE(files.status().reason.empty());
}

TEST_F(OpenFilesTest, TheProfileSwitchesWhenNothingIsPassedThrough) {
    MountProfile automatic(with(Profile::automatic));
    OpenFiles opens(automatic);
    opens.allow(ids);
    const FileSizes small{2000, 2000};
    EXPECT_EQ(opens.open(7, {}, whole()).mode, Mode::passthrough);
    EXPECT_EQ(opens.open(8, small, nothing()).mode, Mode::cached) << "7 is passed through";
    opens.close(7, as(Mode::passthrough));
    EXPECT_EQ(opens.open(9, small, whole()).mode, Mode::no_opens);
    EXPECT_FALSE(opens.status().enabled);
    opens.close(9, as(Mode::no_opens));
    opens.close(8, as(Mode::cached));
    EXPECT_TRUE(ids.ids.empty());
}

TEST_F(OpenFilesTest, AnOpenUnderWayAtTheSwitchIsNotPassedThrough) {
    MountProfile automatic(with(Profile::automatic));
    OpenFiles opens(automatic);
    opens.allow(ids);
    const auto slow = opens.open(7, {}, [&] {
        EXPECT_EQ(opens.open(8, {2000, 2000}, nothing()).mode, Mode::no_opens);
        return whole()();
    });
    EXPECT_EQ(slow.mode, Mode::no_opens);
    EXPECT_TRUE(ids.ids.empty());
}

TEST_F(OpenFilesTest, AnotherDaemonGoesOnWithTheOpensOfTheFirst) {
    const auto record = ConnectionRecord::make().value();
    OpenFiles::Answer held;
    OpenFiles::Answer cached;
    {
        OpenFiles first(profile, record.get());
        first.allow(ids);
        held = first.open(7, {}, whole(), 2);
        const auto ended = first.open(7, {}, whole(), 4);
        cached = first.open(8, {}, nothing(), 6);
        first.close(7, ended.handle());
    }
    OpenFiles second(profile, record.get());
    second.allow(ids);
    second.take_over([&](NodeId node, std::uint64_t bytes) {
        EXPECT_EQ(node, 7U);
        EXPECT_EQ(bytes, kFileBytes);
        return pin;
    });
    EXPECT_EQ(second.passed_through(), 1U);
    EXPECT_EQ(pin.use_count(), 2) << "the file must not be evicted";
    // In the mode and with the number that the kernel has it open with.
    const auto joined = second.open(7, {}, nothing(), 8);
    EXPECT_EQ(joined.backing_id, held.backing_id);
    EXPECT_EQ(second.open(8, {}, whole(), 10).mode, Mode::cached);
    second.close(7, held.handle());
    EXPECT_EQ(ids.ids.size(), 1U);
    second.close(7, held.handle());  // sent again by the kernel
    EXPECT_EQ(ids.ids.size(), 1U);
    second.close(7, joined.handle());
    EXPECT_TRUE(ids.ids.empty());
    EXPECT_EQ(pin.use_count(), 1);
    second.close(8, cached.handle());
    EXPECT_EQ(record->opens().size(), 1U);
}

TEST_F(OpenFilesTest, AnOpenThatIsSentAgainIsCountedOnce) {
    const auto record = ConnectionRecord::make().value();
    OpenFiles first(profile, record.get());
    first.allow(ids);
    const auto answer = first.open(7, {}, whole(), 2);
    OpenFiles second(profile, record.get());
    second.allow(ids);
    second.take_over([](NodeId, std::uint64_t) { return nullptr; });
    const auto again = second.open(7, {}, nothing(), 2 | kResent);
    EXPECT_EQ(again.handle(), answer.handle());
    EXPECT_EQ(again.backing_id, answer.backing_id);
    // One that nobody had counted yet.
    const auto other = second.open(7, {}, nothing(), 4 | kResent);
    EXPECT_NE(other.handle(), answer.handle());
    second.close(7, again.handle());
    EXPECT_EQ(ids.ids.size(), 1U);
    second.close(7, other.handle());
    EXPECT_TRUE(ids.ids.empty());
    EXPECT_TRUE(record->opens().empty());
}

TEST_F(OpenFilesTest, AnotherDaemonKnowsThatTheKernelOpensWithoutAsking) {
    const auto record = ConnectionRecord::make().value();
    const auto settings = with(Profile::automatic);
    MountProfile automatic(settings, record.get());
    OpenFiles first(automatic, record.get());
    (void)first.open(9, {}, nothing(), 2);
    EXPECT_EQ(first.open(8, FileSizes{2000, 2000}, nothing(), 4).mode, Mode::no_opens);
    EXPECT_TRUE(record->opens().empty());
    MountProfile next(settings, record.get());
    EXPECT_TRUE(next.is_small());
    EXPECT_EQ(next.status({}, 0).kind, "small");
}

}  // namespace open_files_test
}  // namespace tierfs
