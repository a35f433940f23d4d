#include "fs/daemon/supervisor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "config/fault_point.hpp"
#include "config/log.hpp"
#include "fs/daemon/cache_directory.hpp"
#include "fs/daemon/daemon.hpp"
#include "fs/daemon/unmount.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(2);         // for readers to finish before a lazy unmount
constexpr auto kSilence = std::chrono::seconds(5);       // for a daemon whose channel closed to have died
constexpr auto kEndPatience = std::chrono::seconds(60);  // for the daemon to write out what it caches
constexpr unsigned kReadAheadKib = 512;

std::string how_it_died(pid_t pid, int status) {
    const auto who = "the daemon (pid " + std::to_string(pid) + ")";
    if (!WIFSIGNALED(status)) return who + " ended with status " + std::to_string(WEXITSTATUS(status));
    const int signal = WTERMSIG(status);
    auto text = who + " was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
    if (signal == SIGKILL) text += ": perhaps for want of memory, see dmesg";
    return text;
}

class Supervisor {
  public:
    Supervisor(const Settings& settings, Channel launcher)
        : settings_(settings), launcher_(std::move(launcher)) {}

    int run();

  private:
    enum class State { preparing, mounted, serving, ending };

    Result<void> start();
    void block_signals();
    void heard(Message message);
    void mount();
    void signalled();
    void end();
    void kill_daemon();
    void daemon_died();
    void report_failure(const std::string& why);

    const Settings& settings_;
    Channel launcher_;
    Channel daemon_channel_;
    FileDescriptor signals_;
    ScratchDirectory scratch_;
    FuseMount mount_;
    pid_t daemon_ = -1;
    State state_ = State::preparing;
    bool failed_ = false;
    std::optional<int> exit_;
    std::optional<Clock::time_point> kill_at_;
};

void Supervisor::block_signals() {
    ::signal(SIGCHLD, SIG_DFL);  // one that is ignored, by inheritance, would reap the daemon unseen
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}) ::sigaddset(&signals, signal);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    ::sigaddset(&signals, SIGPIPE);
    ::sigprocmask(SIG_SETMASK, &signals, nullptr);
}

Result<void> Supervisor::start() {
    block_signals();
    if (settings_.nvme_path.empty() && settings_.index_path.empty()) {
        auto scratch = ScratchDirectory::make(user_cache_directory());
        if (!scratch) return fail(scratch.error());
        scratch_ = std::move(*scratch);
    }
    auto ends = Channel::make();
    if (!ends) return fail(ends.error());
    log::flush();
    const auto supervisor = ::getpid();
    daemon_ = TIERFS_FAULT_CALL("supervisor.fork", ::fork());
    if (daemon_ < 0) return fail(system_error(errno, "fork"));
    if (daemon_ == 0) {
        ends->first.close();
        launcher_.close();
        signals_.reset();
        // exit, not return: what this stack holds is the supervisor's to clean up.
        std::exit(run_daemon(settings_, scratch_.path(), supervisor, std::move(ends->second)));
    }
    daemon_channel_ = std::move(ends->first);
    return {};
}

int Supervisor::run() {
    if (auto started = start(); !started) {
        report_failure(started.error().message);
        return 1;
    }
    bool listening = true;
    while (!exit_) {
        std::array<pollfd, 2> wanted{pollfd{signals_.get(), POLLIN, 0},
                                     pollfd{listening ? daemon_channel_.descriptor() : -1, POLLIN, 0}};
        if (::poll(wanted.data(), wanted.size(), kill_at_ ? 1000 : -1) < 0 && errno != EINTR) break;
        if (wanted[1].revents != 0) {
            if (auto message = daemon_channel_.receive()) {
                heard(std::move(*message));
            } else {
                listening = false;  // it has died, or is about to: SIGCHLD tells
                if (!kill_at_) kill_at_ = Clock::now() + kSilence;
            }
        }
        if (wanted[0].revents != 0) signalled();
        if (kill_at_ && Clock::now() > *kill_at_) {
            log::error("the daemon does not end: killing it");
            kill_daemon();
        }
    }
    return exit_.value_or(1);
}

void Supervisor::heard(Message message) {
    switch (message.kind) {
        case Message::Kind::prepared:
            mount();
            break;
        case Message::Kind::failed:
            report_failure(message.text);
            kill_at_ = Clock::now() + kEndPatience;
            break;
        case Message::Kind::serving:
            if (state_ == State::mounted) state_ = State::serving;
            set_read_ahead(mount_.number, kReadAheadKib);  // FUSE_INIT would undo an earlier one
            if (launcher_.descriptor() >= 0 && !launcher_.send(Message::Kind::serving)) {
                log::error("whoever mounts does not hear of it: unmounting " + settings_.mountpoint);
                end();  // the command says that it failed
            }
            launcher_.close();
            break;
        case Message::Kind::unmount:
            end();
            break;
        case Message::Kind::ending:
            state_ = State::ending;
            kill_at_ = Clock::now() + kEndPatience;
            break;
        default:
            break;
    }
}

void Supervisor::mount() {
    if (state_ != State::preparing) return;
    auto mounted = mount_fuse(settings_);
    if (!mounted) {
        report_failure(mounted.error().message);
        daemon_channel_.close();  // the daemon ends
        kill_at_ = Clock::now() + kEndPatience;
        return;
    }
    mount_ = std::move(*mounted);
    state_ = State::mounted;
    if (daemon_channel_.send(Message::Kind::mounted, mount_.number, mount_.device.get())) return;
    report_failure("the daemon cannot be told that " + settings_.mountpoint + " is mounted");
    daemon_channel_.close();
    kill_at_ = Clock::now() + kSilence;
}

void Supervisor::signalled() {
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
        if (signal.ssi_signo == SIGCHLD) {
            daemon_died();
        } else if (signal.ssi_signo == SIGHUP && !settings_.foreground) {
            log::info("SIGHUP has no meaning for a mount");
        } else if (state_ == State::preparing) {
            state_ = State::ending;
            report_failure("interrupted before the mount was made");
            ::kill(daemon_, SIGKILL);  // it may be waiting for the source; it holds nothing yet
        } else {
            log::info("signal " + std::to_string(signal.ssi_signo) + ": unmounting " + settings_.mountpoint);
            end();
        }
    }
}

// Readers get a moment to finish; then the mount leaves the name space, and what is open still ends with the
// daemon.
void Supervisor::end() {
    if (state_ == State::ending || state_ == State::preparing) return;
    state_ = State::ending;
    const auto done = unmount_with_grace(settings_.mountpoint, mount_.number, kGrace);
    if (!done) log::error(done.error().message);
    daemon_channel_.send(Message::Kind::finish);
    kill_at_ = Clock::now() + kEndPatience;
}

// A daemon that waits for a disk that does not answer dies when the disk does, perhaps never: its readers
// must not wait for that.
void Supervisor::kill_daemon() {
    ::kill(daemon_, SIGKILL);
    kill_at_.reset();
    if (!mount_.device) return;
    if (auto aborted = abort_connection(mount_); !aborted) log::warning(aborted.error().message);
    mount_.device.reset();
    const auto done = unmount_fuse(settings_.mountpoint, mount_.number, true);
    if (!done) log::error(done.error().message);
}

void Supervisor::daemon_died() {
    int status = 0;
    if (::waitpid(daemon_, &status, WNOHANG) != daemon_) return;
    const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    // Messages that it sent last may still lie in the channel.
    while (daemon_channel_.descriptor() >= 0) {
        auto message = daemon_channel_.receive();
        if (!message) break;
        if (message->kind == Message::Kind::failed) report_failure(message->text);
    }
    if (!clean && !failed_) {
        const auto why = how_it_died(daemon_, status);
        if (state_ == State::preparing || state_ == State::mounted) {
            report_failure(why + " while it started");
        } else {
            log::error(why + "; unmounting " + settings_.mountpoint);
        }
    }
    mount_.device.reset();  // the last one: whoever waits for an answer gets ENOTCONN now
    if (!mount_.number.empty()) {
        const auto done = unmount_fuse(settings_.mountpoint, mount_.number, true);
        if (!done) log::error(done.error().message);
    }
    exit_ = clean && !failed_ ? 0 : 1;
}

void Supervisor::report_failure(const std::string& why) {
    failed_ = true;
    if (launcher_.descriptor() >= 0) {
        log::error(why);
        launcher_.send(Message::Kind::failed, why);
        launcher_.close();
    } else if (settings_.foreground && settings_.log_file.empty()) {
        std::fprintf(stderr, "tierfs: %s\n", why.c_str());
    } else {
        log::error(why);
        if (settings_.foreground) std::fprintf(stderr, "tierfs: %s\n", why.c_str());
    }
}

}  // namespace

int run_supervisor(const Settings& settings, Channel launcher) {
    int status = 1;
    {
        Supervisor supervisor(settings, std::move(launcher));
        status = supervisor.run();
    }
    log::flush();
    return status;
}

}  // namespace tierfs
