#include "fs/session/dying_thread.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/file_descriptor.hpp"

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

// Without streams: it is asked of many threads in a row.
bool is_asleep(pid_t thread) {
    if (thread <= 0) return false;
    const auto path = "/proc/self/task/" + std::to_string(thread) + "/stat";
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return false;
    std::array<char, 128> text{};  // a name has at most 15 bytes
    const auto length = ::read(file.get(), text.data(), text.size());
    const std::string_view found(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const auto name_end = found.rfind(')');
    if (name_end == std::string_view::npos || name_end + 2 >= found.size()) return false;
    return found[name_end + 2] == 'S' || found[name_end + 2] == 'D';
}

}  // namespace tierfs
