#include "fs/readwrite/live_passthrough.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <utility>

#include "backends/dir/posix_directory.hpp"

namespace tierfs {
namespace live_passthrough_test {

bool may_keep_set_id() {
    __user_cap_header_struct about{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
    ::syscall(SYS_capget, &about, sets.data());
    return (sets[0].effective & (1U << CAP_FSETID)) != 0;
}

class FakeIds final : public BackingIds {
  public:
    Result<std::int32_t> add(int file) override {
        EXPECT_EQ(::fcntl(file, F_GETFL) & O_ACCMODE, O_RDONLY);
        EXPECT_FALSE(may_keep_set_id()) << "the kernel would write with the right to keep these bits";
        if (meanwhile) std::exchange(meanwhile, nullptr)();
        if (error != 0) return fail(error, "refused");
        ids.insert(++last);
        return last;
    }
    void remove(std::int32_t id) override { EXPECT_EQ(ids.erase(id), 1U); }

    std::function<void()> meanwhile;  ///< what happens while a file is being registered, once
    int error = 0;
    std::int32_t last = 0;
    std::set<std::int32_t> ids;
};

class LivePassthroughTest : public testing::Test {
  protected:
    void SetUp() override {
        std::ofstream(path_) << "content";
        struct stat found {};
        ASSERT_EQ(::stat(path_.c_str(), &found), 0);
        node = std::make_shared<LiveNode>(7, PosixIdentity{found.st_dev, found.st_ino, 0}, S_IFREG);
        passthrough.allow(ids, found.st_dev);
    }
    void TearDown() override { std::filesystem::remove(path_); }

    PosixFilePtr file(int flags) {
        return make_posix_file(FileDescriptor(::open(path_.c_str(), flags | O_CLOEXEC)),
                               std::make_shared<PosixCounters>());
    }
    std::int32_t open(int flags, bool is_wanted = true) {
        return passthrough.open(*node, *file(flags), flags, is_wanted);
    }
    [[nodiscard]] struct stat status() const {
        struct stat found {};
        EXPECT_EQ(::stat(path_.c_str(), &found), 0);
        return found;
    }

    const std::string path_ = testing::TempDir() + "live-passthrough-" + std::to_string(::getpid());
    LiveNodePtr node;
    FakeIds ids;
    LivePassthrough passthrough{false};
};

TEST_F(LivePassthroughTest, OneNumberForANodeUntilItsLastClose) {
    const auto first = open(O_WRONLY);
    EXPECT_NE(first, 0);
    EXPECT_EQ(open(O_RDONLY, false), first) << "the kernel refuses another mode";
    EXPECT_EQ(passthrough.status().open_files, 1U);
    EXPECT_EQ(passthrough.status().opens, 2U);
    passthrough.close(node);
    EXPECT_EQ(ids.ids.size(), 1U);
    passthrough.close(node);
    EXPECT_TRUE(ids.ids.empty());
    EXPECT_EQ(passthrough.status().open_files, 0U);
    EXPECT_EQ(open(O_RDONLY, false), 0);
    EXPECT_EQ(open(O_WRONLY), 0) << "beside a reader through the tiers";
    passthrough.close(node);
    passthrough.close(node);
    EXPECT_NE(open(O_WRONLY), 0);
    passthrough.close(node);
}

TEST_F(LivePassthroughTest, WhoComesSecondTakesWhatTheFirstDecided) {
    std::int32_t first = 0;
    ids.meanwhile = [&] { first = open(O_RDWR); };
    EXPECT_EQ(open(O_WRONLY), first);
    EXPECT_NE(first, 0);
    EXPECT_EQ(ids.ids.size(), 1U) << "the other one is given up";
    passthrough.close(node);
    passthrough.close(node);
    ids.meanwhile = [&] { EXPECT_EQ(open(O_RDONLY, false), 0); };
    EXPECT_EQ(open(O_WRONLY), 0) << "beside a reader through the tiers";
    EXPECT_TRUE(ids.ids.empty());
    EXPECT_EQ(passthrough.status().open_files, 0U);
    passthrough.close(node);
    passthrough.close(node);
}

TEST_F(LivePassthroughTest, RefusalForGoodAndForAMoment) {
    ids.error = ENOMEM;
    EXPECT_EQ(open(O_WRONLY), 0);
    passthrough.close(node);
    EXPECT_TRUE(passthrough.status().enabled);
    ids.error = EPERM;
    EXPECT_EQ(open(O_WRONLY), 0);
    passthrough.close(node);
    EXPECT_FALSE(passthrough.status().enabled);
    EXPECT_NE(passthrough.status().reason.find("refused"), std::string::npos);
    ids.error = 0;
    EXPECT_EQ(open(O_WRONLY), 0);
    passthrough.close(node);
}

TEST_F(LivePassthroughTest, ForbiddenWhileFilesAreOpen) {
    EXPECT_NE(open(O_WRONLY), 0);
    passthrough.forbid("for a test");
    EXPECT_NE(open(O_RDONLY, false), 0);
    passthrough.close(node);
    passthrough.close(node);
    EXPECT_TRUE(ids.ids.empty());
    EXPECT_EQ(open(O_WRONLY), 0);
    EXPECT_EQ(passthrough.status().reason, "for a test");
}

TEST_F(LivePassthroughTest, WhoOnlyWritesMapsNothing) {
    EXPECT_NE(open(O_WRONLY), 0);
    EXPECT_FALSE(passthrough.may_be_mapped(*node));
    passthrough.close(node);
    EXPECT_FALSE(passthrough.may_be_mapped(*node));
}

TEST_F(LivePassthroughTest, AMappingOutlivesItsDescriptor) {
    void* memory = nullptr;
    {
        // As the kernel has it: an open of its own, which the mapping keeps.
        const FileDescriptor kernels(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_NE(open(O_RDWR), 0);
        memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, kernels.get(), 0);
        ASSERT_NE(memory, MAP_FAILED);
    }
    passthrough.close(node);
    EXPECT_TRUE(passthrough.may_be_mapped(*node));
    EXPECT_TRUE(ids.ids.empty());
    passthrough.tick();
    EXPECT_TRUE(passthrough.may_be_mapped(*node));
    const auto before = status();
    static_cast<char*>(memory)[0] = 'C';
    ASSERT_EQ(::munmap(memory, 4096), 0);
    ::usleep(20'000);  // beyond a tick of the file system's clock
    passthrough.tick();
    EXPECT_FALSE(passthrough.may_be_mapped(*node));
    const auto after = status();
    EXPECT_GT(to_ns(after.st_ctim.tv_sec, after.st_ctim.tv_nsec),
              to_ns(after.st_mtim.tv_sec, after.st_mtim.tv_nsec))
        << "what was read during the mapping passes for the latest";
    EXPECT_GT(to_ns(after.st_mtim.tv_sec, after.st_mtim.tv_nsec),
              to_ns(before.st_mtim.tv_sec, before.st_mtim.tv_nsec));
}

TEST_F(LivePassthroughTest, WhatWasNotChangedKeepsItsTimes) {
    struct statfs found {};
    ASSERT_EQ(::statfs(path_.c_str(), &found), 0);
    if (!tells_of_mappings(found.f_type)) GTEST_SKIP() << "its file system does not tell of mappings";
    const auto before = status();
    EXPECT_NE(open(O_RDWR), 0);
    passthrough.close(node);
    EXPECT_FALSE(passthrough.may_be_mapped(*node));
    EXPECT_EQ(status().st_ctim.tv_nsec, before.st_ctim.tv_nsec);
}

TEST_F(LivePassthroughTest, WhatTheKernelForgetsIsLetGoOf) {
    // Stands for a lease that cannot be had: somebody has it open for writing all the time.
    const FileDescriptor writer(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    for (int i = 0; i < 3; ++i) {
        EXPECT_NE(open(O_RDWR), 0);
        passthrough.close(node);
    }
    const std::weak_ptr<LiveNode> seen = node;
    passthrough.tick();
    node.reset();
    EXPECT_FALSE(seen.expired()) << "watched";
    ASSERT_EQ(::pwrite(writer.get(), "C", 1, 0), 1);
    ::usleep(20'000);  // beyond a tick of the file system's clock
    passthrough.tick();
    EXPECT_TRUE(seen.expired());
    const auto after = status();
    EXPECT_GT(to_ns(after.st_ctim.tv_sec, after.st_ctim.tv_nsec),
              to_ns(after.st_mtim.tv_sec, after.st_mtim.tv_nsec));
}

TEST_F(LivePassthroughTest, FlagsThatTheKernelHoldsOnTo) {
    for (const int flags : {O_WRONLY | O_APPEND, O_WRONLY | O_DIRECT}) {
        EXPECT_EQ(passthrough.open(*node, *file(O_WRONLY), flags, true), 0);
        passthrough.close(node);
    }
    LivePassthrough asked_for{true};
    asked_for.allow(ids, 0);
    EXPECT_NE(asked_for.open(*node, *file(O_WRONLY), O_WRONLY | O_APPEND, true), 0);
    asked_for.close(node);
    EXPECT_NE(open(O_WRONLY), 0);
    EXPECT_NE(passthrough.open(*node, *file(O_WRONLY), O_WRONLY | O_APPEND, true), 0) << "another mode";
    passthrough.close(node);
    passthrough.close(node);
}

TEST_F(LivePassthroughTest, OtherDevicesAreJudgedByTheirFileSystem) {
    passthrough.allow(ids, status().st_dev + 1);
    EXPECT_NE(open(O_WRONLY), 0) << "tests run on a local file system";
    passthrough.close(node);
}

TEST(LivePassthroughChoiceTest, LocalFileSystems) {
    EXPECT_TRUE(is_local_file_system(EXT4_SUPER_MAGIC));
    EXPECT_TRUE(is_local_file_system(0x58465342));
    EXPECT_TRUE(is_local_file_system(BTRFS_SUPER_MAGIC));
    EXPECT_TRUE(is_local_file_system(TMPFS_MAGIC));
    EXPECT_FALSE(is_local_file_system(NFS_SUPER_MAGIC));
    EXPECT_FALSE(is_local_file_system(0x65735546)) << "FUSE";
    EXPECT_FALSE(is_local_file_system(0x794c7630)) << "overlayfs";
    EXPECT_FALSE(is_local_file_system(0x0bd00bd0)) << "Lustre";
    EXPECT_FALSE(is_local_file_system(0x19830326)) << "BeeGFS";
    EXPECT_FALSE(is_local_file_system(0x47504653)) << "Storage Scale";
}

TEST(LivePassthroughChoiceTest, WhoTellsOfMappings) {
    EXPECT_TRUE(tells_of_mappings(EXT4_SUPER_MAGIC));
    EXPECT_TRUE(tells_of_mappings(0x58465342)) << "XFS";
    EXPECT_FALSE(tells_of_mappings(TMPFS_MAGIC));
    EXPECT_FALSE(tells_of_mappings(RAMFS_MAGIC));
    EXPECT_FALSE(tells_of_mappings(NFS_SUPER_MAGIC)) << "nobody knows";
}

TEST(LivePassthroughChoiceTest, WhatIsAgainstIt) {
    EXPECT_EQ(against_live_passthrough("auto", "", EXT4_SUPER_MAGIC), "");
    EXPECT_EQ(against_live_passthrough("true", "", EXT4_SUPER_MAGIC), "");
    EXPECT_EQ(against_live_passthrough("true", "", NFS_SUPER_MAGIC), "");
    EXPECT_NE(against_live_passthrough("auto", "", NFS_SUPER_MAGIC), "");
    EXPECT_EQ(against_live_passthrough("auto", "", 0), "");
    EXPECT_EQ(against_live_passthrough("true", "it is no file", 0), "it is no file");
    EXPECT_EQ(against_live_passthrough("false", "", EXT4_SUPER_MAGIC), "writes.passthrough=false");
}

}  // namespace live_passthrough_test
}  // namespace tierfs
