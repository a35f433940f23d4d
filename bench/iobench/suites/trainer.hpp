// An emulated trainer: ranks (accelerators) that take batches from worker processes and compute on them, as
// torch.utils.data.DataLoader with DistributedSampler does, and as DLIO drives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/iobench/suites/samples.hpp"
#include "bench/iobench/suites/suites.hpp"
#include "bench/iobench/suites/utilization.hpp"

namespace tierfs::iobench {

/// Which sample a rank reads when: rank r has numbers r, r + ranks, r + 2 * ranks … of the shuffled order,
/// and forms batches of them in order. Without keep_last every rank has floor(samples / batch / ranks) full
/// batches (DLIO; torch's drop_last) and the rest is not read in this epoch; with it every rank has
/// ceil(samples / ranks) samples, the order beginning anew where it ends (DistributedSampler), and its last
/// batch may be smaller. A plain value.
struct Division {
    std::uint64_t samples = 0, ranks = 1, batch = 1;
    bool keep_last = false;

    [[nodiscard]] std::uint64_t samples_of_rank() const;
    [[nodiscard]] std::uint64_t steps() const;
    /// Samples of a step: `batch` but in the last one.
    [[nodiscard]] std::uint64_t size_of(std::uint64_t step) const;
    /// The place in the order of sample `i` of a step.
    [[nodiscard]] std::uint64_t place(std::uint64_t rank, std::uint64_t step, std::uint64_t i) const;
};

/// What one epoch left.
struct EpochRecord {
    EpochTrace trace;
    std::uint64_t begun = 0;    ///< ns: the workers were let go
    std::uint64_t samples = 0;  ///< of all ranks
    std::uint64_t bytes = 0;    ///< read by the workers
};

/// Every rank and every worker is a process, forked before the time begins. Worker w of a rank reads batches
/// w, w + workers, … and is at most `prefetch` batches ahead; taking a batch allows the next. Not
/// thread-safe.
class Trainer {
  public:
    /// `set` has to outlive it.
    Trainer(const RunOptions& options, const SampleSet& set);

    /// EINVAL when there are fewer samples than one step takes.
    [[nodiscard]] Result<void> possible() const;

    /// One epoch over the samples as `seed` shuffles them, caches dropped before it as the options say. The
    /// first error of a worker ends it.
    Result<EpochRecord> epoch(std::uint64_t seed) const;

    [[nodiscard]] unsigned workers() const;

  private:
    [[nodiscard]] std::uint64_t samples() const;

    const RunOptions options_;
    const SampleSet& set_;
    const Division division_;
};

/// The figures of a run of one or more epochs; with several, those of each epoch too.
Metrics trainer_metrics(const std::vector<EpochRecord>& epochs, std::uint64_t batch, double mean_size);

}  // namespace tierfs::iobench
