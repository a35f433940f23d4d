// The targets that a command line asks for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/iobench/run/runner.hpp"
#include "bench/iobench/suites/suites.hpp"
#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Words of the command line.
struct TargetRequest {
    std::vector<std::string> paths;    ///< [NAME=]DIR, the first one what the others are compared with
    std::vector<std::string> daemons;  ///< [NAME=]PID; without a name: of the first target
    std::vector<std::string> peaks;    ///< [NAME=]DEVICE or [NAME=]MB_PER_S; without a name: of all targets
    bool measure_peak = false;         ///< of the devices below the paths that `peaks` does not name
};

/// "NAME=VALUE" or a value alone. A name has no slash, so that a path may have "=".
struct Named {
    std::string name;  ///< empty: none was given
    std::string value;

    bool operator==(const Named&) const = default;
};
Named parse_named(const std::string& word);

/// Describes each place, finds daemons, makes the suites by `options` with the path of each, and measures
/// peaks by `peak` (measure_peak). Names that were not given are those of the file systems' types: "tierfs"
/// of fuse.tierfs, "xfs". The daemon of a tierfs mount is found without being told.
///
/// EINVAL for a name that two targets have, one that no target has, and words that mean nothing.
Result<std::vector<Target>> make_targets(const TargetRequest& request, const SuiteKind& kind,
                                         const RunOptions& options,
                                         const std::function<Result<double>(const std::string&)>& peak);

}  // namespace tierfs::iobench
