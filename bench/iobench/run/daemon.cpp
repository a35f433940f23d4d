#include "bench/iobench/run/daemon.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/run/machine.hpp"

namespace tierfs::iobench {

namespace {

std::string process_file(pid_t pid, const char* name) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
}

constexpr time_t kPatience = 5;  // seconds

/// The supervisor listens on the socket, so the kernel's word for the peer is its; the daemon says who it is.
std::optional<pid_t> daemon_that_says_so(int socket) {
    constexpr std::string_view kQuestion = "{\"command\": \"sample\"}\n";
    if (send(socket, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(kQuestion.size()))
        return std::nullopt;
    std::string answer;
    std::array<char, 4096> piece{};
    while (!answer.ends_with('\n')) {
        const auto got = recv(socket, piece.data(), piece.size(), 0);
        if (got <= 0) return std::nullopt;
        answer.append(piece.data(), static_cast<std::size_t>(got));
    }
    const auto told = nlohmann::json::parse(answer, nullptr, false);
    const auto pid = nlohmann::json::json_pointer("/result/pid");
    if (!told.is_object() || !told.contains(pid) || !told[pid].is_number_integer()) return std::nullopt;
    return told[pid].get<pid_t>();
}

std::optional<ProcessTimes> times_of(pid_t pid) {
    return parse_process_stat(process_file(pid, "stat"), static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

Result<Daemon> Daemon::find(std::vector<pid_t> pids) {
    Daemon daemon;
    for (const pid_t pid : pids) {
        const auto times = times_of(pid);
        if (!times) return fail(ESRCH, "there is no process " + std::to_string(pid));
        daemon.processes_.push_back({.pid = pid, .name = times->name, .started = times->started});
    }
    daemon.begin();
    return daemon;
}

void Daemon::begin() {
    peak_ = 0;
    sample();
    for (auto& process : processes_) process.begun_s = process.now_s;
}

void Daemon::sample() {
    std::uint64_t memory = 0;
    for (auto& process : processes_) {
        const auto times = process.gone ? std::nullopt : times_of(process.pid);
        process.gone = !times || times->started != process.started;
        if (process.gone) continue;
        process.now_s = times->cpu_s;
        memory += parse_status_memory(process_file(process.pid, "status")).value_or(0);
    }
    peak_ = std::max(peak_, memory);
}

double Daemon::cpu_s() const {
    double total = 0;
    for (const auto& process : processes_) total += process.now_s - process.begun_s;
    return total;
}

std::optional<std::string> Daemon::lost() const {
    for (const auto& process : processes_)
        if (process.gone)
            return "the daemon " + process.name + " (process " + std::to_string(process.pid) + ") has ended";
    return std::nullopt;
}

std::vector<pid_t> Daemon::pids() const {
    std::vector<pid_t> pids;
    for (const auto& process : processes_) pids.push_back(process.pid);
    return pids;
}

std::optional<pid_t> tierfs_daemon(const std::string& device_number, const std::string& directory) {
    const std::string path = directory + "/" + device_number + ".sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return std::nullopt;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const Fd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{kPatience, 0};
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return std::nullopt;
    return daemon_that_says_so(client.get());
}

}  // namespace tierfs::iobench
