// Devices on PCI Express as /sys shows them: where they sit, how fast their link is, who translates their
// addresses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fs/gds/finding.hpp"
#include "fs/gds/host_files.hpp"

namespace tierfs::gds {

/// Plain value. What a kernel does not tell is none or empty.
struct PciDevice {
    std::string address;                        ///< "0000:3b:00.0"; empty: none
    std::string path;                           ///< below /sys/devices, without links
    std::optional<std::int64_t> numa_node;      ///< none too when the kernel says -1
    std::string speed, fastest;                 ///< "16.0 GT/s PCIe"
    std::optional<std::int64_t> width, widest;  ///< lanes
    std::string iommu;                          ///< "identity", "DMA", …; empty: no IOMMU
};

PciDevice look_at_pci(const HostFiles& files, const std::string& path);

struct Gpu {
    PciDevice pci;
    std::string model;                          ///< "NVIDIA H200"; empty without its driver
    std::uint64_t bar1_bytes = 0;               ///< of the window to its memory
    std::optional<std::uint64_t> memory_bytes;  ///< of its own memory
};

/// Bytes of memory of the GPU at a PCI address; none when nobody knows.
using GpuMemory = std::function<std::optional<std::uint64_t>(const std::string& address)>;

/// By NVML, where its library is (it comes with NVIDIA's driver); loads it.
std::optional<std::uint64_t> memory_by_nvml(const std::string& address);

/// NVIDIA's display controllers and accelerators, in the order of their addresses.
std::vector<Gpu> find_gpus(const HostFiles& files, const GpuMemory& memory);

/// Where two devices meet.
enum class Meeting : std::uint8_t {
    bridge,        ///< below one bridge or switch: peer to peer need not reach the processor
    root_complex,  ///< in one root complex
    apart,         ///< in different ones
};
Meeting meeting_of(const PciDevice& one, const PciDevice& other);

/// pcie-link, iommu of a device. `idle_slows`: it lowers its link's speed when idle, as GPUs do.
void judge_link(const std::string& name, const PciDevice& device, bool idle_slows, Findings& findings);
void judge_iommu(const std::string& name, const PciDevice& device, Findings& findings);

/// Access Control Services of the bridges above a device (PCI Express Base Specification, ACS Extended
/// Capability).
void judge_acs(const HostFiles& files, const std::string& name, const PciDevice& device, Findings& findings);

/// gpu, gpu-model, bar1 of each.
void judge_gpus(const std::vector<Gpu>& gpus, Findings& findings);

/// topology: each GPU with each of the storage devices.
void judge_topology(const HostFiles& files, const std::vector<Gpu>& gpus,
                    const std::vector<PciDevice>& storage, Findings& findings);

}  // namespace tierfs::gds
