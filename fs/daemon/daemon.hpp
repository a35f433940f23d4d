// fs/daemon/: the processes of a mount. The launcher (launch.hpp) checks and starts; the supervisor
// (supervisor.hpp) mounts, holds /dev/fuse and watches; the daemon (this file) serves.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "backends/origin/origin.hpp"
#include "backends/pack/packed_origin.hpp"
#include "config/memory_plan.hpp"
#include "config/settings.hpp"
#include "fs/control/control.hpp"
#include "fs/control/jobs.hpp"
#include "fs/daemon/cache_devices.hpp"
#include "fs/daemon/cache_directory.hpp"
#include "fs/daemon/channel.hpp"
#include "fs/daemon/engine.hpp"
#include "fs/daemon/live_takeover.hpp"
#include "fs/metadata/namespace.hpp"
#include "fs/observe/http_responder.hpp"
#include "fs/observe/status.hpp"
#include "fs/session/connection_record.hpp"
#include "fs/session/invalidator.hpp"
#include "fs/session/session.hpp"
#include "fs/session/watchdog.hpp"
#include "tiering/index/index.hpp"
#include "tiering/nvme/nvme_tier.hpp"
#include "tiering/policy/pins.hpp"
#include "tiering/store/pin_keeper.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// When a daemon begins that takes a mount over from one which still serves: it says that it is ready, and
/// waits for Message::Kind::go.
enum class WaitForTurn {
    no,
    always,            ///< somebody has to serve: a source that does not answer does not matter
    when_all_is_well,  ///< else it says why not, and ends
};

/// What a daemon is started with. The record must outlive it.
struct DaemonStart {
    Settings settings;
    std::filesystem::path scratch;  ///< for the index of a mount that has no other place for it
    long supervisor_pid;
    ConnectionRecord& record;
    Channel channel;  ///< to the supervisor
    WaitForTurn waits = WaitForTurn::no;
    std::map<std::string, FileDescriptor> locks = {};  ///< by folder, of the daemon before
    LiveRecord* live = nullptr;  ///< of a writable mount that can be taken over; must outlive it
    KeeperLines keepers = {};
    KeptFiles kept = {};  ///< taken over from the daemon before
};

/// Owns everything that serves one mount, from the origin up to the session. prepare() before there is a
/// mount, serve() with its descriptor, stop() once; one thread calls them. Errors name the part and say what
/// to do. With a record of a connection that another daemon served, it takes that over.
class Daemon {
  public:
    /// `supervisor` is the channel of `start`, `locks` has its locks; both must outlive the daemon.
    Daemon(DaemonStart& start, Channel& supervisor, FolderLocks& locks);
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    /// Another daemon served the mount before.
    [[nodiscard]] bool takes_over() const { return takes_over_; }

    /// The source: what can be looked at while another daemon serves. prepare() does it where it was not
    /// done. `strict`: a source that does not answer is an error also for one that takes over.
    Result<void> open_source(bool strict);
    Result<void> prepare();
    /// After prepare(): of the folders of the cache, for who mounts, a line each. The log has them.
    [[nodiscard]] const std::string& remarks() const { return remarks_; }
    /// `listener`: of the control socket; none: there is none.
    Result<void> serve(FileDescriptor device, const std::string& number, FileDescriptor listener);

    /// Readable once the mount is gone.
    [[nodiscard]] int ended() const { return session_->ended(); }
    /// The mount's connection failed; see Session::broken.
    [[nodiscard]] bool broken() const { return session_->broken(); }
    /// What is to be done about once a second.
    void tick();

    /// Ends all parts in the order in which they wait for each other: first the origin, so that nothing waits
    /// for it. False: some thread is held by the source or a device; the process must end by _exit.
    bool stop();
    /// Leaves the connection to another daemon: reads no more requests, answers what it can within some
    /// seconds, and ends all parts as stop() does. What is left the kernel sends again.
    bool retire();
    /// Removes the control socket, where nobody else is left to do it.
    void remove_control_socket();

  private:
    void sample_memory();
    Result<void> check_origin(bool strict);
    Result<void> check_identity();
    Result<void> open_origin_or_pack();
    /// Goes on without the pack, whose manifest or index is damaged or missing; the log and the status say
    /// so.
    Result<void> use_source_alone(const Error& why);
    Result<void> open_pack_index(const std::filesystem::path& folder);
    /// Of a pack with pack.staleness=list.
    void watch_source();
    /// What names an index (see the definition).
    [[nodiscard]] std::string settings_in_names() const;
    Result<void> open_index();
    Result<std::filesystem::path> index_place();
    void remark(const std::string& text);
    Result<void> open_names();
    Result<void> open_nvme();
    void open_pins();
    Result<void> open_engine(const std::string& number);
    Result<nlohmann::json> command(const std::string& name, const nlohmann::json& request);
    void open_control(FileDescriptor listener, const std::string& number);
    Result<nlohmann::json> flush();
    [[nodiscard]] Result<nlohmann::json> reload() const;
    Result<nlohmann::json> set_class(const nlohmann::json& request);
    /// Of a source that is one, without symbolic links; else empty.
    [[nodiscard]] std::string source_directory() const;
    Result<nlohmann::json> trace(const std::string& name, const nlohmann::json& request);
    [[nodiscard]] SupervisorStatus supervisor_status() const;
    [[nodiscard]] SourceFileSystem source_file_system() const;
    StatusInputs status();

    Settings settings_;
    std::chrono::milliseconds asked_ttl_ = settings_.metadata_ttl;  ///< as set; a pack changes settings_
    std::filesystem::path scratch_;
    long supervisor_pid_;
    ConnectionRecord& record_;
    LiveRecord* const live_;
    KeptFiles kept_;
    Channel& supervisor_;
    FolderLocks& locks_;
    const bool takes_over_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
    MemoryPlan plan_;
    std::atomic<std::uint64_t> memory_peak_{0};
    std::string remarks_;
    CacheDevices cache_devices_;
    LockedFolder index_folder_;
    // Each stands on those above it; destroyed from the last to the first.
    std::unique_ptr<Origin> origin_;
    PackedOrigin* pack_ = nullptr;  ///< origin_, with `pack`
    PackStats unusable_pack_;       ///< what is shown of one that is not used
    std::unique_ptr<Index> index_;
    std::unique_ptr<NvmeTier> nvme_;
    std::unique_ptr<Pins> pins_;
    std::unique_ptr<Store> store_;
    std::unique_ptr<PinKeeper> pin_keeper_;
    Invalidator invalidator_;
    std::unique_ptr<Namespace> names_;
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Watchdog> watchdog_;
    std::unique_ptr<Jobs> jobs_;
    std::unique_ptr<ControlServer> control_;
    std::unique_ptr<MetricsServer> metrics_;
    bool stopped_ = false;
};

/// The whole life of the daemon process: prepares, reports over the channel, serves until the mount is gone
/// or a signal or the supervisor ends it. Returns the exit status.
int run_daemon(DaemonStart start);

}  // namespace tierfs
