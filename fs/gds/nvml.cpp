// NVML by dlopen(3): the memory of a GPU is in no file of /sys or /proc, and tierfs is built without NVIDIA's
// headers.
#include <dlfcn.h>

#include <memory>

#include "fs/gds/pci.hpp"

namespace tierfs::gds {

namespace {

// The parts of nvml.h that are needed; NVIDIA keeps the versioned names and this layout stable.
using Device = void*;
struct Memory {
    unsigned long long total, free, used;  // NOLINT(google-runtime-int): the library's own types
};

template <typename Function>
Function symbol(void* library, const char* name) {
    return reinterpret_cast<Function>(dlsym(library, name));
}

std::optional<std::uint64_t> ask(void* library, const std::string& address) {
    const auto by_address =
        symbol<int (*)(const char*, Device*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
    const auto memory_info = symbol<int (*)(Device, Memory*)>(library, "nvmlDeviceGetMemoryInfo");
    if (by_address == nullptr || memory_info == nullptr) return std::nullopt;
    Device device = nullptr;
    Memory memory{};
    if (by_address(address.c_str(), &device) != 0 || memory_info(device, &memory) != 0) return std::nullopt;
    return memory.total;
}

}  // namespace

std::optional<std::uint64_t> memory_by_nvml(const std::string& address) {
    const std::unique_ptr<void, int (*)(void*)> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL),
                                                        &dlclose);
    if (!library) return std::nullopt;
    const auto begin = symbol<int (*)()>(library.get(), "nvmlInit_v2");
    const auto end = symbol<int (*)()>(library.get(), "nvmlShutdown");
    if (begin == nullptr || end == nullptr || begin() != 0) return std::nullopt;
    const auto bytes = ask(library.get(), address);
    end();
    return bytes;
}

}  // namespace tierfs::gds
