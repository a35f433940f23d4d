// floor: config
// What the kernel says of memory. Input: /proc/meminfo, NUL, /proc/self/status, NUL, /proc/self/cgroup, NUL,
// memory.max.
#include <fstream>

#include "config/memory_sources.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    static const fuzz::Folder folder;
    const MemoryRoots roots{folder.path() / "proc", folder.path() / "cgroup"};
    static const bool made = std::filesystem::create_directories(folder.path() / "proc/self") &&
                             std::filesystem::create_directories(folder.path() / "cgroup/a/b");
    fuzz::require(made, "folders can be made");
    auto text = fuzz::text_of(data, size);
    for (const char* name : {"proc/meminfo", "proc/self/status", "proc/self/cgroup", "cgroup/a/memory.max"}) {
        const auto end = std::min(text.find('\0'), text.size());
        std::ofstream(folder.path() / name, std::ios::binary) << text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    fuzz::require(default_memory_limit(roots) <= std::uint64_t{8} << 30U, "the default is at most 8 GiB");
    (void)resident_memory(roots);
    return 0;
}
