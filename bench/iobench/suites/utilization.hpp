// Accelerator utilization (AU) and throughput of an emulated trainer, computed as MLPerf Storage's own tool
// does: github.com/argonne-lcf/dlio_benchmark, dlio_benchmark/utils/statscounter.py and main.py. Pure
// functions over traces.
//
// A rank is one accelerator. Its epoch is divided into blocks by checkpoints; without these it is one block.
// Of a block with steps 0 … n-1 and s0 = exclude_start, s1 = steps of the epoch - 1 - exclude_end:
//
//     AU = 100 * sum(compute_k, s0 <= k <= s1) / (end - start - sum(proc_k, k < s0) - sum(proc_k, k > s1))
//     samples/s = max(n - 2, 0) * batch / the same denominator
//
// compute_k is measured around the sleep; proc_k is load_k + compute_k, from the request for a batch to the
// end of computing on it. The barrier after each step is in the denominator and not in proc_k, the barriers
// after excluded steps too. AU is 0 when nothing was computed. The 2 is what that tool has, whatever is
// excluded: for one excluded step it is one too many. Of a single step that tool has less than nothing; here
// that is 0. A rank's epoch is the mean over its blocks, weighted by
// their steps; the epoch's AU is the mean over ranks and its samples/s their sum; a run's figures are means
// over its epochs.
#pragma once

#include <cstdint>
#include <vector>

namespace tierfs::iobench {

/// Nanoseconds of one clock, in this order. Made by the trainer, shared between processes.
struct Step {
    std::uint64_t asked = 0;         ///< begins to wait for the batch
    std::uint64_t loaded = 0;        ///< has it; begins to compute
    std::uint64_t computed = 0;      ///< arrives at the barrier
    std::uint64_t synchronized = 0;  ///< every rank has arrived
};

struct StepBlock {
    std::uint64_t start = 0, end = 0;
    std::vector<Step> steps;
};

using RankTrace = std::vector<StepBlock>;
using EpochTrace = std::vector<RankTrace>;

/// Which steps count. The defaults are DLIO's.
struct Measured {
    std::uint64_t batch = 1;          ///< samples of a step of one rank
    std::uint64_t exclude_start = 1;  ///< steps
    std::uint64_t exclude_end = 0;    ///< steps
};

struct Utilization {
    double au_percent = 0;
    double au_net_percent = 0;  ///< the same with all barriers' time taken out of the denominator
    double samples_per_s = 0;   ///< of that tool, with its n - 2

    bool operator==(const Utilization&) const = default;
};

/// `epoch_steps`: of the rank in all its blocks.
Utilization block_utilization(const StepBlock& block, std::uint64_t epoch_steps, const Measured& measured);
Utilization rank_utilization(const RankTrace& rank, const Measured& measured);
Utilization epoch_utilization(const EpochTrace& epoch, const Measured& measured);
Utilization run_utilization(const std::vector<EpochTrace>& epochs, const Measured& measured);

/// Sums over all steps, none excluded, as means over the ranks; seconds.
struct Times {
    double load = 0;     ///< waiting for batches: the trainer stalls
    double compute = 0;  ///< as measured
    double barrier = 0;  ///< waiting for the other ranks, and the barrier itself
};
Times times_of(const EpochTrace& epoch);

}  // namespace tierfs::iobench
