// floor: bench
// The manifest of a dataset, which may come from whoever made the dataset. Input: the file behind its first
// line.
#include "bench/iobench/data/manifest.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    static const std::string first = "# iobench manifest 1: XXH3-128, bytes, path\n";
    const fuzz::MemoryFile file(first + std::string(fuzz::text_of(data, size)));
    auto manifest = iobench::read_manifest(file.path());
    if (!manifest) return 0;
    for (const auto& entry : *manifest) {
        fuzz::require(!entry.path.empty() && !entry.path.starts_with('/'), "a path is relative");
        const auto framed = "/" + entry.path + "/";
        fuzz::require(framed.find("/../") == std::string::npos, "and stays inside the dataset");
        fuzz::require(entry.path.find('\0') == std::string::npos,
                      "and is one that the kernel reads to its end");
        fuzz::require(entry.hash.size() == 32, "a hash has its length");
    }
    return 0;
}
