// floor: config
// nfs:// URLs. Input: the URL.
#include "config/nfs_url.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const std::string source = "nfs://" + std::string(reinterpret_cast<const char*>(data), size);
    const auto url = parse_nfs_url(source);
    if (!url) {
        fuzz::require(url.error().code == EINVAL && !url.error().message.empty(), "an error says what it is");
        return 0;
    }
    fuzz::require(
        !url->hosts.empty() && url->path.starts_with('/') && url->path.find("/../") == std::string::npos,
        "an absolute path that leads nowhere else");
    const auto again = parse_nfs_url(source);
    fuzz::require(again && again->identity() == url->identity(), "the same each time");
    return 0;
}
