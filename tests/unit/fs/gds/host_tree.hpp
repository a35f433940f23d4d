// A machine made up of files: /sys, /proc and /run/udev below a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fs/gds/check.hpp"

namespace tierfs::gds {

class HostTree : public ::testing::Test {
  protected:
    static constexpr const char* kPort = "/sys/devices/pci0000:3a/0000:3a:00.0";

    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "tierfs-host-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        root_ = name;
    }
    void TearDown() override {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }

    [[nodiscard]] HostFiles files() const { return HostFiles(root_.string()); }

    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root_ / path.substr(1)).parent_path());
        std::ofstream(root_ / path.substr(1), std::ios::binary) << text << "\n";
    }
    void remove(const std::string& path) { std::filesystem::remove_all(root_ / path.substr(1)); }

    /// A link from one path to another, relative as the kernel's are.
    void link(const std::string& path, const std::string& target) {
        const auto place = root_ / path.substr(1);
        std::filesystem::create_directories(place.parent_path());
        std::filesystem::remove(place);
        std::filesystem::create_symlink((root_ / target.substr(1)).lexically_relative(place.parent_path()),
                                        place);
    }

    void pci(const std::string& path, const std::string& node, const std::string& width) {
        write(path + "/numa_node", node);
        write(path + "/current_link_speed", "32.0 GT/s PCIe");
        write(path + "/max_link_speed", "32.0 GT/s PCIe");
        write(path + "/current_link_width", width);
        write(path + "/max_link_width", width);
    }

    /// A block device at a path of /sys/devices.
    void block(const std::string& path, const std::string& number) {
        write(path + "/dev", number);
        write(path + "/queue/stable_writes", "0");
        write(path + "/queue/logical_block_size", "512");
        write(path + "/queue/scheduler", "[none] mq-deadline");
        link("/sys/dev/block/" + number, path);
        write("/run/udev/data/b" + number, "E:ID_FS_TYPE=xfs");
    }

    /// NVMe NAME at 0000:3a:00.0/ADDRESS with a namespace and one partition, numbers MAJOR:0 and MAJOR:1.
    std::string nvme(const std::string& name, const std::string& address, const std::string& major,
                     const std::string& node = "0") {
        const std::string at = std::string(kPort) + "/" + address;
        pci(at, node, "4");
        const std::string controller = at + "/nvme/" + name;
        write(controller + "/transport", "pcie");
        const std::string disk = controller + "/" + name + "n1";
        block(disk, major + ":0");
        link(disk + "/device", controller);
        const std::string part = disk + "/" + name + "n1p1";
        write(part + "/partition", "1");
        write(part + "/dev", major + ":1");
        link("/sys/dev/block/" + major + ":1", part);
        write("/run/udev/data/b" + major + ":1", "E:ID_FS_TYPE=xfs");
        return disk;
    }

    /// A GPU at a path of /sys/devices, with a BAR1 of 256 GiB.
    void gpu(const std::string& path, const std::string& node = "0",
             const std::string& model = "NVIDIA H200") {
        const std::string address = path.substr(path.rfind('/') + 1);
        pci(path, node, "16");
        write(path + "/vendor", "0x10de");
        write(path + "/class", "0x030200");
        write(path + "/resource",
              "0x00000000d0000000 0x00000000d0ffffff 0x0000000000040200\n"
              "0x0000210000000000 0x0000213fffffffff 0x000000000014220c");
        link("/sys/bus/pci/devices/" + address, path);
        write("/proc/driver/nvidia/gpus/" + address + "/information",
              "Model: \t\t " + model + "\nIRQ:   \t\t 17");
    }

    /// A host on which both back-ends would read directly from 259:1.
    void good_host() {
        nvme("nvme0", "0000:3b:00.0", "259");
        gpu(std::string(kPort) + "/0000:3c:00.0");
        write("/proc/sys/kernel/osrelease", "6.8.0-45-generic");
        write("/boot/config-6.8.0-45-generic", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y");
        write("/proc/kallsyms", "0000000000000000 t nvme_v1_register_nvfs_dma_ops\t[nvme]");
        write("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.71.05  Release Build");
        write("/proc/driver/nvidia/params",
              "ResmanDebugLevel: 4294967295\n"
              "RegistryDwords: \"RMForceStaticBar1=1;RmForceDisableIomapWC=1\"");
        write("/sys/module/nvidia_fs/version", "2.28.4");
        write("/sys/module/nvme_core/parameters/multipath", "N");
        write("/usr/lib/x86_64-linux-gnu/libcufile.so.1.15.1", "");
        link("/usr/lib/x86_64-linux-gnu/libcufile.so.0", "/usr/lib/x86_64-linux-gnu/libcufile.so.1.15.1");
        write("/etc/cufile.json", cufile_json_text(true));
    }

    static std::string cufile_json_text(bool p2pdma) {
        const std::string value = p2pdma ? "true" : "false";
        return R"({"properties": {"allow_compat_mode": false, "use_pci_p2pdma": )" + value +
               R"(}, "block": {"nvme": {"use_pci_p2pdma": )" + value + "}}}";
    }

    /// XFS on 259:1.
    static Place xfs() {
        Place place;
        place.path = place.mountpoint = "/nvme";
        place.type = "xfs";
        place.source = "/dev/nvme0n1p1";
        place.options = "rw,noatime";
        place.super_options = "rw,attr2,inode64";
        place.magic = 0x58465342;
        place.major = 259;
        place.minor = 1;
        place.block_size = 4096;
        place.total_bytes = 1000;
        place.free_bytes = 500;
        place.alignment_known = true;
        place.memory_alignment = 4;
        place.offset_alignment = 512;
        return place;
    }

    [[nodiscard]] Report judged(const Place& place = xfs()) const {
        const Host host{files(), environment_,
                        [this](const std::string&) -> std::optional<std::uint64_t> { return memory_; }};
        return check(host, place);
    }

    /// The worst level among the findings with this id; none when there is no such finding.
    static std::optional<Level> worst(const Report& report, std::string_view id) {
        std::optional<Level> worst;
        for (const auto& finding : report.findings) {
            if (finding.id != id) continue;
            const auto weight = [](Level level) {
                return level == Level::skip ? 0 : 1 + static_cast<int>(level);
            };
            if (!worst || weight(finding.level) > weight(*worst)) worst = finding.level;
        }
        return worst;
    }

    static std::string text_of(const Report& report, std::string_view id) {
        std::string text;
        for (const auto& finding : report.findings) {
            if (finding.id == id) text += finding.what + " " + finding.why + " " + finding.advice + "\n";
        }
        return text;
    }

    std::filesystem::path root_;
    Environment environment_;
    std::optional<std::uint64_t> memory_ = std::uint64_t{141} << 30U;
};

}  // namespace tierfs::gds
