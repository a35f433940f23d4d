#include "fs/daemon/supervisor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "fs/cli/say.hpp"
#include "fs/daemon/cache_devices.hpp"
#include "fs/daemon/confinement.hpp"
#include "fs/daemon/daemon.hpp"
#include "fs/daemon/mount_in_place.hpp"
#include "fs/daemon/service_notice.hpp"
#include "fs/daemon/supervisor_process.hpp"

namespace tierfs {

namespace {

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

}  // namespace

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
    if (settings_.index_path.empty()) {
        const bool is_needed = settings_.nvme_path.empty();
        if (is_needed ||
            is_nearly_full(settings_.nvme_path)) {  // then it is for the index, see Daemon::index_place
            auto scratch = ScratchDirectory::make(user_cache_directory());
            if (!scratch && is_needed) return fail(scratch.error());
            if (!scratch) log::warning(scratch.error().message);
            if (scratch) scratch_ = std::move(*scratch);
        }
    }
    auto record = ConnectionRecord::make();
    if (!record) return fail(record.error());
    record_ = std::move(*record);
    make_live_record();
    return fork_daemon();
}

Result<void> Supervisor::start_daemon() {
    if (!image_) return fork_daemon();
    auto started = image_->start(*record_, kRestart);
    if (!started) return fail(started.error());
    daemon_started(std::move(*started));
    return {};
}

void Supervisor::daemon_started(DaemonProcess process) {
    daemon_ = process.pid;
    daemon_channel_ = std::move(process.channel);
    listening_ = true;
    was_killed_ = false;
}

Result<void> Supervisor::fork_daemon() {
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
        daemon_channel_.close();
        mount_.device.reset();  // a daemon has those that it is sent
        listener_.reset();
        auto locks = std::move(locks_);
        reload_.reset();
        // exit, not return: what this stack holds is the supervisor's to clean up.
        std::exit(run_daemon({settings_, scratch_.path(), supervisor, *record_, std::move(ends->second),
                              WaitForTurn::no, std::move(locks), live_.get(), std::move(keepers_)}));
    }
    daemon_started({daemon_, std::move(ends->first)});
    return {};
}

int Supervisor::run() {
    if (auto started = start(); !started) {
        report_failure(started.error().message);
        return 1;
    }
    while (!exit_) {
        wait_for_news();
        if (kill_at_ && Clock::now() > *kill_at_) {
            log::error("the daemon does not answer: killing it");
            kill_daemon();
        }
        if (!exit_ && restart_at_ && Clock::now() >= *restart_at_) restart();
        if (reload_ && reload_->stage == Reload::Stage::starting && Clock::now() >= reload_->deadline)
            refuse_reload("the new program does not come up in time");
    }
    if (reload_) refuse_reload("the mount has ended");
    return exit_.value_or(1);
}

std::optional<Supervisor::Clock::time_point> Supervisor::next_deadline() const {
    std::optional<Clock::time_point> first;
    const auto earlier = [&](const std::optional<Clock::time_point>& other) {
        if (other && (!first || *other < *first)) first = other;
    };
    earlier(kill_at_);
    earlier(restart_at_);
    if (state_ == State::restarting && paused_at_ && listener_ && !answers_clients())
        earlier(*paused_at_ + kQuietPause);
    if (reload_ && reload_->stage == Reload::Stage::starting) earlier(reload_->deadline);
    return first;
}

void Supervisor::wait_for_news() {
    std::array<pollfd, 4> wanted{pollfd{signals_.get(), POLLIN, 0},
                                 pollfd{listening_ ? daemon_channel_.descriptor() : -1, POLLIN, 0},
                                 pollfd{reload_ ? reload_->process.channel.descriptor() : -1, POLLIN, 0},
                                 pollfd{answers_clients() ? listener_.get() : -1, POLLIN, 0}};
    int patience = -1;
    if (const auto deadline = next_deadline()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now());
        patience = static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, 60'000));
    }
    if (::poll(wanted.data(), wanted.size(), patience) <= 0) return;
    if (wanted[1].revents != 0) {
        if (auto message = daemon_channel_.receive()) {
            heard(std::move(*message));
        } else {
            listening_ = false;  // it has died, or is about to: SIGCHLD tells
            if (!kill_at_) kill_at_ = Clock::now() + kSilence;
        }
    }
    if (wanted[2].revents != 0 && reload_) standby_speaks();
    if (wanted[0].revents != 0) signalled();
    if (wanted[3].revents != 0 && answers_clients()) answer_client();
}

void Supervisor::heard(Message message) {
    switch (message.kind) {
        case Message::Kind::prepared:
            mount();
            break;
        case Message::Kind::failed:
            if (state_ == State::restarting || state_ == State::serving) {
                if (reload_ && reload_->stage == Reload::Stage::taken) reload_->why = message.text;
                log::error("the daemon cannot serve: " + message.text);
            } else {
                report_failure(message.text);
            }
            kill_at_ = Clock::now() + kEndPatience;
            break;
        case Message::Kind::serving:
            if (state_ == State::restarting) restarted();
            if (state_ == State::mounted && settings_.foreground) tell_service_manager("READY=1");
            if (state_ == State::mounted) state_ = State::serving;
            has_served_ = true;
            set_read_ahead(mount_.number, kReadAheadKib);  // FUSE_INIT would undo an earlier one
            if (launcher_.descriptor() >= 0 && !launcher_.send(Message::Kind::serving, news(message.text))) {
                log::error("whoever mounts does not hear of it: unmounting " + settings_.mountpoint);
                end();  // the command says that it failed
            }
            launcher_.close();
            break;
        case Message::Kind::ready:  // after its program was reloaded: one that died is replaced
            send_locks_and_go();
            break;
        case Message::Kind::reload:
            reload_asked(std::move(message.descriptor));
            break;
        case Message::Kind::lock:
            keep_lock(std::move(message));
            break;
        case Message::Kind::keeper:
            keep_keeper(std::move(message));
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
    if (state_ == State::restarting && send_mounted()) return;
    if (state_ != State::preparing) return daemon_channel_.close();  // the daemon ends
    const auto capabilities = daemon_capabilities(settings_);
    auto mounted = mount_in_place(settings_);
    if (!mounted) {
        report_failure(mounted.error().message);
        daemon_channel_.close();  // the daemon ends
        kill_at_ = Clock::now() + kEndPatience;
        return;
    }
    mount_ = std::move(mounted->mount);
    state_ = State::mounted;
    replaced_ = mounted->dead;
    listen();  // other starters see that it lives: the lock may go
    confine_supervisor(capabilities);
    if (send_mounted()) return;
    report_failure("the daemon cannot be told that " + settings_.mountpoint + " is mounted");
    daemon_channel_.close();
    kill_at_ = Clock::now() + kSilence;
}

void Supervisor::listen() {
    auto listener = listen_control(control_path(mount_.number));
    if (!listener) {
        log::warning(listener.error().message + ": `tierfs status` will not work for this mount");
        return;
    }
    listener_ = std::move(*listener);
    control_socket_ = socket_identity(control_path(mount_.number));
}

bool Supervisor::send_mounted() {
    if (listener_ && !daemon_channel_.send(Message::Kind::listener, {}, listener_.get())) return false;
    return daemon_channel_.send(Message::Kind::mounted, mount_.number, mount_.device.get());
}

void Supervisor::signal_daemon(int signal) const {
    if (daemon_ > 0) ::kill(daemon_, signal);
}

/// A daemon that does not serve by then is killed.
Supervisor::Clock::time_point Supervisor::restart_deadline() const {
    return Clock::now() + kEndPatience +
           std::min<std::chrono::milliseconds>(settings_.origin_deadline, std::chrono::hours(1));
}

void Supervisor::restart() {
    restart_at_.reset();
    if (!is_connected(mount_)) {  // unmounted meanwhile
        end_mount();
        exit_ = 0;
        return;
    }
    record_->count_restart();
    const auto forked = start_daemon();
    kill_at_ = restart_deadline();
    if (forked || will_restart("a new daemon cannot be started: " + forked.error().message)) return;
    end_mount();
    exit_ = 1;
}

void Supervisor::restarted() {
    log::info("the new daemon serves " + settings_.mountpoint);
    restarts_.served();
    kill_at_.reset();
    state_ = State::serving;
    if (reload_) reloaded();
    paused_at_.reset();
}

/// Whether another daemon is to take over; then when.
bool Supervisor::will_restart(const std::string& why) {
    if (state_ != State::serving && state_ != State::restarting) return false;
    if (!settings_.supervisor || !record_->can_be_taken_over() || !mount_.device) return false;
    if (!settings_.read_only && (!live_ || !live_->can_be_taken_over())) return false;
    const auto delay = restarts_.next(Clock::now());
    if (!delay) {
        log::error(why + "; " + std::to_string(settings_.restart_limit) +
                   " daemons were replaced within a minute (restart.limit): giving up");
        return false;
    }
    log::error(why + "; another one takes over");
    state_ = State::restarting;
    if (!paused_at_) paused_at_ = Clock::now();
    kill_at_.reset();
    restart_at_ = Clock::now() + *delay;
    return true;
}

void Supervisor::signalled() {
    signalfd_siginfo signal{};
    while (!exit_ && ::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
        if (signal.ssi_signo == SIGCHLD) {
            reap();
        } else if (signal.ssi_signo == SIGHUP && !settings_.foreground) {
            log::info("SIGHUP has no meaning for a mount");
        } else if (state_ == State::preparing) {
            state_ = State::ending;
            report_failure("interrupted before the mount was made");
            signal_daemon(SIGKILL);  // it may be waiting for the source; it holds nothing yet
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
    asked_to_end_ = true;
    ended_unserved_ = state_ == State::restarting;
    if (settings_.foreground) tell_service_manager("STOPPING=1");
    state_ = State::ending;
    const auto done = unmount_with_grace(settings_.mountpoint, mount_.number, kGrace);
    if (!done) log::error(done.error().message);
    restart_at_.reset();
    if (daemon_ < 0) {  // between two
        end_mount();
        exit_ = 0;
        return;
    }
    daemon_channel_.send(Message::Kind::finish);
    kill_at_ = Clock::now() + kEndPatience;
}

/// No daemon serves it any more, nor will.
void Supervisor::end_mount() {
    end_keepers();
    // Of a daemon that could not do it itself. The mount's number may be another one's by now.
    remove_socket(control_path(mount_.number), control_socket_);
    mount_.device.reset();  // the last one: whoever waits for an answer gets ENOTCONN now
    take_mount_away();
}

/// Whether a mount without a daemon stays: programs that write to its path must get errors, and not write to
/// the directory below it, on the root disk. Not where somebody ended it, or where it never served.
bool Supervisor::stays_dead() const {
    return !settings_.read_only && !asked_to_end_ && (has_served_ || replaced_ != 0);
}

void Supervisor::take_mount_away() {
    if (mount_.number.empty()) return;
    if (stays_dead()) {
        if (!is_mounted(settings_.mountpoint, mount_.number)) return;
        failed_ = true;
        return log::error(settings_.mountpoint +
                          " stays mounted without a daemon, so that nobody writes to the " +
                          "directory below it: it is replaced when it is mounted again");
    }
    const auto done = unmount_fuse(settings_.mountpoint, mount_.number, true);
    if (!done) log::error(done.error().message);
}

/// What the launcher is to say of a mount that serves.
std::string Supervisor::news(const std::string& remarks) const {
    if (replaced_ == 0) return remarks;
    return remarks + (remarks.empty() ? "" : "\n") + "replaced " +
           (replaced_ == 1 ? "a dead mount" : std::to_string(replaced_) + " dead mounts") + " on " +
           settings_.mountpoint;
}

// A daemon that waits for a disk that does not answer dies when the disk does, perhaps never: its readers
// must not wait for that.
void Supervisor::kill_daemon() {
    signal_daemon(SIGKILL);
    kill_at_.reset();
    if (!was_killed_ && (state_ == State::serving || state_ == State::restarting)) {
        was_killed_ = true;
        kill_at_ = Clock::now() + kEndPatience;  // its death takes a while, and then another one takes over
        return;
    }
    if (!mount_.device) return;
    if (auto aborted = abort_connection(mount_); !aborted) log::warning(aborted.error().message);
    mount_.device.reset();
    take_mount_away();
}

void Supervisor::reap() {
    int status = 0;
    for (pid_t child = 0; !exit_ && (child = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (child == daemon_) {
            daemon_died(status);
        } else if (reload_ && child == reload_->process.pid) {
            standby_died(status);
        }
    }
}

void Supervisor::daemon_died(int status) {
    const auto pid = std::exchange(daemon_, -1);
    const bool clean = (WIFEXITED(status) && WEXITSTATUS(status) == 0) || ended_unserved_;
    // Messages that it sent last may still lie in the channel, whose other end its keeper may have yet.
    while (daemon_channel_.has_news()) {
        auto message = daemon_channel_.receive();
        if (!message) break;
        const bool is_lock = message->kind == Message::Kind::lock && message->descriptor;
        if (message->kind == Message::Kind::failed || message->kind == Message::Kind::ending ||
            message->kind == Message::Kind::keeper || is_lock)
            heard(std::move(*message));
    }
    if (take_turns()) return;
    const bool was_new = reload_ && reload_->stage == Reload::Stage::taken;
    if (was_new) reload_failed(reload_->why.empty() ? how_it_died(pid, status) : reload_->why);
    if ((!clean || (was_new && state_ == State::restarting)) && will_restart(how_it_died(pid, status)))
        return;
    if (!clean && !failed_) {
        const auto why = how_it_died(pid, status);
        if (state_ == State::preparing || state_ == State::mounted) {
            report_failure(why + " while it started");
        } else {
            log::error(why + (stays_dead() ? "; nobody takes over " : "; unmounting ") +
                       settings_.mountpoint);
        }
    }
    end_mount();
    exit_ = clean && !failed_ ? 0 : 1;
}

void Supervisor::report_failure(const std::string& why) {
    failed_ = true;
    if (launcher_.descriptor() >= 0) {
        log::error(why);
        launcher_.send(Message::Kind::failed, why);
        launcher_.close();
    } else if (settings_.foreground && settings_.log_file.empty()) {
        say_line(stderr, "tierfs: " + why);
    } else {
        log::error(why);
        if (settings_.foreground) say_line(stderr, "tierfs: " + why);
    }
}

int run_supervisor(const Settings& settings, const MountRequest& request, Channel launcher) {
    int status = 1;
    {
        Supervisor supervisor(settings, request, std::move(launcher));
        status = supervisor.run();
    }
    log::flush();
    return status;
}

}  // namespace tierfs
