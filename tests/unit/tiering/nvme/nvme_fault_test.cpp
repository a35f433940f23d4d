// Devices that fail: the tier gets smaller or stops, its callers never fail.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_fault_test {

constexpr std::uint64_t kMiB = 1 << 20;

class NvmeFaultTest : public NvmeTest {
  protected:
    void SetUp() override {
        NvmeTest::SetUp();
        hooks_.now = [this] { return Health::Clock::time_point(std::chrono::milliseconds(clock_ms_)); };
        hooks_.fault = [this](DiskOperation operation) {
            if (operation == DiskOperation::read) return read_fault_.load();
            if (operation == DiskOperation::unlink) return unlink_fault_.load();
            if (operation == DiskOperation::write && write_faults_left_ > 0) {
                --write_faults_left_;
                return write_fault_.load();
            }
            return 0;
        };
    }
    std::string state() { return tier_->stats().state; }

    std::atomic<std::int64_t> clock_ms_{1'000'000};
    std::atomic<int> read_fault_{0}, unlink_fault_{0}, write_fault_{EIO}, write_faults_left_{0};
};

TEST_F(NvmeFaultTest, ENOSPCOnceMakesRoomAndTriesAgain) {
    open();
    for (std::uint64_t at = 0; at < 4; ++at) put(at, 900000);
    tier_->flush();
    write_fault_ = ENOSPC;
    write_faults_left_ = 1;
    put(10, 900000);
    tier_->flush();
    EXPECT_EQ(get(10, 900000), Got::right);
    EXPECT_EQ(state(), "normal");
    EXPECT_GT(tier_->stats().evicted_bytes, 0U);
    write_faults_left_ = 1;
    put(11, 2 * kMiB);
    tier_->flush();
    EXPECT_EQ(get(11, 2 * kMiB), Got::right);
    EXPECT_EQ(state(), "normal");
}

TEST_F(NvmeFaultTest, AFailedWriteIsUnstableForAWhile) {
    std::uint64_t number = 0;  // new objects in each round: what was erased may come back at an open
    for (const std::uint64_t size : {std::uint64_t{5000}, 2 * kMiB}) {
        for (const int code : {EIO, EROFS, ENOSPC}) {
            open();
            number += 10;
            put(number + 0, 5000);
            tier_->flush();
            write_fault_ = code;
            write_faults_left_ = 2;
            put(number + 1, size);
            tier_->flush();
            write_faults_left_ = 0;
            EXPECT_EQ(state(), "unstable");
            EXPECT_EQ(get(number + 1, size), Got::miss);
            if (code != ENOSPC) {
                EXPECT_EQ(get(number + 0, 5000), Got::right);
            }
            put(number + 2, size);
            tier_->flush();
            EXPECT_EQ(get(number + 2, size), Got::miss);  // not tried yet
            clock_ms_ += 11'000;
            put(number + 1, size);
            tier_->flush();
            EXPECT_EQ(state(), "normal");
            EXPECT_EQ(get(number + 1, size), Got::right);
        }
    }
}

TEST_F(NvmeFaultTest, AFailedIndexIsAFailedWriteAndTakesNoSpace) {
    open();
    put(0, 5000);
    tier_->flush();
    const auto extent = files_with(".extent").at(0);
    index_.fail_commits(1);
    put(1, 5000);
    tier_->flush();
    EXPECT_EQ(state(), "unstable");
    EXPECT_EQ(get(1, 5000), Got::miss);
    EXPECT_EQ(std::filesystem::file_size(extent), 4096U + 8192U) << "the chunk before, and nothing else";
    clock_ms_ += 11'000;
    put(1, 5000);
    tier_->flush();
    EXPECT_EQ(state(), "normal");
    EXPECT_EQ(get(0, 5000), Got::right);
    EXPECT_EQ(get(1, 5000), Got::right);
    // The first chunk of an extent: the whole extent goes.
    tier_->close();
    open();
    index_.fail_commits(1);
    put(2, 5000);
    tier_->flush();
    EXPECT_EQ(files_with(".extent").size(), 2U);
    EXPECT_EQ(get(2, 5000), Got::miss);
}

TEST_F(NvmeFaultTest, ManyFailedWritesTakeItDownButWhatIsThereIsRead) {
    open();
    put(0, 5000);
    tier_->flush();
    write_faults_left_ = 1000;
    for (std::uint64_t at = 1; at < 20; ++at) {
        put(at, 5000);
        tier_->flush();
        clock_ms_ += 11'000;
    }
    EXPECT_EQ(state(), "down");
    write_faults_left_ = 0;
    put(30, 5000);
    tier_->flush();
    EXPECT_EQ(get(30, 5000), Got::miss);
    EXPECT_EQ(get(0, 5000), Got::right);
}

TEST_F(NvmeFaultTest, FailingReadsAreMissesAndThenNoReads) {
    open();
    put(0, 5000);
    put(1, 2 * kMiB);
    for (std::uint64_t at = 10; at < 20; ++at) put(at, 5000);
    tier_->flush();
    read_fault_ = EIO;
    EXPECT_EQ(get(0, 5000), Got::miss);
    EXPECT_EQ(get(1, 2 * kMiB), Got::miss);
    EXPECT_EQ(state(), "normal");
    read_fault_ = 0;
    EXPECT_EQ(get(0, 5000), Got::right);  // nothing was dropped
    read_fault_ = EIO;
    for (std::uint64_t at = 10; at < 20; ++at) EXPECT_EQ(get(at, 5000), Got::miss);
    EXPECT_EQ(state(), "down");
    read_fault_ = 0;
    EXPECT_EQ(get(0, 5000), Got::miss);
    EXPECT_FALSE(tier_->contains(object_id(0), 5000, 0));
}

TEST_F(NvmeFaultTest, SparseErrorsDoNotTakeItDown) {
    open();
    put(0, 5000);
    tier_->flush();
    for (int round = 0; round < 50; ++round) {
        read_fault_ = EIO;
        EXPECT_EQ(get(0, 5000), Got::miss);
        read_fault_ = 0;
        EXPECT_EQ(get(0, 5000), Got::right);
        clock_ms_ += 30'000;
    }
    EXPECT_EQ(state(), "normal");
}

TEST_F(NvmeFaultTest, WhatFailsTwiceInARowIsDroppedAndTheRestIsRead) {
    open();
    put(0, 5000);
    put(1, 5000);
    put(2, 2 * kMiB);
    tier_->flush();
    read_fault_ = EIO;
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(get(0, 5000), Got::miss);
        EXPECT_EQ(get(2, 2 * kMiB, 3 * kBlockSize, kBlockSize), Got::miss);
    }
    tier_->flush();
    // Nobody asks the device for these any more.
    for (int round = 0; round < 20; ++round) {
        read_fault_ = EIO;
        EXPECT_EQ(get(0, 5000), Got::miss);
        read_fault_ = 0;
        EXPECT_EQ(get(1, 5000), Got::right);
        EXPECT_EQ(get(2, 2 * kMiB, 3 * kBlockSize, kBlockSize), Got::miss);
        EXPECT_EQ(get(2, 2 * kMiB, 4 * kBlockSize, kBlockSize), Got::right);
    }
    EXPECT_EQ(state(), "normal");
    EXPECT_FALSE(tier_->contains(object_id(0), 5000, 0));
    EXPECT_FALSE(tier_->contains(object_id(2), 2 * kMiB, 3));
    put(0, 5000);  // another place
    tier_->flush();
    EXPECT_EQ(get(0, 5000), Got::right);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
}

TEST_F(NvmeFaultTest, AFolderThatCannotBeWrittenIsAnError) {
    options_.devices = {NvmePlace::at(directory_ / "absent")};
    EXPECT_FALSE(NvmeTier::open(options_, index_).has_value());
}

TEST_F(NvmeFaultTest, WhatCannotBeUnlinkedIsNotAllForgotten) {
    options_.limit = 64 << 20;
    open();
    for (std::uint64_t at = 0; at < 50; ++at) put(at, 900000);
    tier_->flush();
    unlink_fault_ = EIO;
    for (std::uint64_t at = 100; at < 130; ++at) {
        put(at, 900000);
        tier_->flush();
    }
    EXPECT_NE(state(), "normal");
    unsigned here = 0;
    for (std::uint64_t at = 0; at < 50; ++at) here += get(at, 900000) == Got::right ? 1U : 0U;
    EXPECT_GT(here, 40U);
    // At the start too, when the limit was lowered.
    tier_->close();
    options_.limit = 16 << 20;
    open();
    tier_->flush();
    unsigned left = 0;
    for (std::uint64_t at = 0; at < 50; ++at) left += get(at, 900000) == Got::right ? 1U : 0U;
    EXPECT_GE(left + 1, here);
}

TEST_F(NvmeFaultTest, AReadOnlyFileSystemGoesOnBeingRead) {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting a small tmpfs needs root";
    const auto mountpoint = directory_ / "small";
    std::filesystem::create_directory(mountpoint);
    if (::mount("tierfs-test", mountpoint.c_str(), "tmpfs", 0, "size=80m") != 0) {
        GTEST_SKIP() << "no tmpfs can be mounted here: " << std::strerror(errno);
    }
    options_.devices = {NvmePlace::at(mountpoint)};
    options_.limit = 64 << 20;
    open();
    for (std::uint64_t at = 0; at < 40; ++at) put(at, at % 2 == 0 ? 900000 : kMiB + 5);
    tier_->close();
    tier_.reset();
    EXPECT_EQ(::mount(nullptr, mountpoint.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    options_.limit = 32 << 20;
    open();
    tier_->flush();
    put(100, 900000);
    tier_->flush();
    for (std::uint64_t at = 0; at < 40; ++at) {
        EXPECT_EQ(get(at, at % 2 == 0 ? 900000 : kMiB + 5), Got::right) << at;
    }
    tier_->close();
    tier_.reset();
    EXPECT_EQ(::umount(mountpoint.c_str()), 0);
}

TEST_F(NvmeFaultTest, AFullFileSystemMakesTheTierSmaller) {
    if (::geteuid() != 0) GTEST_SKIP() << "mounting a small tmpfs needs root";
    const auto mountpoint = directory_ / "small";
    std::filesystem::create_directory(mountpoint);
    if (::mount("tierfs-test", mountpoint.c_str(), "tmpfs", 0, "size=12m") != 0) {
        GTEST_SKIP() << "no tmpfs can be mounted here: " << std::strerror(errno);
    }
    options_.devices = {NvmePlace::at(mountpoint)};
    options_.limit = 64 << 20;
    open();
    for (std::uint64_t at = 0; at < 60; ++at) {
        put(at, at % 7 == 0 ? 2 * kMiB : 600000);
        tier_->flush();
        clock_ms_ += 11'000;
        EXPECT_NE(state(), "down");
    }
    EXPECT_EQ(get(59, 600000), Got::right);
    for (std::uint64_t at = 0; at < 60; ++at) {
        EXPECT_NE(get(at, at % 7 == 0 ? 2 * kMiB : 600000), Got::wrong);
    }
    EXPECT_EQ(tier_->checksum_errors(), 0U);
    tier_->close();
    tier_.reset();
    EXPECT_EQ(::umount(mountpoint.c_str()), 0);
}

}  // namespace nvme_fault_test
}  // namespace tierfs::testing
