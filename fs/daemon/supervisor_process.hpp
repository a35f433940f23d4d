// The supervisor process from within: supervisor.cpp has its life, supervisor_reload.cpp the change of
// programs. Internal to fs/daemon.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fs/control/control.hpp"
#include "fs/daemon/cache_directory.hpp"
#include "fs/daemon/live_takeover.hpp"
#include "fs/daemon/program_image.hpp"
#include "fs/daemon/restarts.hpp"
#include "fs/daemon/supervisor.hpp"
#include "fs/daemon/unmount.hpp"
#include "fs/session/connection_record.hpp"

namespace tierfs {

/// One process of one thread: a state machine over the messages of its daemons, their deaths, signals and
/// deadlines.
class Supervisor {
  public:
    Supervisor(const Settings& settings, const MountRequest& request, Channel launcher)
        : settings_(settings),
          request_(request),
          launcher_(std::move(launcher)),
          restarts_(settings.restart_limit) {}

    int run();

  private:
    using Clock = std::chrono::steady_clock;
    static constexpr auto kQuietPause = std::chrono::seconds(3);  ///< clients wait so long for a daemon
    enum class State { preparing, mounted, serving, restarting, ending };

    /// Another program takes the place of the daemon that serves.
    struct Reload {
        enum class Stage {
            starting,      ///< the new one looks whether it can; the old one serves
            handing_over,  ///< the old one was told to end
            taken,         ///< the new one is the daemon, and does not serve yet
            failed,        ///< the old program is to serve again
        };
        Stage stage = Stage::starting;
        FileDescriptor client;  ///< who asked, and hears what became of it
        ProgramImage image;
        DaemonProcess process;  ///< until it is the daemon; pid -1: it has died
        std::string version, why;
        Clock::time_point deadline;
    };

    Result<void> start();
    Result<void> start_daemon();
    Result<void> fork_daemon();
    void daemon_started(DaemonProcess process);
    void wait_for_news();
    [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
    void block_signals();
    void heard(Message message);
    void mount();
    void listen();
    bool send_mounted();
    void signal_daemon(int signal) const;
    [[nodiscard]] Clock::time_point restart_deadline() const;
    void restart();
    void restarted();
    bool will_restart(const std::string& why);
    void make_live_record();
    void keep_keeper(Message message);
    void end_keepers();
    void end_mount();
    [[nodiscard]] bool stays_dead() const;
    void take_mount_away();
    [[nodiscard]] std::string news(const std::string& remarks) const;
    void signalled();
    void end();
    void kill_daemon();
    void reap();
    void daemon_died(int status);
    void report_failure(const std::string& why);
    void keep_lock(Message message);
    void send_locks_and_go();
    [[nodiscard]] bool answers_clients() const;
    void answer_client();

    [[nodiscard]] TakeoverRequest takeover_request() const;
    void reload_asked(FileDescriptor client);
    void standby_speaks();
    void standby_died(int status);
    void refuse_reload(const std::string& why);
    void hand_over();
    [[nodiscard]] bool take_turns();
    void reload_failed(const std::string& why);
    void reloaded();
    static void answer(const FileDescriptor& client, const std::string& line);

    const Settings& settings_;
    const MountRequest& request_;
    Channel launcher_;
    Channel daemon_channel_;
    FileDescriptor signals_;
    ScratchDirectory scratch_;
    FuseMount mount_;
    std::unique_ptr<ConnectionRecord> record_;
    std::unique_ptr<LiveRecord> live_;  ///< of a writable mount that can be taken over; else null
    KeeperLines keepers_;
    std::optional<ProgramImage> image_;  ///< what daemons are started from; none: this process
    std::optional<Reload> reload_;
    FileDescriptor listener_;  ///< of the control socket: clients wait while no daemon serves
    std::map<std::string, FileDescriptor> locks_;  ///< by folder: nobody else gets them between two daemons
    std::optional<Clock::time_point> paused_at_;   ///< no daemon serves since then, and another one is to
    Restarts restarts_;
    pid_t daemon_ = -1;  ///< -1: none runs
    bool listening_ = true, was_killed_ = false;
    bool has_served_ = false, asked_to_end_ = false;
    unsigned replaced_ = 0;  ///< dead mounts on the mount point
    std::optional<SocketIdentity> control_socket_;
    bool ended_unserved_ = false;  ///< while a daemon was about to take over: it may end as it likes
    State state_ = State::preparing;
    bool failed_ = false;
    std::optional<int> exit_;
    std::optional<Clock::time_point> kill_at_, restart_at_;
};

}  // namespace tierfs
