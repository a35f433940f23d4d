// Upkeep of datasets that are staged: status, verify, pin, evict, gc.
#pragma once

#include <string>
#include <vector>

#include "fs/cli/stop_flag.hpp"
#include "fs/stage/copy/destination.hpp"
#include "fs/stage/copy/placement.hpp"
#include "fs/stage/copy/reporter.hpp"

namespace tierfs::stage {

/// Each returns the exit status: 0 done and all as it should be, 1 otherwise; what was wrong has been
/// reported. With reporter's `json` the result is events, else lines for people.

/// What each folder holds: dataset, files, bytes, what is unfinished, whether it is pinned, its last use.
int stage_status(const std::vector<std::string>& folders, Reporter& reporter, const StopFlag& stop);

struct VerifyOptions {
    bool full = false;        ///< reads every byte; else stat and FIEMAP
    bool remove_bad = false;  ///< files that are not what was staged go, and their records: `in` copies them
    unsigned threads = 4;
};
/// Compares files with the manifest.
int stage_verify(const std::vector<std::string>& folders, const VerifyOptions& options, Reporter& reporter,
                 const StopFlag& stop);

/// `reason` goes into DEST/.tierfs-stage/pin, for people.
int stage_pin(const std::vector<std::string>& folders, const std::string& reason, Reporter& reporter,
              const StopFlag& stop);
int stage_unpin(const std::vector<std::string>& folders, Reporter& reporter, const StopFlag& stop);

struct EvictOptions {
    bool even_pinned = false;
    bool wait = false;
    bool dry_run = false;
    std::string farm;
};
/// Removes what was staged, and the books when nothing of it is left. Files of others, and those that were
/// changed since, stay.
int stage_evict(const std::vector<std::string>& folders, const EvictOptions& options, Reporter& reporter,
                const StopFlag& stop);

/// Evicts datasets directly below the folders `roots` (or the roots themselves), those used longest ago
/// first, until `wanted` is free on the file system of each. Pinned ones and those at work stay. Status 1
/// when that was not enough.
int stage_gc(const std::vector<std::string>& roots, const KeepFree& wanted, const EvictOptions& options,
             Reporter& reporter, const StopFlag& stop);

}  // namespace tierfs::stage
