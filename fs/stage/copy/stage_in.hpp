// `tierfs-stage in` and `plan`: a dataset into one or more folders.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "fs/cli/stop_flag.hpp"
#include "fs/stage/copy/plan.hpp"
#include "fs/stage/copy/reporter.hpp"

namespace tierfs::stage {

struct StageOptions {
    Settings settings;  ///< with the source
    std::vector<std::string> destinations;
    std::string farm;  ///< empty: none
    PlanOptions plan;
    bool wait = false;              ///< for another stage of the dataset
    bool force_unsuitable = false;  ///< neither XFS nor ext4, all the same
    bool only_plan = false;
    unsigned workers = 16;  ///< each has memory for one chunk, and that is what a kill can cost it
    bool use_ring = true;
    bool check_md5 = false;  ///< SourceDigest
};

/// The exit status: 0 when everything is staged, 1 otherwise; what was wrong has been reported. Safe to kill
/// at any time: the same call goes on.
int stage_in(const StageOptions& options, Reporter& reporter, const StopFlag& stop);

}  // namespace tierfs::stage
