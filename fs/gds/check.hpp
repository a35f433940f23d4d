// Would cuFile take the direct path at a place of this machine, and if not, why?
#pragma once

#include <string>
#include <vector>

#include "fs/gds/block_devices.hpp"
#include "fs/gds/finding.hpp"
#include "fs/gds/host_files.hpp"
#include "fs/gds/pci.hpp"
#include "fs/gds/place.hpp"
#include "fs/gds/software.hpp"

namespace tierfs::gds {

/// What is looked at. A test gives a root with a tree of its own, and makes up the memory of GPUs.
struct Host {
    HostFiles files;
    Environment environment;
    GpuMemory gpu_memory;
};

/// Plain value: the facts, what they mean, and a verdict for each of cuFile's back-ends.
struct Report {
    Place place;
    std::vector<BlockDevice> devices;
    std::vector<Gpu> gpus;
    Software software;
    Findings findings;
    Verdict nvidia_fs, p2pdma;

    [[nodiscard]] bool direct() const { return nvidia_fs.direct || p2pdma.direct; }
};

/// `more`: findings that whoever asks has of its own (trials that write).
Report check(const Host& host, const Place& place, const Findings& more = {});

std::string report_text(const Report& report);
std::string report_json(const Report& report);

}  // namespace tierfs::gds
