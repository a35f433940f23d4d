#include "fs/gds/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "fs/gds/cufile_json.hpp"
#include "tests/unit/fs/gds/host_tree.hpp"

namespace tierfs::gds {
namespace check_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Check : public HostTree {
  protected:
    void SetUp() override {
        HostTree::SetUp();
        good_host();
    }

    void expect_blocks(const Report& report, std::string_view id, bool nvidia_fs, bool p2pdma) {
        const std::string name(id);
        const auto blocks = [&](const Verdict& verdict) {
            return std::find(verdict.because.begin(), verdict.because.end(), name) != verdict.because.end();
        };
        EXPECT_EQ(blocks(report.nvidia_fs), nvidia_fs) << id << "\n" << report_text(report);
        EXPECT_EQ(blocks(report.p2pdma), p2pdma) << id << "\n" << report_text(report);
        EXPECT_EQ(worst(report, id), Level::fail) << id;
    }
};

TEST_F(Check, AGoodHostIsDirectBothWays) {
    const auto report = judged();
    EXPECT_TRUE(report.nvidia_fs.direct && report.p2pdma.direct) << report_text(report);
    for (const auto& finding : report.findings)
        EXPECT_TRUE(finding.level == Level::pass || finding.level == Level::skip) << report_text(report);
    EXPECT_THAT(text_of(report, "topology"), HasSubstr("below one PCIe bridge"));
    EXPECT_THAT(text_of(report, "transport"), HasSubstr("nvme0 is attached by pcie"));
    EXPECT_THAT(text_of(report, "bar1"), HasSubstr("256 GiB"));
}

TEST_F(Check, EachThingThatIsWrongShutsTheWay) {
    struct Case {
        const char* what;
        std::function<void()> spoil;
        const char* id;
        bool nvidia_fs, p2pdma;
    };
    const std::string disk = std::string(kPort) + "/0000:3b:00.0/nvme/nvme0/nvme0n1";
    const std::vector<Case> cases = {
        {"udev", [&] { remove("/run/udev/data/b259:1"); }, "udev", true, true},
        {"stable writes", [&] { write(disk + "/queue/stable_writes", "1"); }, "stable-writes", true, true},
        {"blocks of 16 KiB", [&] { write(disk + "/queue/logical_block_size", "16384"); }, "logical-block",
         true, true},
        {"TCP", [&] { write(disk + "/../transport", "tcp"); }, "transport", true, true},
        {"RDMA", [&] { write(disk + "/../transport", "rdma"); }, "transport", false, true},
        {"no nvidia-fs", [&] { remove("/sys/module/nvidia_fs"); }, "nvidia-fs", true, false},
        {"NVMe driver", [&] { write("/proc/kallsyms", "0 t nvme_probe"); }, "nvme-driver", true, false},
        {"multipath", [&] { write("/sys/module/nvme_core/parameters/multipath", "Y"); }, "nvme-multipath",
         false, true},
        {"old kernel", [&] { write("/proc/sys/kernel/osrelease", "5.15.0-100-generic"); }, "kernel", false,
         true},
        {"no P2PDMA", [&] { write("/boot/config-6.8.0-45-generic", "# CONFIG_PCI_P2PDMA is not set"); },
         "p2pdma", false, true},
        {"no driver", [&] { remove("/proc/driver/nvidia/version"); }, "nvidia-driver", true, true},
        {"old driver",
         [&] {
             write("/proc/driver/nvidia/version", "NVIDIA UNIX Open Kernel Module for x86_64  550.54.15");
         },
         "nvidia-driver", false, true},
        {"closed driver",
         [&] { write("/proc/driver/nvidia/version", "NVIDIA UNIX x86_64 Kernel Module  595.71.05"); },
         "nvidia-driver", true, true},
        {"no static BAR1", [&] { write("/proc/driver/nvidia/params", "RegistryDwords: \"\""); },
         "static-bar1", false, true},
        {"no library", [&] { remove("/usr/lib/x86_64-linux-gnu/libcufile.so.0"); }, "libcufile", true, true},
        {"no configuration", [&] { remove("/etc/cufile.json"); }, "cufile-json", false, true},
        {"P2PDMA not asked for", [&] { write("/etc/cufile.json", cufile_json_text(false)); }, "cufile-json",
         false, true},
        {"broken configuration", [&] { write("/etc/cufile.json", "{"); }, "cufile-json", true, true},
        {"small BAR1", [&] { memory_ = std::uint64_t{512} << 30U; }, "bar1", false, true},
        {"no GPU", [&] { remove("/sys/bus/pci/devices/0000:3c:00.0"); }, "gpu", true, true},
        {"IOMMU", [&] { write(std::string(kPort) + "/0000:3b:00.0/iommu_group/type", "DMA-FQ"); }, "iommu",
         true, true},
    };
    for (const auto& one : cases) {
        SCOPED_TRACE(one.what);
        one.spoil();
        const auto report = judged();
        expect_blocks(report, one.id, one.nvidia_fs, one.p2pdma);
        EXPECT_EQ(report.direct(), !(one.nvidia_fs && one.p2pdma));
        for (const auto& finding : report.findings) {
            if (finding.level != Level::fail) continue;
            EXPECT_TRUE(!finding.why.empty() && !finding.advice.empty()) << finding.id;
        }
        std::filesystem::remove_all(root_);
        memory_ = std::uint64_t{141} << 30U;
        good_host();
    }
}

TEST_F(Check, P2pdmaIsFoundAmongSymbolsWhereTheConfigurationIsNot) {
    remove("/boot/config-6.8.0-45-generic");
    const std::string nvme = "0 t nvme_v1_register_nvfs_dma_ops\n";
    write("/proc/kallsyms", nvme + "0 T pci_p2pdma_add_resource");
    EXPECT_EQ(worst(judged(), "p2pdma"), Level::pass);
    write("/proc/kallsyms", nvme + "0 d p2pdma_pgmap_ops");
    EXPECT_EQ(worst(judged(), "p2pdma"), Level::pass);
    write("/proc/kallsyms", nvme);
    EXPECT_EQ(worst(judged(), "p2pdma"), Level::fail);
    remove("/proc/kallsyms");
    EXPECT_EQ(worst(judged(), "p2pdma"), Level::skip);
}

TEST_F(Check, APassingThroughIommuIsRight) {
    write(std::string(kPort) + "/0000:3b:00.0/iommu_group/type", "identity");
    EXPECT_TRUE(judged().p2pdma.direct);
}

TEST_F(Check, Md) {
    const std::string disk = nvme("nvme1", "0000:3d:00.0", "260");
    const std::string md = "/sys/devices/virtual/block/md0";
    block(md, "9:0");
    write(md + "/md/level", "raid0");
    link(md + "/slaves/nvme0n1p1", std::string(kPort) + "/0000:3b:00.0/nvme/nvme0/nvme0n1/nvme0n1p1");
    link(md + "/slaves/nvme1n1", disk);
    Place place = xfs();
    place.major = 9;
    place.minor = 0;
    auto report = judged(place);
    EXPECT_TRUE(report.nvidia_fs.direct) << report_text(report);
    expect_blocks(report, "device", false, true);
    ASSERT_EQ(report.devices.size(), 4U);
    EXPECT_EQ(report.devices[0].name, "md0");
    EXPECT_EQ(report.devices[1].name, "nvme0n1p1");
    EXPECT_EQ(report.devices[2].depth, 2U);
    EXPECT_EQ(report.devices[3].name, "nvme1n1");
    write(md + "/md/level", "raid1");
    report = judged(place);
    expect_blocks(report, "device", true, true);
    EXPECT_THAT(text_of(report, "device"), HasSubstr("raid0 only"));
}

TEST_F(Check, DeviceMapperLoopAndVirtualDisks) {
    const std::string dm = "/sys/devices/virtual/block/dm-0";
    block(dm, "252:0");
    write(dm + "/dm/uuid", "CRYPT-LUKS2-0123-data");
    link(dm + "/slaves/nvme0n1", std::string(kPort) + "/0000:3b:00.0/nvme/nvme0/nvme0n1");
    const std::string loop = "/sys/devices/virtual/block/loop7";
    block(loop, "7:7");
    write(loop + "/loop/backing_file", "/images/disk.img");
    block("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda", "254:0");
    block("/sys/devices/pci0000:00/0000:00:03.0/ata1/block/sda", "8:0");
    struct Case {
        unsigned major, minor;
        const char* words;
    };
    for (const auto& [major, minor, words] :
         {Case{252, 0, "device mapper (CRYPT)"}, Case{7, 7, "a loop device of /images/disk.img"},
          Case{254, 0, "a virtual disk"}, Case{8, 0, "SATA"}, Case{99, 1, "not found"}}) {
        Place place = xfs();
        place.major = major;
        place.minor = minor;
        const auto report = judged(place);
        expect_blocks(report, "device", true, true);
        EXPECT_THAT(text_of(report, "device"), HasSubstr(words));
    }
}

TEST_F(Check, MultipathHead) {
    const std::string subsystem = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    const std::string head = subsystem + "/nvme2n1";
    block(head, "261:0");
    link(head + "/device", subsystem);
    for (const auto* name : {"nvme2", "nvme3"}) {
        const std::string at = std::string(kPort) + (name[4] == '2' ? "/0000:41:00.0" : "/0000:42:00.0");
        pci(at, "0", "4");
        write(at + "/nvme/" + name + "/transport", "pcie");
        link(subsystem + "/" + name, at + "/nvme/" + name);
    }
    Place place = xfs();
    place.major = 261;
    place.minor = 0;
    const auto report = judged(place);
    expect_blocks(report, "device", false, true);
    EXPECT_TRUE(report.nvidia_fs.direct) << report_text(report);
    EXPECT_EQ(worst(report, "multipath"), Level::warn);
    ASSERT_EQ(report.devices.front().controllers.size(), 2U);
    EXPECT_EQ(report.devices.front().controllers[1].pci_path, std::string(kPort) + "/0000:42:00.0");
    EXPECT_THAT(text_of(report, "topology"), HasSubstr("NVMe 0000:42:00.0"));
}

TEST_F(Check, ADeviceThatIsItsOwnSlaveEnds) {
    const std::string md = "/sys/devices/virtual/block/md0";
    block(md, "9:0");
    write(md + "/md/level", "raid0");
    link(md + "/slaves/md0", md);
    link(md + "/slaves/md1", md);
    EXPECT_LE(walk_devices(files(), 9, 0).size(), 256U);
}

TEST_F(Check, FarGpuIsTold) {
    gpu("/sys/devices/pci0000:80/0000:80:00.0/0000:81:00.0", "1");
    write("/sys/devices/system/node/node1/distance", "32 10");
    const auto report = judged();
    EXPECT_TRUE(report.direct());
    EXPECT_EQ(worst(report, "topology"), Level::warn);
    EXPECT_THAT(text_of(report, "topology"), HasSubstr("NUMA nodes 1 and 0, distance 32"));
}

TEST_F(Check, NarrowLinkIsTold) {
    write(std::string(kPort) + "/0000:3b:00.0/current_link_width", "2");
    write(std::string(kPort) + "/0000:3c:00.0/current_link_speed", "2.5 GT/s PCIe");
    const auto text = text_of(judged(), "pcie-link");
    EXPECT_THAT(text, HasSubstr("NVMe 0000:3b:00.0: 32.0 GT/s PCIe x2 of 32.0 GT/s PCIe x4"));
    EXPECT_THAT(text, HasSubstr("GPUs lower the speed when they are idle"));
    EXPECT_EQ(worst(judged(), "pcie-link"), Level::warn);
}

TEST_F(Check, AccessControlServicesAreFound) {
    std::string config(512, '\0');
    config[0x100] = 1;  // another capability, which leads to the next
    config[0x102] = 0x01;
    config[0x103] = 0x14;  // at 0x140
    config[0x140] = 13;    // ACS
    config[0x146] = 0x1c;  // request redirect among others
    write(std::string(kPort) + "/config", config);
    EXPECT_EQ(worst(judged(), "acs"), Level::warn);
    EXPECT_THAT(text_of(judged(), "acs"), HasSubstr("redirect at 0000:3a:00.0"));
    config[0x146] = 0;
    write(std::string(kPort) + "/config", config);
    EXPECT_EQ(worst(judged(), "acs"), Level::pass);
    config[0x102] = 0x01;
    config[0x103] = 0x10;  // a capability that leads to itself
    write(std::string(kPort) + "/config", config);
    EXPECT_EQ(worst(judged(), "acs"), Level::pass);
    config.assign(300, '\xff');  // what a device that is gone reads as
    write(std::string(kPort) + "/config", config);
    EXPECT_EQ(worst(judged(), "acs"), Level::pass);
}

TEST_F(Check, FileSystemsThatNeverQualifyTellWhy) {
    struct Case {
        std::uint64_t magic;
        const char *type, *words;
    };
    for (const auto& [magic, type, words] :
         {Case{0x65735546, "fuse.tierfs", "FUSE file system can never qualify"},
          Case{0x01021994, "tmpfs", "processor's memory"}, Case{0x794c7630, "overlay", "bind-mount"},
          Case{0x9123683e, "btrfs", "btrfs"}, Case{0x2fc12fc1, "zfs", "ZFS"},
          Case{0x1234, "other", "XFS, ext4"}}) {
        Place place = xfs();
        place.magic = magic;
        place.type = type;
        place.major = 0;
        const auto report = judged(place);
        expect_blocks(report, "file-system", true, true);
        EXPECT_THAT(text_of(report, "file-system"), HasSubstr(words));
        EXPECT_EQ(worst(report, "device"), Level::skip);
    }
}

TEST_F(Check, Nfs) {
    Place place = xfs();
    place.magic = 0x6969;
    place.type = "nfs4";
    place.super_options = "rw,vers=4.2,proto=tcp";
    expect_blocks(judged(place), "file-system", true, true);
    place.super_options = "rw,vers=4.2,proto=rdma";
    expect_blocks(judged(place), "file-system", false, true);
}

TEST_F(Check, Ext4) {
    Place place = xfs();
    place.magic = 0xef53;
    place.type = "ext4";
    place.super_options = "rw,data=ordered";
    EXPECT_TRUE(judged(place).nvidia_fs.direct && judged(place).p2pdma.direct);
    EXPECT_EQ(worst(judged(place), "journal"), Level::pass);
    place.super_options = "rw";
    EXPECT_EQ(worst(judged(place), "journal"), Level::warn);
    EXPECT_TRUE(judged(place).direct());
    place.super_options = "rw,data=writeback";
    expect_blocks(judged(place), "journal", true, true);
    place.type = "ext3";
    expect_blocks(judged(place), "file-system", true, true);
}

TEST_F(Check, PlacesThatAreLessThanRight) {
    Place place = xfs();
    place.super_options = "rw,rtdev=/dev/sdb";
    expect_blocks(judged(place), "realtime", true, true);
    place = xfs();
    place.offset_alignment = 0;
    expect_blocks(judged(place), "alignment", true, true);
    place = xfs();
    place.offset_alignment = 65536;
    expect_blocks(judged(place), "alignment", true, true);
    place = xfs();
    place.alignment_known = false;
    EXPECT_EQ(worst(judged(place), "alignment"), Level::skip);
    place = xfs();
    place.block_size = 1024;
    place.free_bytes = 10;
    place.options = "ro,relatime";
    place.is_file = true;
    place.file_size = 10000;
    place.file_allocated = 4096;
    const auto report = judged(place);
    for (const auto* id : {"block-size", "free-space", "noatime", "writable", "sparse"})
        EXPECT_EQ(worst(report, id), Level::warn) << id;
    EXPECT_TRUE(report.direct());
}

TEST_F(Check, LibrariesOfPythonPackagesAreFound) {
    remove("/usr/lib/x86_64-linux-gnu/libcufile.so.0");
    environment_["VIRTUAL_ENV"] = "/venv";
    const std::string packages = "/venv/lib/python3.11/site-packages";
    write(packages + "/nvidia/cufile/lib/libcufile.so.0", "");
    write(packages + "/nvidia_cufile_cu12-1.11.1.6.dist-info/METADATA", "");
    auto report = judged();
    ASSERT_EQ(report.software.libraries.size(), 1U);
    EXPECT_EQ(report.software.libraries[0].version->text(), "1.11.1.6");
    expect_blocks(report, "libcufile", false, true);
    environment_["LD_LIBRARY_PATH"] = "relative::/opt/cuda";
    write("/opt/cuda/libcufile.so.0", "");
    link("/opt/cuda/libcufile.so.0", "/usr/lib/x86_64-linux-gnu/libcufile.so.1.15.1");
    report = judged();
    EXPECT_TRUE(report.p2pdma.direct) << report_text(report);
    EXPECT_EQ(worst(report, "libcufile"), Level::warn);
}

TEST_F(Check, ConfigurationMisplacedOrCommented) {
    environment_["CUFILE_ENV_PATH_JSON"] = "/home/me.json";
    write("/home/me.json",
          "{ // as NVIDIA's own\n \"properties\": {\"use_pci_p2pdma\": true},\n"
          "\"fs\": {\"block\": {\"nvme\": {\"use_pci_p2pdma\": true}}}}");
    const auto report = judged();
    expect_blocks(report, "cufile-json", false, true);
    EXPECT_THAT(text_of(report, "cufile-json"), HasSubstr("within \"fs\""));
    EXPECT_THAT(text_of(report, "cufile-json"), HasSubstr("compatibility mode"));
}

TEST_F(Check, JsonSaysTheSame) {
    remove("/run/udev/data/b259:1");
    Place place = xfs();
    place.path = "/odd \"\xff\n";
    const auto report = judged(place);
    const auto json = nlohmann::json::parse(report_json(report));
    EXPECT_FALSE(json["direct"].get<bool>());
    EXPECT_THAT(json["verdicts"]["p2pdma"]["because"].get<std::vector<std::string>>(), ElementsAre("udev"));
    EXPECT_EQ(json["findings"].size(), report.findings.size());
    for (const auto& finding : json["findings"]) {
        EXPECT_THAT((std::vector<std::string>{"pass", "warn", "fail", "skip"}),
                    Contains(finding["level"].get<std::string>()));
        EXPECT_FALSE(finding["backends"].empty());
    }
    EXPECT_EQ(json["devices"][0]["name"].get<std::string>(), "nvme0n1p1");
    EXPECT_EQ(json["devices"][1]["controllers"][0]["pci"].get<std::string>(), "0000:3b:00.0");
    EXPECT_EQ(json["gpus"][0]["model"].get<std::string>(), "NVIDIA H200");
    EXPECT_EQ(json["software"]["libcufile"][0]["version"].get<std::string>(), "1.15.1");
    EXPECT_THAT(report_text(report), HasSubstr("nvidia-fs: not direct, because of udev\n"));
}

TEST_F(HostTree, NothingAtAllIsNoCrash) {
    const auto report = judged();
    EXPECT_FALSE(report.direct());
    EXPECT_THAT(report.devices, IsEmpty());
    EXPECT_THAT(report.nvidia_fs.because, Contains("nvidia-driver"));
}

TEST_F(HostTree, HostileContentIsNoCrash) {
    good_host();
    const std::string gpu_at = std::string(kPort) + "/0000:3c:00.0";
    write(gpu_at + "/resource", "0x 0x 0x\nffffffffffffffffff 0 zz");
    write(gpu_at + "/numa_node", "99999999999999999999999");
    write(std::string(kPort) + "/0000:3b:00.0/current_link_width", "many");
    write("/proc/sys/kernel/osrelease", std::string(100000, '9') + ".1");
    write("/etc/cufile.json", std::string(100000, '['));
    EXPECT_FALSE(judged().p2pdma.direct);
    link("/sys/dev/block/259:1", "/sys/dev/block/259:1");
    EXPECT_EQ(worst(judged(), "device"), Level::fail);
}

TEST_F(HostTree, LinksOutOfTheRootLeadNowhere) {
    std::filesystem::create_directories(root_ / "sys/dev/block");
    std::filesystem::create_symlink("/proc", root_ / "sys/dev/block/1:1");
    EXPECT_FALSE(files().canonical("/sys/dev/block/1:1"));
}

TEST(VersionIn, FindsTheFirstWithADot) {
    EXPECT_EQ(version_in("Module for x86_64  570.86.15  Release")->text(), "570.86.15");
    EXPECT_EQ(version_in("6.18.44-fc-v657")->text(), "6.18.44");
    EXPECT_EQ(version_in("version: 2.26")->text(), "2.26");
    for (const auto* text : {"", "5", "x86_64", ".", "1.", "a.b"}) EXPECT_FALSE(version_in(text)) << text;
    EXPECT_LT(*version_in("1.9.1"), *version_in("1.13"));
    EXPECT_LT(*version_in("2.26"), (Version{{2, 26, 6}}));
}

TEST(HasOption, ComparesWholeWords) {
    EXPECT_TRUE(has_option("rw,noatime", "rw"));
    EXPECT_TRUE(has_option("rw,noatime", "noatime"));
    EXPECT_FALSE(has_option("rw,noatime", "atime"));
    EXPECT_FALSE(has_option("", "rw"));
}

TEST(SizeText, IsShort) {
    EXPECT_EQ(size_text(0), "0 bytes");
    EXPECT_EQ(size_text(4096), "4 KiB");
    EXPECT_EQ(size_text((std::uint64_t{3} << 30U) + (std::uint64_t{1} << 29U)), "3.5 GiB");
}

TEST(CuFileJson, AsksForP2pdmaAtBothPlaces) {
    const auto text = cufile_json({.p2pdma = true, .allow_compat = false, .stats = 3, .gpu_memory_kb = 1000});
    const auto json = nlohmann::json::parse(text);
    EXPECT_EQ(json["properties"]["use_pci_p2pdma"].get<bool>(), true);
    EXPECT_EQ(json["block"]["nvme"]["use_pci_p2pdma"].get<bool>(), true);
    EXPECT_FALSE(json["fs"].contains("block"));
    EXPECT_EQ(json["properties"]["max_direct_io_size_kb"].get<int>(), 16384);
    EXPECT_EQ(json["properties"]["max_device_pinned_mem_size_kb"].get<int>(), 1000);
    EXPECT_EQ(json["properties"]["allow_compat_mode"].get<bool>(), false);
    EXPECT_EQ(json["profile"]["cufile_stats"].get<int>(), 3);
    EXPECT_EQ(json["logging"]["level"].get<std::string>(), "INFO");
    const auto settings = parse_cufile_json(text);
    ASSERT_TRUE(settings);
    EXPECT_TRUE(settings->p2pdma_property && settings->p2pdma_nvme && !settings->allow_compat);
}

TEST(CuFileJson, DefaultsAreThoseOfNvidia) {
    const auto json = nlohmann::json::parse(cufile_json({}));
    EXPECT_EQ(json["properties"]["max_device_pinned_mem_size_kb"].get<int>(), 33554432);
    EXPECT_EQ(json["execution"]["min_io_threshold_size_kb"].get<int>(), 8192);
    EXPECT_EQ(json["properties"]["allow_compat_mode"].get<bool>(), true);
    EXPECT_EQ(json["logging"]["level"].get<std::string>(), "ERROR");
}

TEST(CuFileJson, OtherTextIsNone) {
    for (const auto* text : {"", "[]", "3", "{\"a\": }", "nonsense"})
        EXPECT_FALSE(parse_cufile_json(text)) << text;
    const auto odd = parse_cufile_json(R"({"properties": [], "block": {"nvme": 3}, "fs": "x"})");
    ASSERT_TRUE(odd);
    EXPECT_FALSE(odd->p2pdma_property || odd->p2pdma_nvme || odd->block_misplaced);
}

}  // namespace check_test
}  // namespace tierfs::gds
