// Jobs that the control socket starts in the background, and the questions about them.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/base/result.hpp"
#include "tiering/policy/pins.hpp"
#include "tiering/store/pin_keeper.hpp"
#include "tiering/store/store.hpp"
#include "tiering/store/tree_job.hpp"

namespace tierfs {

/// Commands, each answered at once:
///   {"command": "job-start", "kind": "warm"|"evict"|"pin"|"unpin"}   {"job": 1}
///   {"command": "job-paths", "job": 1, "paths": ["a/b", ""]}  {"taken": 2}: fewer than were sent: send the
///   rest later
///   {"command": "job-seal", "job": 1}                         no more paths come
///   {"command": "job-status", "job": 1}                       what was done: TreeJob::Progress
///   {"command": "job-stop", "job": 1}                         the same
///   {"command": "job-cancel", "kind": "warm"}                 {"stopped": 1}: all of the kind that ran
/// Paths are as control.hpp says. At most kMostJobs are known; the oldest that has ended is forgotten for a
/// new one.
///
/// For the control thread alone, but for stop. All four must outlive it.
class Jobs {
  public:
    static constexpr std::size_t kMostJobs = 16;

    Jobs(Origin& origin, Store& store, Pins& pins, PinKeeper& keeper)
        : origin_(origin), store_(store), pins_(pins), keeper_(keeper) {}
    /// ENOSYS: it is no command about jobs.
    Result<nlohmann::json> command(const std::string& name, const nlohmann::json& request);
    /// Ends all of them. After the control thread has ended, and after Store::stop, so that nothing waits.
    void stop() { jobs_.clear(); }

  private:
    struct Job {
        std::uint64_t number = 0;
        std::string kind;
        std::unique_ptr<TreeJob> work;
    };

    Result<nlohmann::json> start(const nlohmann::json& request);
    nlohmann::json cancel(const nlohmann::json& request);
    /// Null: there is no such kind.
    std::unique_ptr<TreeJob> make_job(const std::string& kind);
    Result<Job*> find(const nlohmann::json& request);
    static Result<nlohmann::json> add_paths(Job& job, const nlohmann::json& request);

    Origin& origin_;
    Store& store_;
    Pins& pins_;
    PinKeeper& keeper_;
    std::list<Job> jobs_;
    std::uint64_t last_ = 0;
};

}  // namespace tierfs
