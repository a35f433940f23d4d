// The daemon process: from the fork to its end.
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <memory>
#include <optional>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "fs/daemon/confinement.hpp"
#include "fs/daemon/daemon.hpp"
#include "fs/daemon/unmount.hpp"

namespace tierfs {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIERFS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIERFS_SANITIZED 1
#endif
#endif

// Keeps what malloc holds beyond what is in use small: the memory limit counts it.
void tune_process() {
#if !defined(TIERFS_SANITIZED)
    ::mallopt(M_ARENA_MAX, 2);
    ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, 1 << 20);
    ::pthread_setattr_default_np(&attributes);
    ::pthread_attr_destroy(&attributes);
#endif
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &files);
    }
}

// All threads inherit the mask: signals come through this descriptor only.
FileDescriptor block_signals() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaddset(&signals, signal);
    FileDescriptor descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    for (const int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGCHLD}) ::sigaddset(&signals, signal);
    ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    return descriptor;
}

/// What the daemon's main thread does while others serve.
class MainLoop {
  public:
    MainLoop(Daemon& daemon, Channel& channel, int signals, const Settings& settings, std::string number)
        : daemon_(daemon),
          channel_(channel),
          signals_(signals),
          mountpoint_(settings.mountpoint),
          number_(std::move(number)),
          stays_dead_(!settings.read_only) {}

    /// The mount goes on, with another daemon.
    [[nodiscard]] bool retires() const { return retires_; }

    /// Returns when the mount is gone from the name space, must be given up, or is to change hands.
    void run() {
        while (true) {
            std::array<pollfd, 3> wanted{pollfd{daemon_.ended(), POLLIN, 0}, pollfd{signals_, POLLIN, 0},
                                         pollfd{channel_.descriptor(), POLLIN, 0}};
            const int ready = ::poll(wanted.data(), wanted.size(), 1000);
            daemon_.tick();
            if (ready <= 0) continue;
            if (wanted[0].revents != 0) return;
            if (wanted[1].revents != 0) asked_to_end();
            if (wanted[2].revents != 0 && heard_to_finish()) return;
        }
    }

  private:
    void asked_to_end() {
        signalfd_siginfo signal{};
        if (::read(signals_, &signal, sizeof(signal)) != sizeof(signal)) return;
        log::info("signal " + std::to_string(signal.ssi_signo) + ": unmounting " + mountpoint_);
        channel_.send(Message::Kind::unmount);  // a supervisor that is gone shows on the channel
    }

    bool heard_to_finish() {
        const auto message = channel_.receive();
        if (message) {
            retires_ = message->kind == Message::Kind::retire;
            return retires_ || message->kind == Message::Kind::finish;
        }
        daemon_.remove_control_socket();
        if (stays_dead_) {
            log::error("the supervisor of " + mountpoint_ +
                       " died: the daemon ends, and the mount stays without " +
                       "one, so that nobody writes to the directory below it");
            return true;
        }
        log::error("the supervisor of " + mountpoint_ + " died: unmounting");
        const auto done = unmount_with_grace(mountpoint_, number_, std::chrono::seconds(2));
        if (!done) log::error(done.error().message);
        return true;
    }

    Daemon& daemon_;
    Channel& channel_;
    int signals_;
    std::string mountpoint_, number_;
    const bool stays_dead_;  ///< the mount, without processes
    bool retires_ = false;
};

// Nobody may be left to kill a daemon whose end hangs, and it would keep its cache locked for good. Longer
// than the supervisor waits before it does.
void limit_end() {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(75);
}

int report_failure(Channel& channel, const std::string& why) {
    limit_end();
    if (!channel.send(Message::Kind::failed, why)) log::error(why);  // else the supervisor tells
    return 1;
}

int stop_unserved(Daemon& daemon) {
    limit_end();
    if (!daemon.stop()) {
        log::flush();
        ::_exit(1);  // as at the end of a mount that served
    }
    return 1;
}

/// The mount exists, and this daemon will not serve it: nobody may be left who unmounts. A writable one the
/// supervisor takes away, unless it is in the place of a dead one.
int give_up(Daemon& daemon, const Settings& settings, const std::string& number) {
    limit_end();
    daemon.remove_control_socket();
    if (!settings.read_only) return stop_unserved(daemon);
    if (const auto done = unmount_with_grace(settings.mountpoint, number, std::chrono::seconds(2)); !done)
        log::error(done.error().message);
    return stop_unserved(daemon);
}

/// Retired: another daemon serves from now on.
int end_retired(Daemon& daemon, const std::string& mountpoint) {
    log::info("another daemon takes over " + mountpoint);
    limit_end();
    const bool answered = daemon.retire();
    log::flush();
    if (!answered) ::_exit(1);
    return 0;
}

/// Until the daemon before this one has ended. False: this one is not wanted, or says why it cannot.
bool wait_for_turn(Daemon& daemon, DaemonStart& start, Channel& channel) {
    if (auto opened = daemon.open_source(start.waits == WaitForTurn::when_all_is_well); !opened) {
        report_failure(channel, opened.error().message);
        return false;
    }
    if (!channel.send(Message::Kind::ready, TIERFS_VERSION)) return false;
    auto message = channel.receive();
    for (; message && message->kind == Message::Kind::lock; message = channel.receive())
        start.locks[message->text] = std::move(message->descriptor);
    return message && message->kind == Message::Kind::go && TIERFS_FAULT("takeover.go") == 0;
}

/// What came with `mounted`, and before it.
struct Mounted {
    std::string number;
    FileDescriptor device, listener;
};
std::optional<Mounted> wait_for_mount(Channel& channel) {
    Mounted mounted;
    auto message = channel.receive();
    if (message && message->kind == Message::Kind::listener) {
        mounted.listener = std::move(message->descriptor);
        message = channel.receive();
    }
    if (!message || message->kind != Message::Kind::mounted) return std::nullopt;
    mounted.number = message->text;
    mounted.device = std::move(message->descriptor);
    return mounted;
}

int serve_mount(const Settings& settings, Daemon& daemon, Channel& channel, FolderLocks& locks, int signals) {
    if (auto prepared = daemon.prepare(); !prepared) return report_failure(channel, prepared.error().message);
    if (!channel.send(Message::Kind::prepared)) {  // it would be waited for in vain
        limit_end();
        return 1;
    }
    auto mounted = wait_for_mount(channel);
    if (!mounted) {  // could not be mounted, or given up
        limit_end();
        return 1;
    }
    const std::string number = mounted->number;
    if (auto serving = daemon.serve(std::move(mounted->device), number, std::move(mounted->listener));
        !serving) {
        const bool told = channel.send(Message::Kind::failed, serving.error().message);
        if (!told) log::error(serving.error().message);
        if (told && daemon.takes_over()) return stop_unserved(daemon);  // another one may
        return give_up(daemon, settings, number);
    }
    if (!channel.send(Message::Kind::serving, daemon.remarks())) {
        log::error("the supervisor does not hear that the mount serves: giving it up");
        return give_up(daemon, settings, number);
    }
    locks.give_up_the_rest();
    log::info("serving " + settings.source + " on " + settings.mountpoint);
    MainLoop loop(daemon, channel, signals, settings, number);
    loop.run();
    if (loop.retires()) return end_retired(daemon, settings.mountpoint);
    channel.send(Message::Kind::ending);
    limit_end();
    const bool broken = daemon.broken();
    const bool answered = daemon.stop();
    log::info("the mount on " + settings.mountpoint + " has ended");
    log::flush();
    if (!answered) ::_exit(1);  // threads that still wait hold what destructors would take away
    return broken ? 1 : 0;
}

[[noreturn]] void end_without_closing() {
    log::flush();
    ::_exit(1);
}

}  // namespace

int run_daemon(DaemonStart start) {
    Channel channel = std::move(start.channel);
    const FileDescriptor signals = block_signals();
    confine_daemon(start.settings, !start.record.init().empty());
    tune_process();
    try {
        FolderLocks locks([&channel](const std::string& folder, int descriptor) {
            channel.send(Message::Kind::lock, folder, descriptor);
        });
        if (start.live != nullptr) {
            auto kept = take_files_over(*start.live, std::move(start.keepers), channel);
            if (!kept) return report_failure(channel, kept.error().message);
            start.kept = std::move(*kept);
        }
        const auto owned = std::make_unique<Daemon>(start, channel, locks);
        auto& daemon = *owned;
        if (start.waits != WaitForTurn::no && !wait_for_turn(daemon, start, channel)) return 1;
        locks.hold(std::move(start.locks));
        const int status = serve_mount(start.settings, daemon, channel, locks, signals.get());
        // What it would close is gone from its keeper, too, and another daemon may want it.
        if (status != 0 && start.live != nullptr) end_without_closing();
        return status;
    } catch (const std::exception& error) {
        return report_failure(channel, std::string("starting failed: ") + error.what());
    }
}

}  // namespace tierfs
