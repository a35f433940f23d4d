#include "fs/gds/check.hpp"

#include <algorithm>

namespace tierfs::gds {

namespace {

std::vector<PciDevice> storage_of(const HostFiles& files, const std::vector<BlockDevice>& devices) {
    std::vector<PciDevice> storage;
    for (const auto& device : devices) {
        for (const auto& controller : device.controllers) {
            const bool known = std::any_of(storage.begin(), storage.end(), [&](const PciDevice& one) {
                return one.path == controller.pci_path;
            });
            if (!controller.pci_path.empty() && !known)
                storage.push_back(look_at_pci(files, controller.pci_path));
        }
    }
    return storage;
}

void judge_hardware(const HostFiles& files, const std::vector<Gpu>& gpus,
                    const std::vector<PciDevice>& storage, Findings& findings) {
    for (const auto& device : storage) {
        const std::string name = "NVMe " + device.address;
        judge_link(name, device, false, findings);
        judge_iommu(name, device, findings);
        judge_acs(files, name, device, findings);
    }
    for (const auto& gpu : gpus) {
        const std::string name = "GPU " + gpu.pci.address;
        judge_link(name, gpu.pci, true, findings);
        judge_iommu(name, gpu.pci, findings);
        judge_acs(files, name, gpu.pci, findings);
    }
    judge_topology(files, gpus, storage, findings);
}

}  // namespace

Report check(const Host& host, const Place& place, const Findings& more) {
    Report report;
    report.place = place;
    judge_place(place, report.findings);
    if (on_block_device(place)) {
        report.devices = walk_devices(host.files, place.major, place.minor);
        judge_devices(host.files, report.devices, report.findings);
    } else {
        skip(report.findings, "device", "no block device was looked at",
             "the file system is none that cuFile reads from a local device");
    }
    report.gpus = find_gpus(host.files, host.gpu_memory);
    judge_gpus(report.gpus, report.findings);
    judge_hardware(host.files, report.gpus, storage_of(host.files, report.devices), report.findings);
    report.software = look_at_software(host.files, host.environment);
    judge_software(report.software, report.findings);
    judge_configuration(report.software, report.findings);
    report.findings.insert(report.findings.end(), more.begin(), more.end());
    report.nvidia_fs = verdict_of(report.findings, Backends::nvidia_fs);
    report.p2pdma = verdict_of(report.findings, Backends::p2pdma);
    return report;
}

}  // namespace tierfs::gds
