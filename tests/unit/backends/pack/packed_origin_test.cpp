#include "backends/pack/packed_origin.hpp"

#include <gtest/gtest.h>

#include <future>
#include <map>

#include "backends/dir/directory_origin.hpp"
#include "backends/pack/extent_reads.hpp"
#include "fs/pack/publish.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"

namespace tierfs {
namespace packed_origin_test {

namespace fs = std::filesystem;

class PackedOriginTest : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directory(folder_ / "dest");
        for (unsigned i = 0; i < 12; ++i) {
            std::string text(40'000 + 30'000 * i, 'x');
            for (std::size_t at = 0; at < text.size(); ++at)
                text[at] = static_cast<char>(at * 7 + at / 999 + i);
            files_["d" + std::to_string(i % 3) + "/f" + std::to_string(i)] = text;
        }
        files_["large"] = std::string((1 << 20) + 1, 'L');
        files_["empty"] = "";
        for (const auto& [name, text] : files_) folder_.write("source/" + name, text);
        settings_.source = folder_ / "source";
        settings_.pack = folder_ / "dest";
        pack::Progress progress;
        const auto source = open_directory_origin(settings_, settings_.source);
        const auto dest = open_directory_origin(settings_, settings_.pack);
        const auto published = pack::publish(**source, **dest, {}, progress, [] { return false; });
        ASSERT_TRUE(published) << published.error().message;
    }

    std::unique_ptr<PackedOrigin> open(const std::vector<fs::path>& kept = {}) {
        auto opened = PackedOrigin::open(settings_, kept);
        EXPECT_TRUE(opened) << opened.error().message;
        if (!opened) return nullptr;
        const auto indexed = (*opened)->open_index(folder_ / "local");
        EXPECT_TRUE(indexed) << indexed.error().message;
        return std::move(*opened);
    }
    static Result<std::string> read(Origin& origin, const std::string& path, std::uint64_t offset,
                                    std::size_t length, Priority priority = Priority::demand) {
        const auto attributes = origin.stat(path);
        if (!attributes) return fail(attributes.error());
        std::string content(length, '\0');
        std::promise<Result<void>> answer;
        OriginRead request;
        request.path = path;
        request.version = attributes->version;
        request.offset = offset;
        request.destination = std::as_writable_bytes(std::span(content));
        request.priority = priority;
        request.done = [&answer](Result<void> result) { answer.set_value(std::move(result)); };
        origin.read(std::move(request));
        auto result = answer.get_future().get();
        if (!result) return fail(result.error());
        return content;
    }
    std::string extent() {
        for (const auto& entry : fs::directory_iterator(folder_ / "dest/extents"))
            return "dest/extents/" + entry.path().filename().string();
        return {};
    }

    stage::TemporaryFolder folder_;
    Settings settings_;
    std::map<std::string, std::string> files_;
};

TEST_F(PackedOriginTest, ReadsEveryRangeOfEveryFile) {
    const auto origin = open();
    ASSERT_TRUE(origin);
    for (const auto& [name, text] : files_) {
        for (const std::size_t offset : {0UL, 1UL, 32767UL, 32768UL, 40'000UL, text.size() / 2}) {
            for (const std::size_t length : {1UL, 4096UL, 32768UL, 65536UL, text.size()}) {
                if (offset >= text.size()) continue;
                const auto wanted = text.substr(offset, length);
                const auto got = read(*origin, name, offset, wanted.size());
                ASSERT_TRUE(got) << got.error().message;
                EXPECT_EQ(*got, wanted) << name << ' ' << offset << ' ' << length;
            }
        }
    }
    EXPECT_EQ(origin->pack_stats().damaged + origin->pack_stats().failed, 0U);
    EXPECT_EQ(origin->stats().list + origin->stats().head, 0U);
    EXPECT_EQ(read(*origin, "large", 5, 10).value_or("?"), "LLLLLLLLLL") << "at the source";
}

TEST_F(PackedOriginTest, NamesComeFromTheIndex) {
    const auto origin = open();
    ASSERT_TRUE(origin);
    fs::rename(folder_ / "source", folder_ / "gone");
    EXPECT_EQ(origin->list("", "")->entries.size(), 5U);
    EXPECT_EQ(origin->list("d1", "")->entries.size(), 4U);
    EXPECT_EQ(origin->list("none", "").error().code, ENOENT);
    EXPECT_EQ(origin->list("large", "").error().code, ENOTDIR);
    EXPECT_EQ(origin->stat("d1/f1")->size, files_["d1/f1"].size());
    EXPECT_EQ(read(*origin, "d1/f1", 0, 100).value_or("?"), files_["d1/f1"].substr(0, 100));
    EXPECT_EQ(origin->writable(), nullptr);
    EXPECT_EQ(origin->stats_worth_listing("d1"), 8U) << "a listing costs something, too";
}

TEST_F(PackedOriginTest, ASourceThatChangedIsNotMixedIn) {
    const auto origin = open();
    folder_.write("source/d1/f1", "other");
    folder_.write("source/large", "other");
    EXPECT_EQ(read(*origin, "d1/f1", 0, 100).value_or("?"), files_["d1/f1"].substr(0, 100));
    EXPECT_EQ(read(*origin, "large", 0, 5).error().code, ESTALE);
}

TEST_F(PackedOriginTest, DamageIsCountedAndTheSourceAnswers) {
    const auto name = extent();
    auto bytes = folder_.read(name);
    for (std::size_t at = 8192; at < bytes.size(); at += 8192) bytes[at] ^= 1;
    folder_.write(name, bytes);
    const auto origin = open();
    std::uint64_t packed = 0;
    for (const auto& [file, text] : files_) {
        for (const auto priority : {Priority::demand, Priority::fill}) {
            const auto got = read(*origin, file, 0, text.size(), priority);
            EXPECT_TRUE(got && *got == text) << file;
        }
        packed += text.empty() || text.size() > (1 << 20) ? 0 : 2;
    }
    EXPECT_EQ(origin->pack_stats().damaged, packed);
    EXPECT_NE(origin->pack_stats().last_error.find(name.substr(5)), std::string::npos);
    fs::remove(folder_ / name);
    EXPECT_EQ(read(*origin, "d1/f1", 0, 9).value_or("?"), files_["d1/f1"].substr(0, 9));
    EXPECT_EQ(origin->pack_stats().failed, 1U);
}

TEST_F(PackedOriginTest, OtherSourcesAndNoPacksAreRefused) {
    folder_.write("another/a", "a");
    Settings settings = settings_;
    settings.source = folder_ / "another";
    EXPECT_EQ(PackedOrigin::open(settings, {}).error().code, EINVAL);
    settings = settings_;
    settings.pack = folder_ / "another";
    EXPECT_EQ(PackedOrigin::open(settings, {}).error().code, ENOENT);
}

TEST_F(PackedOriginTest, WhoTakesOverNeedsNoManifest) {
    ASSERT_TRUE(open());
    fs::remove_all(folder_ / "dest");
    fs::create_directory(folder_ / "dest");
    EXPECT_EQ(PackedOrigin::open(settings_, {}).error().code, ENOENT);
    const auto origin = open({folder_ / "none", folder_ / "local"});
    ASSERT_TRUE(origin);
    EXPECT_EQ(read(*origin, "d2/f2", 3, 9).value_or("?"), files_["d2/f2"].substr(3, 9));
}

/// Answers when it is told to.
class SlowDest : public Origin {
  public:
    [[nodiscard]] std::string identity() const override { return "slow"; }
    [[nodiscard]] std::string kind() const override { return "slow"; }
    Result<void> check() override { return {}; }
    Result<Attributes> stat(const std::string&) override { return fail(ENOENT, ""); }
    Result<ListPage> list(const std::string&, const std::string&) override { return fail(ENOENT, ""); }
    Result<std::string> read_link(const std::string&) override { return fail(ENOENT, ""); }
    void read(OriginRead request) override { waiting.push_back(std::move(request)); }
    [[nodiscard]] OriginStats stats() const override { return {}; }
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string&) const override { return 0; }
    void stop() override {}

    std::vector<OriginRead> waiting;
};

TEST(PackExtentReads, PutsNeighboursTogether) {
    constexpr std::uint64_t kSize = 5000;
    SlowDest dest, source;
    pack::ExtentReads reads(dest, source);
    std::vector<std::vector<std::byte>> buffers(200, std::vector<std::byte>(kSize));
    unsigned right = 0;
    const auto content = [](std::uint64_t at) { return static_cast<std::byte>(at * 31 + at / 777); };
    const auto ask = [&](unsigned number) {
        pack::ExtentRead read;
        read.id = {number, 1};
        read.size = kSize;
        read.extent = "extents/e";
        read.place.offset = 4096 + align_up(kSize) * number;
        read.place.stored = kSize;
        std::vector<std::byte> bytes(kSize);
        for (std::uint64_t i = 0; i < kSize; ++i) bytes[i] = content(read.place.offset + i);
        read.place.sums = {unit_checksum(read.id, 0, kExtentUnit, bytes)};
        read.request.path = "f" + std::to_string(number);
        read.request.destination = buffers[number];
        read.request.priority = Priority::fill;
        read.request.done = [&right, &buffers, number, bytes](const Result<void>& result) {
            right += result && buffers[number] == bytes ? 1 : 0;
        };
        reads.read(std::move(read));
    };
    for (unsigned i = 0; i < 200; ++i) ask(i * 77 % 200);
    EXPECT_EQ(dest.waiting.size(), 8U) << "so many at a time";
    while (!dest.waiting.empty()) {
        auto request = std::move(dest.waiting.back());
        dest.waiting.pop_back();
        for (std::size_t i = 0; i < request.destination.size(); ++i)
            request.destination[i] = content(request.offset + i);
        request.done({});
    }
    EXPECT_EQ(right, 200U);
    EXPECT_LE(reads.stats().requests, 12U) << "what waited came at once";
    EXPECT_EQ(reads.stats().bytes, 200 * kSize);
    EXPECT_TRUE(source.waiting.empty());
}

TEST(PackExtentReads, LeavesADestAloneThatIsOutOfReach) {
    SlowDest dest, source;
    pack::ExtentReads reads(dest, source);
    std::vector<std::byte> buffer(10);
    const auto ask = [&](Priority priority) {
        pack::ExtentRead read;
        read.size = read.place.stored = 10;
        read.place.sums = {1};
        read.request.destination = buffer;
        read.request.priority = priority;
        read.request.done = [](const Result<void>&) {};
        reads.read(std::move(read));
    };
    ask(Priority::demand);
    ASSERT_EQ(dest.waiting.size(), 1U);
    dest.waiting[0].done(fail(ETIMEDOUT, "no answer"));
    EXPECT_EQ(source.waiting.size(), 1U);
    ask(Priority::demand);
    ask(Priority::fill);
    EXPECT_EQ(dest.waiting.size(), 1U);
    EXPECT_EQ(source.waiting.size(), 3U);
    EXPECT_EQ(reads.stats().failed, 1U);
}

}  // namespace packed_origin_test
}  // namespace tierfs
