#include "backends/dir/credentials.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace tierfs {

namespace {

/// The rest of the line that begins with a name; empty: there is no such line.
std::string_view value_of(std::string_view status, std::string_view name) {
    while (!status.empty()) {
        const auto line = status.substr(0, status.find('\n'));
        if (line.starts_with(name)) return line.substr(name.size());
        status.remove_prefix(std::min(line.size() + 1, status.size()));
    }
    return {};
}

}  // namespace

Credentials read_credentials(std::string_view status) {
    Credentials found;
    const auto effective = value_of(status, "CapEff:\t");
    std::from_chars(effective.data(), effective.data() + effective.size(), found.capabilities, 16);
    auto groups = value_of(status, "Groups:\t");
    while (!groups.empty()) {
        gid_t one = 0;
        const auto [end, error] = std::from_chars(groups.data(), groups.data() + groups.size(), one);
        if (error != std::errc()) break;
        found.groups.push_back(one);
        groups.remove_prefix(static_cast<std::size_t>(end - groups.data()));
        groups.remove_prefix(std::min(groups.find_first_not_of(' '), groups.size()));
    }
    return found;
}

Credentials credentials_of(pid_t thread) {
    if (thread <= 0) return {};
    std::ifstream file("/proc/" + std::to_string(thread) + "/status");
    const std::string status{std::istreambuf_iterator<char>(file), {}};
    return read_credentials(status);
}

}  // namespace tierfs
