// The plan of a stage: the source's files against what is staged already.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fs/stage/copy/destination.hpp"
#include "fs/stage/copy/placement.hpp"
#include "fs/stage/copy/source_tree.hpp"

namespace tierfs::stage {

/// One file to copy, or to finish.
struct CopyJob {
    SourceFile file;
    std::size_t destination = 0;
    std::string part;           ///< part_name()
    bool replaces = false;      ///< something may lie under the final name, and it may go
    UnfinishedPart unfinished;  ///< pieces that need not be copied again
    bool is_whole = false;      ///< `record` was written whole by an earlier run; only its name is missing,
    ManifestRecord record;      ///< or its record
    bool under_final_name = false;
    unsigned attempts = 0;
    std::string name_of;  ///< in Plan::names: the path of the file that this is another name of
};

struct PlanOptions {
    Shard shard;
    KeepFree keep_free;
    int gpu_affinity = -1;  ///< NUMA node; -1: any
    bool overwrite = false;
    bool remove_vanished = false;
};

struct Removal {
    std::size_t destination = 0;
    std::string path;
    bool is_moved = false;  ///< a copy goes to another device: this one goes when that is there
};

struct Plan {
    std::vector<CopyJob> copies;  ///< large files first, the largest of all in front
    /// Other names of files that are copied or there already: hard links to these, once they are there.
    std::vector<CopyJob> names;
    std::vector<Removal> removals;
    std::map<std::string, std::size_t>
        places;  ///< of all files that are or will be staged: for the link farm
    std::uint64_t kept_files = 0, kept_bytes = 0;
    std::uint64_t copy_bytes = 0;  ///< of copies, resumed ones too
    std::uint64_t resumed_bytes = 0;
    std::uint64_t need_bytes = 0, lacking_bytes = 0;  ///< of room; lacking: no device has it
    std::vector<std::string> problems;                ///< files that cannot be staged; the rest can
    std::vector<std::string> remarks;
    std::vector<std::pair<std::size_t, std::string>> stale_parts;  ///< of versions that are no more
};

/// Compares. `source` is Origin::identity(). Touches nothing. Errors: the free space cannot be asked for.
Result<Plan> make_plan(const SourceTree& tree, const std::string& source,
                       const std::vector<Destination>& destinations, const PlanOptions& options);

}  // namespace tierfs::stage
