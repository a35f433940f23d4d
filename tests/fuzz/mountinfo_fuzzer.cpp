// floor: fs
// /proc/self/mountinfo, whose paths and sources anybody who mounts may choose. Input: the file.
#include "fs/control/mountinfo.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == ' ' || c == '\n' || c == '\t' || c == '\\') {
            const auto digit = [](unsigned value) { return static_cast<char>('0' + value); };
            out += std::string("\\") + digit(byte >> 6U) + digit(byte >> 3U & 7U) + digit(byte & 7U);
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto mounts = parse_mountinfo(fuzz::text_of(data, size));
    std::string text;
    for (const auto& mount : mounts) {
        const auto found = find_mount(mounts, mount.mountpoint);
        fuzz::require(found && found->mountpoint == mount.mountpoint, "a mount is found by its path");
        // The kernel writes no empty word.
        if (mount.mountpoint.empty() || mount.type.empty() || mount.source.empty()) return 0;
        text += "1 2 " + mount.device() + " / " + escaped(mount.mountpoint) + " rw - " + escaped(mount.type) +
                " " + escaped(mount.source) + " rw\n";
    }
    const auto again = parse_mountinfo(text);
    fuzz::require(again.size() == mounts.size(), "every mount is read again");
    for (std::size_t i = 0; i < mounts.size(); ++i) {
        fuzz::require(again[i].mountpoint == mounts[i].mountpoint && again[i].source == mounts[i].source &&
                          again[i].type == mounts[i].type && again[i].device() == mounts[i].device(),
                      "and means the same");
    }
    return 0;
}
