#include "fs/daemon/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "config/base/log_lines.hpp"
#include "fs/cli/say.hpp"
#include "fs/daemon/cache_directory.hpp"
#include "fs/daemon/mount_checks.hpp"
#include "fs/daemon/supervisor.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;

int failed(const std::string& why) {
    say_line(stderr, "tierfs: " + why);
    return 1;
}

void make_absolute(std::string& path) {
    std::error_code ignored;
    if (!path.empty()) path = std::filesystem::absolute(path, ignored).lexically_normal().string();
}

bool is_same_file(const std::string& one, const std::string& other) {
    struct stat first {};
    struct stat second {};
    return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

log::Level level_of(const std::string& name) {
    if (name == "debug") return log::Level::debug;
    if (name == "warning") return log::Level::warning;
    if (name == "error") return log::Level::error;
    return log::Level::info;
}

// The background has no terminal and no directory of its own, and holds nothing that it inherited open: a
// caller that waits for the end of a pipe would wait for the mount.
void detach(const Settings& settings, int kept) {
    ::setsid();
    if (::chdir("/") != 0) return;
    ::close_range(3, static_cast<unsigned>(kept) - 1, 0);
    ::close_range(static_cast<unsigned>(kept) + 1, ~0U, 0);
    const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ::dup2(null.get(), 0);
    ::dup2(null.get(), 1);
    // What libraries print at their end goes where one looks for it.
    const FileDescriptor log(
        settings.log_file.empty()
            ? -1
            : ::open(settings.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
    ::dup2(log ? log.get() : null.get(), 2);
}

/// Waits for a child for that long; its wait status, or nothing.
std::optional<int> wait_for_exit(pid_t child, Clock::duration patience) {
    const auto deadline = Clock::now() + patience;
    while (true) {
        int status = 0;
        const auto got = ::waitpid(child, &status, WNOHANG);
        if (got == child) return status;
        if (got < 0 && errno != EINTR) return 0;
        if (Clock::now() >= deadline) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

// Waits longer than the supervisor does for the daemon before it kills it: without a supervisor a daemon that
// hangs would keep the cache for good. Who interrupts once more waits no longer: the supervisor goes on.
void give_up(pid_t supervisor, int signals) {
    signalfd_siginfo ignored{};
    while (::read(signals, &ignored, sizeof(ignored)) == sizeof(ignored)) continue;
    ::kill(supervisor, SIGTERM);
    const auto deadline = Clock::now() + std::chrono::seconds(75);
    while (Clock::now() < deadline) {
        if (wait_for_exit(supervisor, std::chrono::milliseconds(100))) return;
        pollfd wanted{signals, POLLIN, 0};
        if (::poll(&wanted, 1, 0) > 0) return;
    }
    ::kill(supervisor, SIGKILL);
    wait_for_exit(supervisor, std::chrono::seconds(5));
}

/// Asks the mount for its root as any program would, in a process of its own: a mount that does not answer
/// holds whoever asks.
Result<void> probe(const Settings& settings, int signals) {
    const pid_t child = TIERFS_FAULT_CALL("probe.fork", ::fork());
    if (child < 0) return fail(system_error(errno, "fork"));
    if (child == 0) {
        struct stat root {};
        ::_exit(::stat(settings.mountpoint.c_str(), &root) == 0 ? 0 : std::clamp(errno, 1, 255));
    }
    const auto deadline =
        Clock::now() + std::min<std::chrono::milliseconds>(settings.origin_deadline, std::chrono::hours(1)) +
        std::chrono::seconds(15);
    while (Clock::now() < deadline) {
        if (const auto status = wait_for_exit(child, std::chrono::milliseconds(100))) {
            const int code = WIFEXITED(*status) ? WEXITSTATUS(*status) : EIO;
            if (code == 0) return {};
            return fail(system_error(code, "the mount on " + settings.mountpoint + " does not answer"));
        }
        pollfd wanted{signals, POLLIN, 0};
        if (::poll(&wanted, 1, 0) > 0) {
            ::kill(child, SIGKILL);
            return fail(EINTR, "interrupted");
        }
    }
    ::kill(child, SIGKILL);
    return fail(ETIMEDOUT, "the mount on " + settings.mountpoint + " does not answer in time");
}

int wait_for_mount(const Settings& settings, pid_t supervisor, Channel& channel, int signals) {
    std::array<pollfd, 2> wanted{pollfd{channel.descriptor(), POLLIN, 0}, pollfd{signals, POLLIN, 0}};
    while (::poll(wanted.data(), wanted.size(), -1) < 0) {
        if (errno != EINTR) break;
    }
    if (wanted[0].revents == 0) {
        give_up(supervisor, signals);
        return failed("interrupted: nothing is mounted on " + settings.mountpoint);
    }
    const auto message = channel.receive();
    if (message && message->kind == Message::Kind::serving) {
        auto answers = probe(settings, signals);
        // A daemon of a read-only mount that died by now has left the bare directory, which answers too.
        if (answers) answers = check_mounted(settings);
        if (answers) {
            std::istringstream lines(message->text);
            for (std::string line; std::getline(lines, line);) say_line(stderr, "tierfs: " + line);
            return 0;
        }
        give_up(supervisor, signals);
        return failed(answers.error().message);
    }
    if (!message) {
        give_up(supervisor, signals);  // it is gone, or there is nothing more to be heard of it
        return failed("the start of the mount broke off" +
                      (settings.log_file.empty() ? std::string{} : ": see " + settings.log_file));
    }
    wait_for_exit(supervisor, std::chrono::seconds(20));  // so that locks are free when this returns
    return failed(message->text);
}

int launch_in_background(const Settings& settings, const MountRequest& request) {
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    const FileDescriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));

    auto ends = Channel::make();
    if (!ends) return failed(ends.error().message);
    std::fflush(nullptr);
    const pid_t supervisor = TIERFS_FAULT_CALL("launch.fork", ::fork());
    if (supervisor < 0) return failed(system_error(errno, "fork").message);
    if (supervisor == 0) {
        detach(settings, ends->second.descriptor());
        open_log(settings);
        // _exit: libfuse keeps a little memory of the mount for good, and there is nothing left to do.
        ::_exit(run_supervisor(settings, request, std::move(ends->second)));
    }
    ends->second.close();
    return wait_for_mount(settings, supervisor, ends->first, descriptor.get());
}

}  // namespace

void make_paths_absolute(Settings& settings) {
    for (auto* path :
         {&settings.index_path, &settings.journal_path, &settings.log_file, &settings.s3_ca_bundle})
        make_absolute(*path);
    std::string devices;
    for (std::string& path : split_paths(settings.nvme_path)) {
        make_absolute(path);
        devices += (devices.empty() ? "" : ":") + path;
    }
    settings.nvme_path = std::move(devices);
}

std::string program_path() {
    const std::string self = "/proc/self/exe";
    const std::string name = program_invocation_name;
    std::error_code error;
    std::vector<std::string> candidates;
    if (name.find('/') != std::string::npos) {
        candidates.push_back(std::filesystem::absolute(name, error).string());
    } else if (const char* path = std::getenv("PATH"); path != nullptr) {
        for (const auto& folder : split_paths(path)) candidates.push_back(folder + "/" + name);
    }
    for (const auto& candidate : candidates) {
        if (candidate.starts_with('/') && is_same_file(candidate, self)) return candidate;
    }
    return std::filesystem::read_symlink(self, error).string();
}

std::string open_log(const Settings& settings) {
    return log::open(level_of(settings.log_level), settings.log_file,
                     settings.log_format == "json" ? log::Form::json : log::Form::text, settings.log_max_size,
                     {settings.mountpoint, settings.source});
}

int launch_mount(Settings settings, SettingsSources sources) {
    make_paths_absolute(settings);
    auto mountpoint = check_mount(settings);
    if (!mountpoint) return failed(mountpoint.error().message);
    settings.mountpoint = std::move(*mountpoint);
    sources.mountpoint = settings.mountpoint;
    const MountRequest request{program_path(), std::move(sources)};
    if (settings.foreground) {
        const auto problem = open_log(settings);
        if (!problem.empty()) return failed(problem);
        ::_exit(run_supervisor(settings, request, Channel{}));  // as above
    }
    if (settings.log_file.empty()) {
        settings.log_file = default_log_file(settings.mountpoint);
    } else if (const FileDescriptor log(
                   ::open(settings.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
               !log) {
        return failed(system_error(errno, "log.file " + settings.log_file).message);
    }
    return launch_in_background(settings, request);
}

}  // namespace tierfs
