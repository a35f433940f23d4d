// The file that `iobench run --json` writes and `iobench compare` and `iobench report` read: format 1, JSON.
// man/iobench.1 documents it. Members that are not named here are ignored, so that scripts may add some;
// a member that changes its meaning gets another version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/suites/suites.hpp"
#include "config/base/result.hpp"

namespace tierfs::iobench {

/// The block device that a target's file system lies on.
struct ResultDevice {
    std::string name;                     ///< as in /sys/class/block; what the user named it otherwise
    std::string model;                    ///< empty: not known
    std::optional<double> peak_mb_per_s;  ///< what it gives at most, 10^6 bytes a second; measured or told

    bool operator==(const ResultDevice&) const = default;
};

/// The processes that serve a target (--daemon-pid), over the measured runs, warm-ups left out.
struct ResultDaemon {
    std::int64_t pid = 0;                 ///< the first of them
    std::string command;                  ///< as in /proc/PID/comm
    std::uint64_t peak_rss_bytes = 0;     ///< RssAnon + RssShmem of all of them, sampled
    double cpu_s = 0;                     ///< user and system time of all of them
    std::optional<double> cpu_s_per_gib;  ///< of what the runs read; none where no figure tells how much

    bool operator==(const ResultDaemon&) const = default;
};

/// A directory that was measured.
struct ResultTarget {
    std::string name, path, fs_type, fs_source, mount_point, mount_options;
    std::optional<ResultDevice> device;
    std::optional<ResultDaemon> daemon;

    bool operator==(const ResultTarget&) const = default;
};

/// What one target gave for one metric of one case.
struct ResultFigure {
    std::string target;  ///< a name in ResultFile::targets
    std::string test;    ///< "case" in the file
    std::string metric, unit;
    Better better = Better::neither;
    std::vector<double> values;           ///< in the order of the runs; at least one, all finite
    Summary summary;                      ///< of values; in a file it may be left out, and is computed then
    std::optional<double> share_of_peak;  ///< median over device.peak_mb_per_s; of MB/s alone

    bool operator==(const ResultFigure&) const = default;
};

/// What somebody else did to the machine during a run.
struct ResultDisturbance {
    std::string target, test, what;
    std::uint64_t run = 0;  ///< counts from 1

    bool operator==(const ResultDisturbance&) const = default;
};

/// A plain value. Not thread-safe.
struct ResultFile {
    std::string tierfs;                ///< version of the tree that iobench was built from
    std::vector<std::string> command;  ///< argv
    std::string started, ended;        ///< UTC, 2026-01-31T12:00:00Z
    bool complete = false;             ///< false: ended by a signal or an error; what was measured until then
    std::string suite;
    std::optional<std::string> preset;
    nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
    std::string dataset_rule;  ///< how it was made sure that reads reach the device; or that it was not
    nlohmann::ordered_json host = nlohmann::ordered_json::object();
    std::vector<ResultTarget> targets;
    std::vector<ResultFigure> figures;
    std::vector<ResultDisturbance> disturbances;
    std::vector<std::string> warnings;

    bool operator==(const ResultFile&) const = default;
};

/// The figure's unit, which its name ends in: files_per_s "files/s", p99_us "us", au_percent "%", seconds
/// "s"; of a bare count the name itself ("files").
std::string unit_of(const std::string& metric);

nlohmann::ordered_json to_json(const ResultFile& file);

/// EINVAL with `name` and the member, "r.json: figures[2].values[0]: is not a finite number", for what is not
/// format 1: members missing or of a wrong type, figures of no target, a figure that stands there twice.
Result<ResultFile> from_json(const nlohmann::ordered_json& json, const std::string& name);

/// Replaces the file as a whole. Bytes that are not UTF-8 (in paths) are replaced by U+FFFD.
Result<void> write_result(const std::string& path, const ResultFile& file);

/// Also refuses what is no JSON, and more than 256 MiB of it.
Result<ResultFile> read_result(const std::string& path);

}  // namespace tierfs::iobench
