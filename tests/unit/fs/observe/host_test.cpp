// What the doctor sees of a host that is made of files, and what it says of it.
#include "fs/observe/host.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>

#include "fs/observe/rules.hpp"
#include "tests/unit/fs/gds/host_tree.hpp"

namespace tierfs {
namespace host_test {

/// The cache lies in a folder of this machine; the tree says that its device is a partition of nvme0.
class HostChecks : public gds::HostTree {
  protected:
    static constexpr const char* kDevice = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

    void SetUp() override {
        HostTree::SetUp();
        snapshot_.pid = 4711;
        snapshot_.devices = {{root_.string(), "normal", "", 1, 0}};
        struct stat found {};
        ASSERT_EQ(::stat(root_.c_str(), &found), 0);
        number_ = std::to_string(major(found.st_dev)) + ":" + std::to_string(minor(found.st_dev));
        const auto disk = nvme("nvme0", "0000:3b:00.0", "259", "1");
        write(disk + "/queue/rotational", "0");
        link("/sys/dev/block/" + number_, disk + "/nvme0n1p1");
        write("/sys/class/nvme/nvme0/state", "live");
        for (const auto* node : {"0", "1"})
            write(std::string("/sys/devices/system/node/node") + node + "/cpulist",
                  node == std::string("0") ? "0-3" : "4-7");
        write("/proc/4711/status", "Name:\ttierfs\nCpus_allowed_list:\t0-7");
        write("/proc/4711/limits",
              "Max open files            1048576              1048576              files");
        write("/proc/self/status", "CapEff:\t0000000000000000");
        write("/proc/self/limits",
              "Max locked memory         unlimited            unlimited            bytes");
        write("/proc/sys/kernel/io_uring_disabled", "0");
        write("/sys/class/bdi/0:52/read_ahead_kb", "512");
        mounted("rw,noatime");
    }

    void mounted(const std::string& options) {
        write("/proc/self/mountinfo",
              "20 1 " + number_ + " / / " + options + " shared:1 - xfs /dev/nvme0n1p1 rw");
    }

    [[nodiscard]] std::vector<std::string> found() const {
        Facts facts;
        facts.interval = snapshot_;
        facts.host = look_at_host("0:52", snapshot_, {root_.string(), [this](const std::string& name) {
                                                          return name == "nvme0" ? health_ : std::nullopt;
                                                      }});
        facts.host.kernel_major = 6;
        facts.host.kernel_minor = 12;
        std::vector<std::string> ids;
        for (const auto& finding : check_host(facts)) {
            ids.push_back(finding.id);
            EXPECT_FALSE(finding.evidence.empty() || finding.advice.empty()) << finding.id;
        }
        return ids;
    }
    using Ids = std::vector<std::string>;

    Snapshot snapshot_;
    std::string number_;
    std::optional<NvmeHealth> health_ = NvmeHealth{0, 40, 100, 10, 3, 0, 0};
};

TEST_F(HostChecks, AGoodHostHasNothingToChange) {
    EXPECT_EQ(found(), Ids{});
    health_.reset();
    EXPECT_EQ(found(), Ids{}) << "a controller that cannot be asked";
}

TEST_F(HostChecks, OfNothingComesNothing) {
    const Host host = look_at_host("nonsense", snapshot_, {"/nonexistent", {}});
    ASSERT_EQ(host.devices.size(), 1U);
    EXPECT_TRUE(host.devices[0].controllers.empty() && !host.open_files && !host.read_ahead_kib);
    snapshot_.devices[0].path = "/nonexistent/cache";
    EXPECT_EQ(found(), Ids{});
}

TEST_F(HostChecks, ReadAheadSchedulerAndDisksThatRotate) {
    write("/sys/class/bdi/0:52/read_ahead_kb", "16");
    const auto disk = std::string(kDevice) + "/nvme/nvme0/nvme0n1";
    link("/sys/dev/block/" + number_, disk);
    write(disk + "/queue/scheduler", "none [mq-deadline]");
    EXPECT_EQ(found(), (Ids{"read-ahead", "scheduler"}));
    write(disk + "/queue/rotational", "1");
    EXPECT_EQ(found(), (Ids{"read-ahead", "rotating-disk"}));
}

TEST_F(HostChecks, Descriptors) {
    write("/proc/4711/limits", "Max open files            1024                 1048576              files");
    EXPECT_EQ(found(), Ids{"descriptors"});
}

TEST_F(HostChecks, LockedMemoryOfWhoAsks) {
    write("/proc/self/limits", "Max locked memory         8388608              8388608              bytes");
    EXPECT_EQ(found(), Ids{"memlock"});
    write("/proc/self/status", "CapEff:\t0000000000004000");
    EXPECT_EQ(found(), Ids{}) << "CAP_IPC_LOCK";
    write("/proc/self/status", "CapEff:\t0000000000000000");
    write("/proc/self/limits", "Max locked memory         134217728            134217728            bytes");
    EXPECT_EQ(found(), Ids{});
}

TEST_F(HostChecks, IoUringThatIsForbidden) {
    write("/proc/sys/kernel/io_uring_disabled", "1");
    EXPECT_EQ(found(), Ids{"io-uring"});
    write("/proc/self/status", "CapEff:\t0000000000200000");
    EXPECT_EQ(found(), Ids{}) << "CAP_SYS_ADMIN";
    write("/proc/sys/kernel/io_uring_disabled", "2");
    EXPECT_EQ(found(), Ids{"io-uring"});
    remove("/proc/sys/kernel/io_uring_disabled");
    EXPECT_EQ(found(), Ids{}) << "a kernel that does not know it";
}

TEST_F(HostChecks, ADaemonThatMayNotRunWhereItsDeviceIs) {
    write("/proc/4711/status", "Cpus_allowed_list:\t0,2-3");
    EXPECT_EQ(found(), Ids{"numa"});
    write("/proc/4711/status", "Cpus_allowed_list:\t3-4");
    EXPECT_EQ(found(), Ids{}) << "it may run at both nodes";
    write("/proc/4711/status", "Cpus_allowed_list:\t0,2-3");
    write(std::string(kDevice) + "/numa_node", "-1");
    EXPECT_EQ(found(), Ids{}) << "the kernel does not know the device's node";
    write(std::string(kDevice) + "/numa_node", "1");
    remove("/sys/devices/system/node/node1");
    EXPECT_EQ(found(), Ids{}) << "a node without processors";
}

TEST_F(HostChecks, ALinkThatWasTrainedDown) {
    write(std::string(kDevice) + "/current_link_width", "2");
    EXPECT_EQ(found(), Ids{"pcie-link"});
    write(std::string(kDevice) + "/current_link_width", "4");
    write(std::string(kDevice) + "/current_link_speed", "8.0 GT/s PCIe");
    EXPECT_EQ(found(), Ids{"pcie-link"});
    remove(std::string(kDevice) + "/current_link_speed");
    EXPECT_EQ(found(), Ids{}) << "not known";
}

TEST_F(HostChecks, HealthOfTheDevice) {
    const NvmeHealth well = *health_;
    const auto with = [&](unsigned NvmeHealth::*member, unsigned value) {
        health_ = well;
        (*health_).*member = value;
        return found();
    };
    EXPECT_EQ(with(&NvmeHealth::critical_warning, NvmeHealth::kReadOnly), Ids{"nvme-health"});
    EXPECT_EQ(with(&NvmeHealth::critical_warning, NvmeHealth::kUnreliable), Ids{"nvme-health"});
    EXPECT_EQ(with(&NvmeHealth::critical_warning, NvmeHealth::kTemperature), Ids{"nvme-hot"});
    EXPECT_EQ(with(&NvmeHealth::spare_percent, 9), Ids{"nvme-health"});
    EXPECT_EQ(with(&NvmeHealth::worn_percent, 89), Ids{});
    EXPECT_EQ(with(&NvmeHealth::worn_percent, 104), Ids{"nvme-health"});
    health_ = well;
    health_->media_errors = 1;
    EXPECT_EQ(found(), Ids{"nvme-health"});
    health_.reset();
    write("/sys/class/nvme/nvme0/state", "resetting");
    EXPECT_EQ(found(), Ids{"nvme-health"}) << "said without the log too";
}

TEST_F(HostChecks, TimesOfAccess) {
    mounted("rw,relatime");
    EXPECT_EQ(found(), Ids{"atime"});
}

TEST_F(HostChecks, AnArrayBelowTheTier) {
    const std::string md = "/sys/devices/virtual/block/md0";
    block(md, "9:0");
    write(md + "/queue/rotational", "0");
    write(md + "/md/level", "raid0");
    link(md + "/slaves/nvme0n1p1", std::string(kDevice) + "/nvme/nvme0/nvme0n1/nvme0n1p1");
    nvme("nvme1", "0000:3d:00.0", "260");
    link(md + "/slaves/nvme1n1", std::string(kPort) + "/0000:3d:00.0/nvme/nvme1/nvme1n1");
    link("/sys/dev/block/" + number_, md);
    EXPECT_EQ(found(), Ids{"raid"});
    health_->media_errors = 3;
    EXPECT_EQ(found(), (Ids{"raid", "nvme-health"})) << "the devices below are looked at";
}

TEST_F(HostChecks, WhatDevicesAreReadAndTheirLinksCarry) {
    EXPECT_TRUE(cache_device_reads(snapshot_, {root_.string(), {}}).empty());
    write(std::string(kDevice) + "/nvme/nvme0/nvme0n1/nvme0n1p1/stat",
          "     100        7     2048       30 5 6 7 8");
    const auto reads = cache_device_reads(snapshot_, {root_.string(), {}});
    ASSERT_EQ(reads.size(), 1U);
    EXPECT_EQ(reads.at(root_.string()), 2048U * 512);
    write("/sys/class/nvme/nvme1/state", "live");
    const auto none = [](const std::string& /*name*/) { return std::optional<NvmeHealth>(); };
    const Host host = look_at_host("0:52", snapshot_, {root_.string(), none});
    EXPECT_EQ(host.nvme_controllers, 2U);
    ASSERT_EQ(host.devices.at(0).controllers.size(), 1U);
    EXPECT_NEAR(host.devices[0].controllers[0].link_bytes_per_s, 15.75e9, 0.01e9) << "32 GT/s, 4 lanes";
}

TEST(NvmeHealthLog, HasItsFiguresWhereTheSpecificationSays) {
    std::array<std::byte, NvmeHealth::kLogSize> log{};
    const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
        for (std::size_t i = 0; i < bytes; ++i) log.at(at + i) = static_cast<std::byte>(value >> (8 * i));
    };
    put(0, 0x0a, 1);
    put(1, 273 + 71, 2);
    put(3, 42, 1);
    put(4, 10, 1);
    put(5, 104, 1);
    put(160, 0x123456789a, 8);
    put(192, 7, 4);
    put(196, 5, 4);
    const auto health = parse_nvme_health(log);
    EXPECT_EQ(health.critical_warning, NvmeHealth::kTemperature | NvmeHealth::kReadOnly);
    EXPECT_EQ(health.celsius, 71);
    EXPECT_EQ(health.spare_percent, 42U);
    EXPECT_EQ(health.spare_threshold, 10U);
    EXPECT_EQ(health.worn_percent, 104U);
    EXPECT_EQ(health.media_errors, 0x123456789aU);
    EXPECT_EQ(health.throttled_minutes, 12U);
    put(168, 1, 1);
    EXPECT_EQ(parse_nvme_health(log).media_errors, ~std::uint64_t{0});
    EXPECT_FALSE(read_nvme_health("nonexistent") || read_nvme_health("../null"));
}

}  // namespace host_test
}  // namespace tierfs
