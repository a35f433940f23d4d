// Runs, and what is recorded of them: the same cases on one target or on several in turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/run/daemon.hpp"
#include "bench/iobench/run/interruption.hpp"
#include "bench/iobench/run/machine.hpp"
#include "bench/iobench/run/result_file.hpp"
#include "bench/iobench/run/run_apart.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

/// A directory and the suite that was made for it.
struct Target {
    ResultTarget description;  ///< its name is told apart from those of the others
    std::unique_ptr<Suite> suite;
    std::optional<Daemon> daemon;
};

struct RunPlan {
    unsigned runs = 5;     ///< of each case and target, at least 1
    unsigned warm_up = 0;  ///< runs before them that are not counted
    std::uint64_t seed = 1;
    bool progress = false;  ///< a line on standard error
};

/// Each case in turn; of each, warm-ups and then rounds, in each of which every target takes its turn: what
/// makes the machine slower for a while then concerns all targets alike, and ratios can be taken by rounds.
/// All targets have the same seed in a round. A case that a target does not have is left out for it.
///
/// Every run happens in a process of its own (run_apart.hpp). Not thread-safe.
class Runner {
  public:
    using Look = std::function<MachineState()>;

    /// `look` tells what the machine does: before and after each run.
    Runner(const RunPlan& plan, std::vector<Target> targets, Look look = look_at_machine);

    /// Fills targets, figures, disturbances and warnings of `result`, and sets `complete` when all was
    /// measured. On an error of a run, and on ECANCELED after a signal, it holds what was measured until
    /// then.
    Result<void> run(Interruption& stop, ResultFile& result);

  private:
    struct Record {
        RunOutcome outcome;
        double daemon_cpu_s = 0;
        std::uint64_t daemon_peak = 0;
    };
    /// The runs of one case on each target, in the order of the targets.
    struct Case {
        std::string name;
        std::vector<std::optional<std::size_t>> numbers;  ///< in cases() of each target's suite
        std::vector<std::vector<Record>> records;
    };
    /// What is to be done now.
    struct Turn {
        std::size_t test, target;
        unsigned round;
        bool warm_up;
    };
    [[nodiscard]] std::vector<Turn> turns() const;
    Result<void> take(const Turn& turn, Interruption& stop, ResultFile& result);
    Result<Record> measure(Target& target, std::size_t number, std::uint64_t seed, Interruption& stop);
    void look_for_disturbances(const Turn& turn, const MachineState& before, const Record& record,
                               ResultFile& result);
    void add_figures(ResultFile& result) const;
    void add_daemons(ResultFile& result) const;

    RunPlan plan_;
    std::vector<Target> targets_;
    Look look_;
    std::vector<Case> cases_;
};

}  // namespace tierfs::iobench
