#include "fs/session/dying_thread.hpp"

#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace tierfs {
namespace {

constexpr unsigned long kExiting = 4;  // PF_EXITING of the kernel
// Fields of /proc/TID/stat, counted from the one behind the name: the third of proc(5).
constexpr std::size_t kFlags = 9 - 3, kExitCode = 52 - 3;

}  // namespace

bool is_about_to_die(pid_t thread) {
    if (thread <= 0) return false;
    std::ifstream file("/proc/" + std::to_string(thread) + "/status");
    std::string line;
    constexpr unsigned long long kKill = 1ULL << (SIGKILL - 1);
    while (std::getline(file, line)) {
        if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
        if ((std::strtoull(line.c_str() + 7, nullptr, 16) & kKill) != 0) return true;
    }
    return false;
}

bool is_dying(pid_t thread) {
    if (thread <= 0) return false;
    std::ifstream file("/proc/" + std::to_string(thread) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto name_end = text.rfind(')');
    if (name_end == std::string::npos) return false;
    std::istringstream rest(text.substr(name_end + 1));
    const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
    if (fields.size() <= kExitCode) return false;
    const bool exits = (std::strtoul(fields[kFlags].c_str(), nullptr, 10) & kExiting) != 0;
    const auto code = std::strtoul(fields[kExitCode].c_str(), nullptr, 10);
    return exits && (code & 0x7fU) == SIGKILL;
}

}  // namespace tierfs
