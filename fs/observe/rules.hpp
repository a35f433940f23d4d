// `tierfs doctor`: from what a mount did for some seconds to why its readers waited.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fs/observe/host.hpp"
#include "fs/observe/snapshot.hpp"

namespace tierfs {

/// What rules look at. `interval`: a difference() over `seconds`.
struct Facts {
    Snapshot interval;
    double seconds = 1;
    Host host;
};

/// One thing that holds readers up, or may. `share`: of the time that readers waited, what it explains, 0
/// to 1.
struct Finding {
    std::string id;  ///< for programs; never renamed
    double share = 0;
    std::string what;      ///< one sentence
    std::string evidence;  ///< the figures that it stands on
    std::vector<std::string> advice;
};

/// Seconds that readers waited, by what they waited for. Time in memory is taken out of the tiers'.
struct Waits {
    double origin = 0, nvme = 0, memory = 0, metadata = 0;
    [[nodiscard]] double all() const { return origin + nvme + memory + metadata; }
};
Waits waits_of(const Snapshot& interval);

/// Readers wait less than this long a second, all together: nothing is worth explaining.
inline constexpr double kHardlyWaiting = 0.05;

/// What the rules find, the likeliest cause first; of two that explain the same waiting, the more particular
/// one. Pure.
std::vector<Finding> find_causes(const Facts& facts);

/// What is to be changed at this host, whether or not readers wait for it. Pure.
std::vector<Finding> check_host(const Facts& facts);

/// The report for programs and, made from the same, for people.
nlohmann::json doctor_json(const Facts& facts);
std::string doctor_text(const Facts& facts);

}  // namespace tierfs
