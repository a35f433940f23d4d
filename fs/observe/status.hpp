// fs/observe/: what `tierfs status` says. fs/daemon gathers, fs/commands prints.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backends/origin/origin.hpp"
#include "backends/origin/posix_origin.hpp"
#include "backends/pack/packed_origin.hpp"
#include "config/settings.hpp"
#include "fs/metadata/namespace.hpp"
#include "fs/observe/source_advice.hpp"
#include "fs/readonly/open_files.hpp"
#include "fs/readwrite/last_error.hpp"
#include "fs/readwrite/live_files.hpp"
#include "fs/session/watchdog.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// What becomes of the mount when its daemon dies.
struct SupervisorStatus {
    bool enabled = false;  ///< a new daemon takes over
    std::string reason;    ///< why not; empty when enabled
    std::uint64_t restarts = 0, reloads = 0;
    double mount_uptime_s = 0;  ///< of the mount, over all its daemons
};

/// Everything that the status of a mount is made of, at one moment. Plain value; bytes, seconds.
struct StatusInputs {
    std::string version, mountpoint, source;
    SourceFileSystem source_file_system;
    long pid = 0, supervisor_pid = 0;
    SupervisorStatus supervisor;
    bool read_only = true;
    double uptime_s = 0;
    ProfileStatus profile;
    PassthroughStatus passthrough;
    bool has_nvme = false;
    StoreStats store;
    LiveStats writes;               ///< of a writable mount
    LastError::Told failures;       ///< requests of it that failed by the fault of the origin or of this host
    std::uint64_t dirty_bytes = 0;  ///< written here and not at the origin yet
    double oldest_dirty_s = 0;      ///< since when, of the oldest
    std::optional<PosixQueue> queue = {};  ///< of a write-back mount
    OriginStats origin;
    PackStats pack;
    NamespaceStats names;
    RequestStats requests;
    LatencyStats metadata;  ///< of requests about names and attributes
    std::vector<std::pair<std::string, std::string>>
        configuration;                              ///< each setting and its value, as written
    unsigned origin_connections = 0;                ///< origin.connections
    std::uint64_t prefetch_window = 0;              ///< prefetch.window, bytes
    std::map<std::string, std::uint64_t> messages;  ///< of the kernel, by kind
    std::uint64_t memory_limit = 0, memory_used = 0, memory_peak = 0, memory_rss = 0;
};

/// The JSON object of `tierfs status --json`. Members are promised: none is ever renamed.
nlohmann::json status_json(const StatusInputs& inputs);

/// The same with the counts by which latencies are made up, for who compares two moments: `tierfs top` and
/// `tierfs doctor`. Of no promised form.
nlohmann::json sample_json(const StatusInputs& inputs);

/// The same for people: a compact table made from that JSON (which may come from another version: what is
/// missing is left out).
std::string status_text(const nlohmann::json& status);

}  // namespace tierfs
