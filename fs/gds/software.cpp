#include "fs/gds/software.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace tierfs::gds {

namespace {

constexpr const char* kLibrary = "libcufile.so.0";

std::string variable(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

/// lib/python3*/site-packages/nvidia/… below a prefix: pip's packages.
void add_wheels(const HostFiles& files, const std::string& prefix, std::vector<std::string>& folders) {
    for (const auto& python : files.list(prefix + "/lib")) {
        if (!python.starts_with("python3")) continue;
        for (const auto* packages : {"site-packages", "dist-packages"}) {
            const std::string nvidia = prefix + "/lib/" + python + "/" + packages + "/nvidia";
            for (const auto& package : files.list(nvidia)) folders.push_back(nvidia + "/" + package + "/lib");
        }
    }
}

std::vector<std::string> library_folders(const HostFiles& files, const Environment& environment) {
    std::vector<std::string> folders;
    std::istringstream given(variable(environment, "LD_LIBRARY_PATH"));
    for (std::string folder; std::getline(given, folder, ':');) {
        if (folder.starts_with('/')) folders.push_back(folder);
    }
    for (const auto* name : {"CUDA_HOME", "CONDA_PREFIX"}) {
        const std::string prefix = variable(environment, name);
        if (!prefix.starts_with('/')) continue;
        folders.push_back(prefix + "/lib64");
        folders.push_back(prefix + "/lib");
    }
    if (const std::string prefix = variable(environment, "VIRTUAL_ENV"); prefix.starts_with('/'))
        add_wheels(files, prefix, folders);
    for (const auto* prefix : {"/usr", "/usr/local"}) add_wheels(files, prefix, folders);
    for (const auto* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                               "/usr/lib", "/usr/local/lib"})
        folders.emplace_back(folder);
    for (const auto& name : files.list("/usr/local")) {
        if (name.starts_with("cuda")) folders.push_back("/usr/local/" + name + "/lib64");
    }
    return folders;
}

/// "…/nvidia/cufile/lib": the package's version is in the name of a folder beside "nvidia".
std::optional<Version> wheel_version(const HostFiles& files, const std::string& folder) {
    const auto end = folder.find("/nvidia/");
    if (end == std::string::npos) return std::nullopt;
    for (const auto& name : files.list(folder.substr(0, end))) {
        // nvidia_cufile_cu12-1.13.1.3.dist-info, nvidia_cufile-1.15.1.6.dist-info
        const auto dash = name.find('-');
        if (name.starts_with("nvidia_cufile") && name.ends_with(".dist-info") && dash != std::string::npos)
            return version_in(std::string_view(name).substr(dash + 1));
    }
    return std::nullopt;
}

std::vector<CuFileLibrary> find_libraries(const HostFiles& files, const Environment& environment) {
    std::vector<CuFileLibrary> found;
    std::vector<std::string> seen;
    for (const auto& folder : library_folders(files, environment)) {
        const std::string path = folder + "/" + kLibrary;
        const auto real = files.canonical(path);
        if (!real || std::find(seen.begin(), seen.end(), *real) != seen.end()) continue;
        seen.push_back(*real);
        // libcufile.so.0 -> libcufile.so.1.13.1, or a file of that name in a Python package.
        const std::string name = real->substr(real->rfind('/') + 1);
        auto version = name.starts_with("libcufile.so.") ? version_in(name) : std::nullopt;
        if (!version) version = wheel_version(files, *real);
        found.push_back({path, version});
    }
    return found;
}

std::optional<bool> kernel_has_p2pdma(const HostFiles& files) {
    const std::string release = files.text("/proc/sys/kernel/osrelease").value_or("");
    for (const auto& path : {"/boot/config-" + release, "/lib/modules/" + release + "/config"}) {
        if (files.exists(path)) return files.mentions(path, "CONFIG_PCI_P2PDMA=y");
    }
    if (!files.exists("/proc/kallsyms")) return std::nullopt;
    // Data such as p2pdma_pgmap_ops is listed by kernels with CONFIG_KALLSYMS_ALL alone, functions by all.
    return files.mentions("/proc/kallsyms", " pci_p2pdma_") ||
           files.mentions("/proc/kallsyms", "p2pdma_pgmap_ops");
}

std::string registry_of(const HostFiles& files) {
    std::istringstream lines(files.text("/proc/driver/nvidia/params").value_or(""));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("RegistryDwords:")) return line.substr(15);
    }
    return {};
}

void judge_driver(const Software& software, Findings& findings) {
    if (!software.driver) {
        fail(findings, "nvidia-driver", "NVIDIA's kernel driver is not loaded",
             {"Nothing maps the memory of a GPU without it.",
              "Install the driver (the open kernel modules)."});
        return;
    }
    const std::string text = "NVIDIA's kernel driver " + software.driver->text() +
                             (software.open_driver ? ", the open modules" : ", the closed modules");
    const Version least{{565}};
    if (!software.open_driver || *software.driver < least) {
        fail(findings, "nvidia-driver", text,
             {"PCI P2PDMA needs the open modules, 565 or later.",
              "Install a newer driver with the open modules."},
             Backends::p2pdma);
        if (software.open_driver) {
            pass(findings, "nvidia-driver", text, Backends::nvidia_fs);
        } else {
            fail(findings, "nvidia-driver", text,
                 {"Current versions of nvidia-fs need the open modules.",
                  "Install the driver with the open modules."},
                 Backends::nvidia_fs);
        }
        return;
    }
    pass(findings, "nvidia-driver", text);
}

void judge_nvidia_fs(const Software& software, Findings& findings) {
    if (!software.nvidia_fs) {
        fail(findings, "nvidia-fs", "the kernel module nvidia-fs is not loaded",
             {"This way goes through it.",
              "Install nvidia-fs-dkms and modprobe nvidia-fs, or use PCI P2PDMA."},
             Backends::nvidia_fs);
        return;
    }
    const std::string text = "nvidia-fs " + (software.nvidia_fs_version ? software.nvidia_fs_version->text()
                                                                        : "of unknown version");
    if (software.nvidia_fs_version && *software.nvidia_fs_version < Version{{2, 26, 6}}) {
        warn(findings, "nvidia-fs", text,
             {"Older versions than 2.26.6 were seen to fail at each mapping of BAR1 on current kernels while "
              "they "
              "looked healthy.",
              "Install a newer nvidia-fs, and prove the path with bench/gds-read."},
             Backends::nvidia_fs);
    } else {
        pass(findings, "nvidia-fs", text, Backends::nvidia_fs);
    }
    if (software.nvme_for_nvidia_fs) {
        pass(findings, "nvme-driver", "the NVMe driver works with nvidia-fs", Backends::nvidia_fs);
    } else {
        fail(findings, "nvme-driver", "the NVMe driver does not work with nvidia-fs",
             {"nvidia-fs needs an NVMe driver with NVIDIA's changes; the kernel's own has none of them.",
              "Install the one of DOCA or MLNX_OFED, or use PCI P2PDMA."},
             Backends::nvidia_fs);
    }
}

void judge_kernel(const Software& software, Findings& findings) {
    const std::string kernel = "Linux " + (software.kernel ? software.kernel->text() : "of unknown version");
    if (software.kernel && *software.kernel < Version{{6, 2}}) {
        fail(findings, "kernel", kernel,
             {"PCI P2PDMA of user memory came with Linux 6.2.", "Run a newer kernel, or use nvidia-fs."},
             Backends::p2pdma);
    } else {
        pass(findings, "kernel", kernel, Backends::p2pdma);
    }
    if (!software.kernel_p2pdma) {
        skip(findings, "p2pdma", "not known whether the kernel has PCI P2PDMA",
             "neither the kernel's configuration nor /proc/kallsyms can be read", Backends::p2pdma);
    } else if (*software.kernel_p2pdma) {
        pass(findings, "p2pdma", "the kernel has PCI P2PDMA", Backends::p2pdma);
    } else {
        fail(findings, "p2pdma", "the kernel has no PCI P2PDMA",
             {"It was built without CONFIG_PCI_P2PDMA.", "Run a kernel with it, or use nvidia-fs."},
             Backends::p2pdma);
    }
    if (software.nvme_multipath.value_or(false)) {
        fail(findings, "nvme-multipath", "nvme_core.multipath is on",
             {"A multipath device hides that the device behind it could take the memory of a GPU.",
              "options nvme_core multipath=N in /etc/modprobe.d, a new initramfs, and a reboot."},
             Backends::p2pdma);
    } else if (software.nvme_multipath) {
        pass(findings, "nvme-multipath", "nvme_core.multipath is off", Backends::p2pdma);
    } else {
        skip(findings, "nvme-multipath", "not known whether nvme_core.multipath is on",
             "the NVMe driver is not loaded or has no such parameter", Backends::p2pdma);
    }
}

void judge_static_bar1(const Software& software, Findings& findings) {
    if (!software.driver) return;
    std::string lacking;
    for (const auto* word : {"RMForceStaticBar1=1", "RmForceDisableIomapWC=1"}) {
        if (software.registry.find(word) == std::string::npos)
            lacking += (lacking.empty() ? "" : " and ") + std::string(word);
    }
    if (!lacking.empty()) {
        fail(findings, "static-bar1", "the driver is not loaded with " + lacking,
             {"PCI P2PDMA on x86-64 needs all of BAR1 mapped once and for all, without write combining.",
              "options nvidia NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1\" in "
              "/etc/modprobe.d, and a reboot."},
             Backends::p2pdma);
        return;
    }
    pass(findings, "static-bar1", "BAR1 is mapped statically", Backends::p2pdma);
    if (*software.driver >= Version{{570}} && *software.driver < Version{{595}})
        warn(findings, "static-bar1", "static BAR1 with driver " + software.driver->text(),
             {"Drivers before 595 were seen to lose about 4 MiB of the GPU for each process with it, and to "
              "start CUDA "
              "slowly.",
              "Install driver 595 or later."},
             Backends::p2pdma);
}

void judge_library(const Software& software, Findings& findings) {
    if (software.libraries.empty()) {
        fail(findings, "libcufile", "libcufile is not found",
             {"It is the library that programs read through. It was looked for in LD_LIBRARY_PATH, CUDA's "
              "folders, "
              "the system's, and Python's packages.",
              "Install CUDA's libcufile, or a torch that brings nvidia-cufile; set LD_LIBRARY_PATH or "
              "VIRTUAL_ENV to "
              "where the program has it."});
        return;
    }
    for (const auto& library : software.libraries) {
        const std::string text = "libcufile " +
                                 (library.version ? library.version->text() : "of unknown version") + ": " +
                                 library.path;
        if (library.version && *library.version < Version{{1, 13}}) {
            pass(findings, "libcufile", text, Backends::nvidia_fs);
            const Reason reason = {"PCI P2PDMA came with libcufile 1.13 (CUDA 12.8).",
                                   "Install a newer one, or see that programs load another."};
            const bool other = newest_cufile(software).value_or(Version{}) >= Version{{1, 13}};
            if (other) {
                warn(findings, "libcufile", text, reason, Backends::p2pdma);
            } else {
                fail(findings, "libcufile", text, reason, Backends::p2pdma);
            }
        } else {
            pass(findings, "libcufile", text);
        }
    }
}

}  // namespace

Environment library_environment() {
    Environment environment;
    for (const auto* name :
         {"LD_LIBRARY_PATH", "CUFILE_ENV_PATH_JSON", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME"}) {
        if (const char* value = std::getenv(name)) environment[name] = value;
    }
    return environment;
}

Software look_at_software(const HostFiles& files, const Environment& environment) {
    Software software;
    software.kernel = version_in(files.text("/proc/sys/kernel/osrelease").value_or(""));
    const std::string driver = files.text("/proc/driver/nvidia/version").value_or("");
    software.driver = version_in(driver.substr(0, driver.find('\n')));
    if (!software.driver) software.driver = version_in(files.text("/sys/module/nvidia/version").value_or(""));
    software.open_driver = driver.find("Open Kernel Module") != std::string::npos;
    software.registry = registry_of(files);
    software.nvidia_fs = files.exists("/sys/module/nvidia_fs") || files.exists("/proc/driver/nvidia-fs");
    software.nvidia_fs_version = version_in(files.text("/sys/module/nvidia_fs/version").value_or(""));
    if (!software.nvidia_fs_version)
        software.nvidia_fs_version = version_in(files.text("/proc/driver/nvidia-fs/version").value_or(""));
    // What nvidia-fs looks for in the kernel: the NVMe driver's offer to register with it.
    software.nvme_for_nvidia_fs =
        software.nvidia_fs && files.mentions("/proc/kallsyms", "nvme_v1_register_nvfs_dma_ops");
    software.kernel_p2pdma = kernel_has_p2pdma(files);
    if (const auto multipath = files.text("/sys/module/nvme_core/parameters/multipath"))
        software.nvme_multipath = *multipath == "Y" || *multipath == "1";
    software.libraries = find_libraries(files, environment);
    software.configuration_path = variable(environment, "CUFILE_ENV_PATH_JSON");
    if (software.configuration_path.empty()) software.configuration_path = "/etc/cufile.json";
    software.configuration = files.text(software.configuration_path);
    return software;
}

std::optional<Version> newest_cufile(const Software& software) {
    std::optional<Version> newest;
    for (const auto& library : software.libraries) {
        if (library.version && (!newest || *newest < *library.version)) newest = library.version;
    }
    return newest;
}

bool can_p2pdma(const Software& software) {
    const auto library = newest_cufile(software);
    return software.driver && software.open_driver && *software.driver >= Version{{565}} &&
           (!software.kernel || *software.kernel >= Version{{6, 2}}) &&
           software.kernel_p2pdma.value_or(true) && (!library || *library >= Version{{1, 13}});
}

void judge_software(const Software& software, Findings& findings) {
    judge_driver(software, findings);
    judge_nvidia_fs(software, findings);
    judge_kernel(software, findings);
    judge_static_bar1(software, findings);
    judge_library(software, findings);
}

}  // namespace tierfs::gds
