// Drivers, libraries and the kernel: which versions are there, and what each back-end of cuFile asks of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fs/gds/finding.hpp"
#include "fs/gds/host_files.hpp"

namespace tierfs::gds {

/// Variables of the environment that say where libraries and the configuration are.
using Environment = std::map<std::string, std::string>;

/// LD_LIBRARY_PATH, CUFILE_ENV_PATH_JSON, VIRTUAL_ENV, CONDA_PREFIX, CUDA_HOME of this process.
Environment library_environment();

struct CuFileLibrary {
    std::string path;                ///< of libcufile.so.0
    std::optional<Version> version;  ///< of its file's name or of the Python package that it is in
};

/// Plain value. None: not there.
struct Software {
    std::optional<Version> kernel;
    std::optional<Version> driver;  ///< NVIDIA's
    bool open_driver = false;       ///< the open kernel modules
    std::string registry;           ///< RegistryDwords of the driver
    bool nvidia_fs = false;         ///< the module is loaded
    std::optional<Version> nvidia_fs_version;
    bool nvme_for_nvidia_fs = false;       ///< the NVMe driver can work with nvidia-fs
    std::optional<bool> kernel_p2pdma;     ///< the kernel has CONFIG_PCI_P2PDMA
    std::optional<bool> nvme_multipath;    ///< nvme_core.multipath
    std::vector<CuFileLibrary> libraries;  ///< in the order in which a program would find them, roughly
    std::string configuration_path;        ///< of cufile.json
    std::optional<std::string> configuration;
};

Software look_at_software(const HostFiles& files, const Environment& environment);

/// The newest of the libraries whose version is known.
std::optional<Version> newest_cufile(const Software& software);

/// Whether what PCI P2PDMA needs of the software is there, the configuration apart.
bool can_p2pdma(const Software& software);

/// nvidia-driver, nvidia-fs, nvme-driver, kernel, p2pdma, nvme-multipath, static-bar1, libcufile.
void judge_software(const Software& software, Findings& findings);

/// cufile-json: what the configuration says of PCI P2PDMA and of compatibility mode.
void judge_configuration(const Software& software, Findings& findings);

}  // namespace tierfs::gds
