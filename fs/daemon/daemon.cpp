#include "fs/daemon/daemon.hpp"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/origin/object.hpp"
#include "backends/source_url.hpp"
#include "config/base/log.hpp"
#include "config/base/units.hpp"
#include "config/nfs_url.hpp"
#include "fs/daemon/readonly_engine.hpp"
#include "fs/daemon/readwrite_engine.hpp"
#include "fs/observe/cache_room.hpp"
#include "fs/observe/metrics.hpp"
#include "fs/observe/trace/trace_wire.hpp"

namespace tierfs {

namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kHandOver = std::chrono::seconds(2);       // readers wait meanwhile, of these and of all files
constexpr auto kStuckPatience = std::chrono::seconds(3);  // beyond the origin's own
constexpr auto kMargin = std::chrono::seconds(1);         // for an answer on its way when the deadline passes

// Resident set as ps shows it: files that are mapped included.
std::uint64_t resident_set() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    file >> total >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Daemon::Daemon(DaemonStart& start, Channel& supervisor, FolderLocks& locks)
    : settings_(start.settings),
      scratch_(start.scratch),
      supervisor_pid_(start.supervisor_pid),
      record_(start.record),
      live_(start.live),
      kept_(std::move(start.kept)),
      supervisor_(supervisor),
      locks_(locks),
      takes_over_(!start.record.init().empty()) {}

Daemon::~Daemon() {
    stop();
}

Result<void> Daemon::open_source(bool strict) {
    if (!settings_.read_only && settings_.writes_passthrough == "true" &&
        !directory_of_source(settings_.source)) {
        return fail(EINVAL,
                    "writes.passthrough=true is for directories of this machine: leave it out, or "
                    "write writes.passthrough=auto");
    }
    const bool compresses = std::any_of(settings_.datasets.begin(), settings_.datasets.end(),
                                        [&](const DatasetRule& rule) {
                                            return rule.codec.value_or(Codec::none) != Codec::none;
                                        }) ||
                            settings_.nvme_codec != Codec::none;
    const auto plan = MemoryPlan::divide(settings_.memory_limit, settings_.ram_limit,
                                         !settings_.nvme_path.empty(), compresses);
    if (!plan) return fail(plan.error());
    plan_ = *plan;

    if (auto opened = open_origin_or_pack(); !opened) return opened;
    if (!settings_.read_only && origin_->posix() == nullptr) {
        return fail(EROFS, "this source cannot be written to: " + settings_.source +
                               " can be mounted with ro (without rw and writable)");
    }
    if (auto checked = check_identity(); !checked) return checked;
    return check_origin(strict);
}

Result<void> Daemon::prepare() {
    if (!origin_) {
        if (auto opened = open_source(false); !opened) return opened;
    }
    auto devices = CacheDevices::open(settings_.nvme_path, origin_->identity(), locks_);
    if (!devices) return fail(devices.error());
    cache_devices_ = std::move(*devices);
    if (auto opened = open_index(); !opened) return opened;
    open_pins();
    if (auto opened = open_nvme(); !opened) return opened;

    auto store = Store::open(settings_, plan_, *origin_, nvme_.get(), pins_.get(), pack_);
    if (!store) return fail(store.error());
    store_ = std::move(*store);
    pin_keeper_ = std::make_unique<PinKeeper>(*origin_, *store_, *pins_);

    return open_names();
}

// Readers of what the tiers hold need no origin, and the others wait for it as at any other time.
Result<void> Daemon::check_origin(bool strict) {
    auto checked = origin_->check();
    if (!checked && takes_over_ && !strict) {
        log::warning("the source does not answer now: " + checked.error().message);
        return {};
    }
    return checked;
}

// The kernel goes on using the node ids that it was given. An index that does not have them could give them
// to other files.
Result<void> Daemon::open_names() {
    const auto session = index_->allocate_node();
    if (!session) return fail(session.error());
    if (takes_over_ && settings_.read_only && (index_->is_new() || *session <= record_.names_session()))
        return fail(ESTALE, "the index that the files' numbers stand in is lost: nothing can be taken over");
    if (!takes_over_) record_.set_names_session(*session);
    auto names =
        Namespace::open(settings_, plan_.names, *index_, *origin_, invalidator_, record_.names_session());
    if (!names) return fail(names.error());
    names_ = std::move(*names);
    return {};
}

Result<void> Daemon::open_index() {
    IndexOptions options;
    options.memory = plan_.index;
    if (!settings_.index_path.empty()) {
        auto folder = LockedFolder::open(settings_.index_path, origin_->identity(), "index.path", locks_);
        if (!folder) return fail(folder.error());
        index_folder_ = std::move(*folder);
        options.directory = index_folder_.path / "index";
    } else {
        auto place = index_place();
        if (!place) return fail(place.error());
        options.directory = *place / "index";
    }
    if (auto opened = open_pack_index(options.directory.parent_path()); !opened) return opened;
    options.source = origin_->identity();
    options.names = settings_in_names();
    auto index = Index::open(options);
    if (!index) return fail(index.error());
    index_ = std::move(*index);
    return {};
}

Result<void> Daemon::open_nvme() {
    if (cache_devices_.empty()) return {};
    NvmeOptions options;
    options.devices = cache_devices_.places();
    options.pack_max_object = settings_.pack_max_object;
    options.limit = settings_.nvme_limit;
    options.keep_free = settings_.nvme_keep_free;
    options.stalled_queue = plan_.data / 2;
    auto tier = NvmeTier::open(options, *index_);
    if (!tier) return fail(tier.error());
    nvme_ = std::move(*tier);
    if (takes_over_) return {};
    std::vector<CacheRoom> rooms;
    for (const auto& device : nvme_->stats().devices)
        rooms.push_back(look_at_cache_room(device.path, device.limit_bytes, device.used_bytes));
    for (const auto& text : remarks_about(rooms, settings_.pin_limit)) remark(text);
    return {};
}

void Daemon::remark(const std::string& text) {
    log::warning(text);
    remarks_ += (remarks_.empty() ? "" : "\n") + text;
}

// On the device that the cache is on, as long as it can be opened there: a full one is no reason to mount nothing. What
// the tier holds stays readable, from an index that is made out of it, and is written down on the device again by the
// first mount that finds room.
Result<std::filesystem::path> Daemon::index_place() {
    if (cache_devices_.empty()) return scratch_;
    auto place = cache_devices_.index_folder();
    std::error_code none;
    if (scratch_.empty()) return place;
    if (takes_over_) {
        if (std::filesystem::exists(scratch_ / "index", none)) return scratch_;
        return place;
    }
    const auto room = room_for_index(place / "index");
    if (!room) return place;  // opening it says why
    if (room->available >= room->needed) return place;
    const auto why = "nvme.path " + place.parent_path().string() + " is full (" +
                     format_size(room->available) + " are free, its index takes " +
                     format_size(room->needed) + " to open)";
    const auto elsewhere = room_for_index(scratch_ / "index");
    if (!elsewhere || elsewhere->available < room->needed)
        return fail(ENOSPC, why + ", and " + scratch_.parent_path().string() +
                                " has no room for it either: make room");
    remark(why + ": what is cached is read, and names are asked for anew; make room and mount again");
    return scratch_;
}

void Daemon::open_pins() {
    auto folders = cache_devices_.folders();
    if (folders.empty() && !index_folder_.path.empty()) folders.push_back(index_folder_.path);
    pins_ = std::make_unique<Pins>(std::move(folders));
}

Result<void> Daemon::serve(FileDescriptor device, const std::string& number, FileDescriptor listener) {
    if (auto opened = open_engine(number); !opened) return opened;
    auto handlers = engine_->handlers();
    handlers.waits_for_ever = waits_for_ever(settings_);
    auto against = engine_->against_passthrough();
    if (takes_over_) {
        handlers.stack_depth = record_.stack_depth();
    } else if (against.empty()) {
        handlers.stack_depth = stack_depth(engine_->folders_passed_through());
    }
    auto session = Session::open(std::move(device), handlers);
    if (!session) return fail(session.error());
    session_ = std::move(*session);
    // Before the first request.
    if (takes_over_) engine_->allow_passthrough(*session_, against);
    invalidator_.attach(session_->raw());
    WatchdogOptions watching;
    // Of a source that is waited for, what is late is told of, and left alone.
    if (!handlers.waits_for_ever) watching.limit = settings_.origin_deadline + kMargin;
    watchdog_ = std::make_unique<Watchdog>(*session_, std::move(watching));
    if (auto started = session_->start(engine_->threads()); !started) return started;

    if (!session_->wait_until_initialised(kPatience)) {
        return fail(ETIMEDOUT, "the kernel does not take up the mount on " + settings_.mountpoint);
    }
    if (!takes_over_) engine_->allow_passthrough(*session_, std::move(against));
    jobs_ = std::make_unique<Jobs>(*origin_, *store_, *pins_, *pin_keeper_);
    if (listener) open_control(std::move(listener), number);
    metrics_ =
        std::make_unique<MetricsServer>(settings_.metrics_listen, [this] { return metrics_text(status()); });
    metrics_->tick();
    sample_memory();
    watch_source();
    return {};
}

Result<void> Daemon::open_engine(const std::string& number) {
    if (settings_.read_only) {
        engine_ = std::make_unique<ReadonlyEngine>(*origin_, *names_, *store_, nvme_.get(), settings_,
                                                   record_, takes_over_);
        return {};
    }
    auto opened = ReadwriteEngine::open(*origin_, *names_, *store_, settings_,
                                        {record_, live_, std::move(kept_)}, source_directory(), number);
    if (!opened) return fail(std::move(opened.error()));
    engine_ = std::move(*opened);
    return {};
}

void Daemon::open_control(FileDescriptor listener, const std::string& number) {
    auto control = ControlServer::open(
        std::move(listener), control_path(number),
        [this](const std::string& name, const nlohmann::json& request) { return command(name, request); },
        [this](const FileDescriptor& client) { supervisor_.send(Message::Kind::reload, {}, client.get()); });
    if (control) {
        control_ = std::move(*control);
    } else {
        log::warning(control.error().message + ": `tierfs status` will not work for this mount");
    }
}

std::string Daemon::source_directory() const {
    constexpr std::string_view kDirectory = "dir:";
    const auto identity = origin_->identity();
    return identity.starts_with(kDirectory) ? identity.substr(kDirectory.size()) : std::string();
}

Result<nlohmann::json> Daemon::command(const std::string& name, const nlohmann::json& request) {
    if (name == "status") return status_json(status());
    if (name == "sample") return sample_json(status());
    if (name == "class") return set_class(request);
    if (name == "reload") return reload();
    if (name == "flush") return flush();
    if (name.starts_with("trace-")) return trace(name, request);
    auto answer = jobs_->command(name, request);
    if (answer || answer.error().code != ENOSYS) return answer;
    return fail(EINVAL, "this version of the mount does not know the command \"" + name + "\"");
}

Result<nlohmann::json> Daemon::trace(const std::string& name, const nlohmann::json& request) {
    return answer_trace(engine_->trace(), name, request);
}

Result<nlohmann::json> Daemon::flush() {
    auto* posix = settings_.read_only ? nullptr : origin_->posix();
    if (posix == nullptr) return fail(EROFS, "the mount is read-only");
    return nlohmann::json{{"to", posix->hurry()}};
}

Result<nlohmann::json> Daemon::reload() const {
    const auto supervisor = supervisor_status();
    if (supervisor.enabled && settings_.read_only) return fail(EINPROGRESS, "the supervisor answers");
    if (supervisor.enabled) return fail(ENOTSUP, "the mount is writable: unmount and mount again");
    return fail(ENOTSUP, "no other daemon can take this mount over (" + supervisor.reason +
                             "): unmount and mount again");
}

Result<nlohmann::json> Daemon::set_class(const nlohmann::json& request) {
    const auto text = [&](const char* member) {
        const auto found = request.find(member);
        return found != request.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto parsed = parse_dataset_class(text("class"));
    if (!parsed) {
        return fail(EINVAL, "there is no class \"" + text("class") +
                                "\"; allowed: auto, epoch, hot, stream, once, pin, none");
    }
    if (auto done = store_->set_class(text("match"), *parsed); !done) return fail(done.error());
    log::info("dataset " + text("match") + ": class " + text("class") + " from now on");
    return nlohmann::json::object();
}

SupervisorStatus Daemon::supervisor_status() const {
    SupervisorStatus supervisor;
    supervisor.restarts = record_.restarts();
    supervisor.reloads = record_.reloads();
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    supervisor.mount_uptime_s = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
                                static_cast<double>(record_.started_ns()) * 1e-9;
    if (!settings_.supervisor) {
        supervisor.reason = "asked for with supervisor=off";
    } else if (!settings_.read_only && live_ == nullptr) {
        supervisor.reason = "the mount is writable";
    } else if (!record_.can_be_taken_over()) {
        supervisor.reason = "the kernel cannot send requests again: Linux 6.9 or later does";
    }
    supervisor.enabled = supervisor.reason.empty();
    return supervisor;
}

SourceFileSystem Daemon::source_file_system() const {
    const auto mounts = read_mountinfo();
    const auto directory = source_directory();
    if (!mounts || directory.empty()) return {};
    return tierfs::source_file_system(*mounts, directory, !settings_.read_only);
}

StatusInputs Daemon::status() {
    sample_memory();
    StatusInputs in;
    in.version = TIERFS_VERSION;
    in.mountpoint = settings_.mountpoint;
    in.source = settings_.source;
    in.source_file_system = source_file_system();
    in.pid = ::getpid();
    in.supervisor_pid = supervisor_pid_;
    in.supervisor = supervisor_status();
    in.read_only = settings_.read_only;
    in.uptime_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    in.has_nvme = nvme_ != nullptr;
    in.store = store_->stats();
    in.origin = origin_->stats();
    in.pack = pack_ != nullptr ? pack_->pack_stats() : unusable_pack_;
    in.names = names_->stats();
    engine_->add_status(in);
    in.requests = watchdog_->stats();
    in.metadata = session_->requests().metadata();
    in.configuration = settings_values(settings_);
    in.origin_connections = settings_.origin_connections;
    in.prefetch_window = settings_.prefetch_window;
    in.messages = session_->messages();
    in.memory_limit = plan_.limit;
    in.memory_used = resident_memory();
    in.memory_rss = resident_set();
    in.memory_peak = std::max(memory_peak_.load(), in.memory_used);
    return in;
}

void Daemon::tick() {
    sample_memory();
    if (metrics_) metrics_->tick();
    if (engine_) {
        if (engine_->trace().tick(Trace::Clock::now()) != 0) log::info("who traced reads has gone");
        engine_->tick();
    }
    if (nvme_) nvme_->relieve();
    if (store_) store_->tick(std::chrono::steady_clock::now());
    if (pin_keeper_) pin_keeper_->tick(PinKeeper::Clock::now());
}

void Daemon::sample_memory() {
    const auto now = resident_memory();
    auto peak = memory_peak_.load();
    while (now > peak && !memory_peak_.compare_exchange_weak(peak, now)) {
    }
}

void Daemon::remove_control_socket() {
    if (control_) control_->stop();
}

bool Daemon::retire() {
    if (control_) control_->leave();
    if (metrics_) metrics_->stop();
    session_->stop();
    if (!session_->in_flight().wait_until_none(kHandOver)) {
        log::info(std::to_string(session_->in_flight().count()) + " requests are left to the next daemon");
    }
    session_->leave_the_rest();
    return stop();
}

bool Daemon::stop() {
    if (stopped_) return true;
    stopped_ = true;
    if (control_) control_->leave();
    if (metrics_) metrics_->stop();
    if (origin_) origin_->stop();
    const bool quiet = !store_ || store_->stop(kStuckPatience);
    if (jobs_) jobs_->stop();
    if (pin_keeper_) pin_keeper_->stop();
    if (!quiet) log::error("reads are held by the source or a disk: the mount ends without them");
    if (names_) names_->stop();
    const bool blocks = engine_ && engine_->blocks();
    bool locked = engine_ && !engine_->release_waiters(kStuckPatience);
    const bool waits = blocks && session_ && !session_->in_flight().wait_until_none(kStuckPatience);
    if (watchdog_ && (!quiet || waits || locked)) watchdog_->answer_all(ENOTCONN);
    // Pages that reads have held till now kept the kernel from forgetting them.
    if (locked) locked = !engine_->release_waiters(kStuckPatience);
    const bool answered = !session_ || session_->in_flight().wait_until_none(kPatience);
    if (!answered) log::error("requests are left that nobody answered: the mount ends without them");
    if (answered) invalidator_.stop();
    if (watchdog_) watchdog_->stop();
    bool held = session_ && !session_->stop(blocks ? kStuckPatience : std::chrono::hours(24));
    if (nvme_) nvme_->close();
    held = held || locked || (origin_ && origin_->is_held());
    if (held)
        log::error("threads are held by the source, which does not answer: the mount ends without them");
    return answered && quiet && !held;
}

}  // namespace tierfs
