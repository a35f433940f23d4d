#include "fs/gds/pci.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

namespace tierfs::gds {

namespace {

constexpr std::string_view kNvidia = "0x10de";

std::vector<std::string> parts_of(const std::string& path) {
    std::vector<std::string> parts;
    std::istringstream stream(path);
    for (std::string part; std::getline(stream, part, '/');) {
        if (!part.empty()) parts.push_back(part);
    }
    return parts;
}

std::optional<std::uint64_t> hexadecimal(std::string_view text) {
    if (text.starts_with("0x")) text.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// The size of a region from the file "resource": a line "START END FLAGS" for each.
std::uint64_t region_size(const HostFiles& files, const std::string& device, int region) {
    std::istringstream lines(files.text(device + "/resource").value_or(""));
    std::string line;
    for (int i = 0; i <= region; ++i) {
        if (!std::getline(lines, line)) return 0;
    }
    std::istringstream words(line);
    std::string first, last;
    words >> first >> last;
    const auto start = hexadecimal(first), end = hexadecimal(last);
    return start && end && *end > *start ? *end - *start + 1 : 0;
}

std::string model_of(const HostFiles& files, const std::string& address) {
    std::istringstream lines(files.text("/proc/driver/nvidia/gpus/" + address + "/information").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("Model:")) continue;
        const auto begin = line.find_first_not_of(" \t", 6);
        return begin == std::string::npos ? "" : line.substr(begin);
    }
    return {};
}

std::string link_text(const std::string& speed, const std::optional<std::int64_t>& width) {
    return (speed.empty() ? "speed not known" : speed) + (width ? " x" + std::to_string(*width) : "");
}

double gigatransfers(const std::string& speed) {
    double value = 0;
    const auto [end, error] = std::from_chars(speed.data(), speed.data() + speed.size(), value);
    return error == std::errc{} ? value : 0;
}

/// The bits of ACS that turn peer to peer traffic towards the root, if the bridge has them set; none when the
/// bridge has no ACS. What follows is the layout of the configuration space: extended capabilities begin at
/// 0x100, each with an id (16 bits), a version (4) and the offset of the next (12); ACS is number 13, its
/// control register at 6.
std::optional<bool> redirects(const std::string& config) {
    const auto word = [&](std::size_t at) {
        return static_cast<unsigned>(static_cast<unsigned char>(config[at])) |
               static_cast<unsigned>(static_cast<unsigned char>(config[at + 1])) << 8U;
    };
    constexpr std::size_t kExtended = 0x100;
    constexpr unsigned kAcs = 13, kRequestRedirect = 4, kCompletionRedirect = 8;
    std::size_t at = kExtended;
    for (int steps = 0; steps < 256 && at >= kExtended && at + 8 <= config.size(); ++steps) {
        if (word(at) == kAcs) return (word(at + 6) & (kRequestRedirect | kCompletionRedirect)) != 0;
        at = word(at + 2) >> 4U;
    }
    return std::nullopt;
}

/// NUMA distance as the firmware tells it (10: the same node).
std::optional<std::int64_t> distance(const HostFiles& files, std::int64_t from, std::int64_t to) {
    std::istringstream words(
        files.text("/sys/devices/system/node/node" + std::to_string(from) + "/distance").value_or(""));
    std::int64_t value = 0;
    for (std::int64_t i = 0; i <= to; ++i) {
        if (!(words >> value)) return std::nullopt;
    }
    return value;
}

std::string nodes_text(const HostFiles& files, const PciDevice& one, const PciDevice& other) {
    if (!one.numa_node || !other.numa_node) return "NUMA nodes not known";
    if (*one.numa_node == *other.numa_node) return "both at NUMA node " + std::to_string(*one.numa_node);
    std::string text =
        "NUMA nodes " + std::to_string(*one.numa_node) + " and " + std::to_string(*other.numa_node);
    if (const auto far = distance(files, *one.numa_node, *other.numa_node))
        text += ", distance " + std::to_string(*far) + " (10 is none)";
    return text;
}

void judge_pair(const HostFiles& files, const Gpu& gpu, const PciDevice& storage, Findings& findings) {
    const std::string pair = "GPU " + gpu.pci.address + " and NVMe " + storage.address;
    const std::string nodes = nodes_text(files, gpu.pci, storage);
    const char* const advice =
        "Stage what this GPU reads onto an NVMe device that sits below the same PCIe switch, or at least at "
        "the same "
        "NUMA node; one file system for each device keeps them apart.";
    switch (meeting_of(gpu.pci, storage)) {
        case Meeting::bridge:
            pass(findings, "topology", pair + " are below one PCIe bridge; " + nodes);
            return;
        case Meeting::root_complex:
            if (!gpu.pci.numa_node || gpu.pci.numa_node == storage.numa_node) {
                pass(findings, "topology", pair + " are in one root complex; " + nodes);
                return;
            }
            [[fallthrough]];
        case Meeting::apart:
            warn(findings, "topology", pair + " meet in the processor; " + nodes,
                 {"Peer to peer traffic through the processor is slower than through a switch, and some "
                  "processors "
                  "do not pass it on between root complexes at all.",
                  advice});
            return;
    }
}

}  // namespace

PciDevice look_at_pci(const HostFiles& files, const std::string& path) {
    PciDevice device;
    device.path = path;
    device.address = path.substr(path.rfind('/') + 1);
    if (const auto node = files.number(path + "/numa_node"); node && *node >= 0) device.numa_node = node;
    device.speed = files.text(path + "/current_link_speed").value_or("");
    device.fastest = files.text(path + "/max_link_speed").value_or("");
    device.width = files.number(path + "/current_link_width");
    device.widest = files.number(path + "/max_link_width");
    device.iommu = files.text(path + "/iommu_group/type").value_or("");
    if (device.iommu.empty() && files.exists(path + "/iommu_group")) device.iommu = "of unknown type";
    return device;
}

std::vector<Gpu> find_gpus(const HostFiles& files, const GpuMemory& memory) {
    std::vector<Gpu> gpus;
    const std::string all = "/sys/bus/pci/devices/";
    for (const auto& address : files.list(all)) {
        // Class 0x0300xx: VGA, 0x0302xx: 3D controller. The audio function of a GPU is neither.
        const std::string kind = files.text(all + address + "/class").value_or("");
        if (files.text(all + address + "/vendor").value_or("") != kNvidia ||
            !(kind.starts_with("0x0300") || kind.starts_with("0x0302")))
            continue;
        Gpu gpu;
        gpu.pci = look_at_pci(files, files.canonical(all + address).value_or(all + address));
        gpu.model = model_of(files, address);
        gpu.bar1_bytes = region_size(files, gpu.pci.path, 1);
        gpu.memory_bytes = memory(address);
        gpus.push_back(std::move(gpu));
    }
    return gpus;
}

Meeting meeting_of(const PciDevice& one, const PciDevice& other) {
    const auto first = parts_of(one.path), second = parts_of(other.path);
    const auto [a, b] = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
    const auto shared = static_cast<std::size_t>(a - first.begin());
    // sys, devices, pci0000:3a, 0000:3a:00.0 (a port of the root), …: a root port is a bridge that both are
    // below.
    if (shared > 3) return Meeting::bridge;
    return shared == 3 ? Meeting::root_complex : Meeting::apart;
}

void judge_link(const std::string& name, const PciDevice& device, bool idle_slows, Findings& findings) {
    const std::string is = link_text(device.speed, device.width);
    if (device.speed.empty() || !device.width) {
        skip(findings, "pcie-link", name + ": link not known", "the kernel shows no link of it in /sys");
        return;
    }
    const bool narrow = device.widest && *device.width < *device.widest;
    const bool slow = gigatransfers(device.speed) < gigatransfers(device.fastest);
    const std::string text = name + ": " + is + " of " + link_text(device.fastest, device.widest);
    if (narrow || (slow && !idle_slows)) {
        warn(findings, "pcie-link", text,
             {"The link is what limits the rate of the direct path.",
              "See that it sits in a slot with as many lanes, and look in the firmware's settings and the "
              "kernel's "
              "log for a link that was trained down."});
    } else {
        pass(findings, "pcie-link", slow ? text + " (GPUs lower the speed when they are idle)" : text);
    }
}

void judge_iommu(const std::string& name, const PciDevice& device, Findings& findings) {
    if (device.iommu.empty()) {
        pass(findings, "iommu", name + ": no IOMMU");
    } else if (device.iommu == "identity") {
        pass(findings, "iommu", name + ": the IOMMU passes addresses through");
    } else {
        fail(findings, "iommu", name + ": the IOMMU translates addresses (" + device.iommu + ")",
             {"NVIDIA supports direct transfers with the IOMMU off or passing through; with translation they "
              "are "
              "not guaranteed to work, nor to be fast.",
              "Boot with iommu=pt, or with amd_iommu=off or intel_iommu=off."});
    }
}

void judge_acs(const HostFiles& files, const std::string& name, const PciDevice& device, Findings& findings) {
    std::vector<std::string> redirecting;
    bool seen = false;
    for (auto slash = device.path.rfind('/'); slash != std::string::npos && slash != 0;
         slash = device.path.rfind('/', slash - 1)) {
        const std::string bridge = device.path.substr(0, slash);
        const auto config = files.text(bridge + "/config");
        // The kernel shows others than root the first 64 bytes.
        if (!config || config->size() <= 0x100) continue;
        seen = true;
        if (redirects(*config).value_or(false)) redirecting.push_back(bridge.substr(bridge.rfind('/') + 1));
    }
    if (!redirecting.empty()) {
        std::string list;
        for (const auto& bridge : redirecting) list += (list.empty() ? "" : ", ") + bridge;
        warn(findings, "acs", name + ": Access Control Services redirect at " + list,
             {"They send what goes from device to device up to the processor first, which is slower and on "
              "some "
              "machines fails.",
              "Turn ACS off in the firmware's settings, or with setpci at boot."});
    } else if (seen) {
        pass(findings, "acs", name + ": no bridge above it redirects");
    } else {
        skip(findings, "acs", name + ": Access Control Services not known",
             "the configuration space of the bridges above it cannot be read (only root can)");
    }
}

void judge_gpus(const std::vector<Gpu>& gpus, Findings& findings) {
    if (gpus.empty()) {
        fail(findings, "gpu", "no NVIDIA GPU on this machine",
             {"cuFile reads into the memory of one.", "Run the check where the training runs."});
        return;
    }
    constexpr std::array kPeers = {"A100",  "A40",  "L4",   "L40S", "H100",  "H200",
                                   "GH200", "B100", "B200", "B300", "GB200", "GB300"};
    for (const auto& gpu : gpus) {
        const std::string name = "GPU " + gpu.pci.address;
        pass(findings, "gpu", name + ": " + (gpu.model.empty() ? "model not known" : gpu.model));
        const auto words = parts_of([&] {
            std::string text = gpu.model;
            std::replace_if(
                text.begin(), text.end(), [](char c) { return c == ' ' || c == '-'; }, '/');
            return text;
        }());
        const bool listed = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
            return std::find(kPeers.begin(), kPeers.end(), word) != kPeers.end();
        });
        if (!gpu.model.empty() && !listed)
            warn(findings, "gpu-model", name + ": " + gpu.model + " is not in NVIDIA's list for PCI P2PDMA",
                 {"The list has A100, A40, L4, L40S, H100, H200, B100, B200 and B300.",
                  "See with bench/gds-read which way cuFile takes."},
                 Backends::p2pdma);
        const std::string window = name + ": BAR1 " + size_text(gpu.bar1_bytes);
        if (!gpu.memory_bytes || gpu.bar1_bytes == 0) {
            skip(findings, "bar1", window + ", memory of the GPU not known",
                 "NVIDIA's management library (libnvidia-ml.so.1) does not tell it");
        } else if (gpu.bar1_bytes >= *gpu.memory_bytes) {
            pass(findings, "bar1", window + " covers its memory of " + size_text(*gpu.memory_bytes));
        } else {
            const std::string text = window + " is less than its memory of " + size_text(*gpu.memory_bytes);
            const Reason reason = {
                "BAR1 is the window through which other devices reach the GPU's memory; PCI P2PDMA needs all "
                "of it "
                "mapped, nvidia-fs maps what is registered.",
                "Turn on Resizable BAR and above-4G decoding in the firmware's settings."};
            fail(findings, "bar1", text, reason, Backends::p2pdma);
            warn(findings, "bar1", text, reason, Backends::nvidia_fs);
        }
    }
}

void judge_topology(const HostFiles& files, const std::vector<Gpu>& gpus,
                    const std::vector<PciDevice>& storage, Findings& findings) {
    for (const auto& gpu : gpus) {
        for (const auto& device : storage) judge_pair(files, gpu, device, findings);
    }
}

}  // namespace tierfs::gds
