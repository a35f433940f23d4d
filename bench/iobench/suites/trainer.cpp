#include "bench/iobench/suites/trainer.hpp"

#include <pthread.h>
#include <semaphore.h>

#include <algorithm>
#include <ctime>

#include "bench/iobench/run/gate.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

namespace {

/// What one worker and its rank share. The semaphores live as long as the mapping and are never destroyed: a
/// killed worker may hold one, and they own nothing outside it.
struct Lane {
    sem_t wanted;  // batches that the worker may begin
    sem_t ready;   // batches that it has read
    std::uint64_t bytes;
};

/// What all ranks and their parent share.
struct Meeting {
    pthread_barrier_t barrier;
    sem_t finished;  // ranks
};

void compute(double milliseconds) {
    if (milliseconds <= 0) return;
    const auto ns = static_cast<std::uint64_t>(milliseconds * 1e6);
    timespec left{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

void take(sem_t& semaphore) {
    while (sem_wait(&semaphore) != 0 && errno == EINTR) {
    }
}

/// Shared memory of one epoch and what its processes do with it.
class Epoch {
  public:
    Epoch(const RunOptions& options, const SampleSet& set, const Division& division, unsigned workers,
          const std::vector<std::uint32_t>& order)
        : options_(options),
          set_(set),
          division_(division),
          workers_(workers),
          order_(order),
          lanes_(division.ranks * workers),
          steps_(division.ranks * division.steps()),
          starts_(division.ranks),
          meeting_(1),
          gate_(static_cast<unsigned>(division.ranks) * (1 + workers)) {
        for (Lane& lane : lanes_) {
            sem_init(&lane.wanted, 1, options.trainer.prefetch);
            sem_init(&lane.ready, 1, 0);
        }
        sem_init(&meeting_[0].finished, 1, 0);
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&meeting_[0].barrier, &shared, static_cast<unsigned>(division.ranks));
        pthread_barrierattr_destroy(&shared);
    }

    Result<EpochRecord> run() {
        const auto ranks = static_cast<unsigned>(division_.ranks);
        Workers processes(ranks + ranks * workers_, [&](unsigned index) -> Result<void> {
            if (index >= ranks) return load(index - ranks);
            gate_.wait();
            train(index);
            return {};
        });
        processes.release();
        if (auto ready = gate_.gather(processes); !ready) return fail(ready.error());
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        EpochRecord record;
        record.begun = now_ns();
        gate_.open();
        for (unsigned finished = 0; finished < ranks; ++finished)
            if (auto alive = await_rank(processes); !alive) return fail(alive.error());
        if (auto done = processes.wait(); !done) return fail(done.error());
        collect(record);
        return record;
    }

  private:
    void train(unsigned rank) {
        Meeting& meeting = meeting_[0];
        const std::uint64_t steps = division_.steps();
        starts_[rank] = now_ns();
        for (std::uint64_t number = 0; number < steps; ++number) {
            Step& step = steps_[rank * steps + number];
            Lane& lane = lanes_[rank * workers_ + number % workers_];
            step.asked = now_ns();
            take(lane.ready);
            sem_post(&lane.wanted);  // as torch does: the next batch is asked for when one is taken
            step.loaded = now_ns();
            compute(options_.trainer.compute_ms);
            step.computed = now_ns();
            pthread_barrier_wait(&meeting.barrier);
            step.synchronized = now_ns();
        }
        sem_post(&meeting.finished);
    }

    [[nodiscard]] const Sample& sample(unsigned rank, std::uint64_t step, std::uint64_t i) const {
        return set_.samples[order_[division_.place(rank, step, i)]];
    }

    /// Bytes of the largest sample that a worker reads.
    [[nodiscard]] std::uint64_t largest_of(unsigned index) const {
        std::uint64_t largest = 0;
        for (std::uint64_t step = index % workers_; step < division_.steps(); step += workers_)
            for (std::uint64_t i = 0; i < division_.size_of(step); ++i)
                largest = std::max(largest, sample(index / workers_, step, i).size);
        return largest;
    }

    Result<void> load(unsigned index) {
        Lane& lane = lanes_[index];
        const unsigned rank = index / workers_;
        SampleReader reader(set_, largest_of(index));
        gate_.wait();
        for (std::uint64_t step = index % workers_; step < division_.steps(); step += workers_) {
            take(lane.wanted);
            for (std::uint64_t i = 0; i < division_.size_of(step); ++i) {
                const auto bytes = reader.read(sample(rank, step, i));
                if (!bytes) return fail(bytes.error());
                lane.bytes += *bytes;
            }
            sem_post(&lane.ready);
        }
        return {};
    }

    /// Waits for one rank more to end; looks after all processes meanwhile, since for a worker that is dead
    /// its rank waits for ever.
    Result<void> await_rank(Workers& processes) {
        for (;;) {
            timespec limit{};
            clock_gettime(CLOCK_REALTIME, &limit);
            limit.tv_nsec += 200'000'000;
            if (limit.tv_nsec >= 1'000'000'000) {
                limit.tv_nsec -= 1'000'000'000;
                ++limit.tv_sec;
            }
            if (sem_timedwait(&meeting_[0].finished, &limit) == 0) return {};
            if (errno == EINTR) continue;
            if (auto alive = processes.check(); !alive) return alive;
        }
    }

    void collect(EpochRecord& record) {
        const std::uint64_t steps = division_.steps();
        for (std::uint64_t rank = 0; rank < division_.ranks; ++rank) {
            const Step* first = steps_.begin() + rank * steps;
            record.trace.push_back(
                {StepBlock{starts_[rank], first[steps - 1].synchronized, {first, first + steps}}});
            for (std::uint64_t step = 0; step < steps; ++step) record.samples += division_.size_of(step);
        }
        for (const Lane& lane : lanes_) record.bytes += lane.bytes;
    }

    const RunOptions& options_;
    const SampleSet& set_;
    const Division& division_;
    const unsigned workers_;
    const std::vector<std::uint32_t>& order_;
    Shared<Lane> lanes_;  // of rank r: r * workers_ and those behind it
    Shared<Step> steps_;  // of rank r: r * steps and those behind it
    Shared<std::uint64_t> starts_;
    Shared<Meeting> meeting_;
    Gate gate_;  // of all ranks and workers
};

/// Sums of one epoch or of several.
struct Totals {
    double seconds = 0, samples = 0, bytes = 0, first_batch = 0, steps = 0;
    Times times;

    void add(const EpochRecord& record) {
        std::uint64_t end = record.begun, first = 0;
        for (const RankTrace& rank : record.trace) {
            end = std::max(end, rank.front().end);
            first = std::max(first, rank.front().steps.front().loaded - record.begun);
        }
        const Times more = times_of(record.trace);
        seconds += static_cast<double>(end - record.begun) / 1e9;
        samples += static_cast<double>(record.samples);
        bytes += static_cast<double>(record.bytes);
        first_batch += static_cast<double>(first) / 1e9;
        steps += static_cast<double>(record.trace.front().front().steps.size());
        times = {times.load + more.load, times.compute + more.compute, times.barrier + more.barrier};
    }
};

}  // namespace

std::uint64_t Division::samples_of_rank() const {
    return keep_last ? (samples + ranks - 1) / ranks : steps() * batch;
}

std::uint64_t Division::steps() const {
    return keep_last ? (samples_of_rank() + batch - 1) / batch : samples / batch / ranks;
}

std::uint64_t Division::size_of(std::uint64_t step) const {
    return std::min(batch, samples_of_rank() - step * batch);
}

std::uint64_t Division::place(std::uint64_t rank, std::uint64_t step, std::uint64_t i) const {
    return ((step * batch + i) * ranks + rank) % samples;
}

Trainer::Trainer(const RunOptions& options, const SampleSet& set)
    : options_(options),
      set_(set),
      division_{samples(), options.trainer.ranks, options.trainer.batch, options.trainer.keep_last} {}

std::uint64_t Trainer::samples() const {
    const std::uint64_t all = set_.samples.size(), most = options_.samples.files;
    return most == 0 ? all : std::min(all, most);
}

unsigned Trainer::workers() const {
    return options_.trainer.workers != 0 ? options_.trainer.workers : options_.processes;
}

Result<void> Trainer::possible() const {
    if (division_.samples != 0 && division_.steps() != 0) return {};
    return fail(EINVAL, options_.path + ": " + std::to_string(division_.samples) +
                            " samples are less than --batch " + std::to_string(division_.batch) +
                            " for each of " + std::to_string(division_.ranks) +
                            " ranks: choose a smaller batch, or --keep-last");
}

Result<EpochRecord> Trainer::epoch(std::uint64_t seed) const {
    if (auto can = possible(); !can) return fail(can.error());
    const auto order = order_of(set_.samples.size(), options_, seed);
    return Epoch(options_, set_, division_, workers(), order).run();
}

Metrics trainer_metrics(const std::vector<EpochRecord>& epochs, std::uint64_t batch, double mean_size) {
    Totals all;
    std::vector<EpochTrace> traces;
    for (const EpochRecord& record : epochs) {
        all.add(record);
        traces.push_back(record.trace);
    }
    const Measured measured{batch};
    const Utilization run = run_utilization(traces, measured);
    const auto count = static_cast<double>(epochs.size());
    Metrics metrics{{"samples_per_s", all.samples / all.seconds, Better::higher},
                    {"mb_per_s", all.bytes / 1e6 / all.seconds, Better::higher},
                    {"epoch_s", all.seconds / count, Better::lower},
                    {"stall_s", all.times.load / count, Better::lower},
                    {"first_batch_s", all.first_batch / count, Better::lower},
                    {"au_percent", run.au_percent, Better::higher},
                    {"au_net_percent", run.au_net_percent, Better::higher},
                    {"compute_s", all.times.compute / count},
                    {"barrier_s", all.times.barrier / count},
                    {"barrier_us", 1e6 * all.times.barrier / all.steps},
                    {"barrier_percent", 100 * all.times.barrier / all.seconds},
                    {"dlio_samples_per_s", run.samples_per_s, Better::higher},
                    {"dlio_mib_per_s", run.samples_per_s * mean_size / (1 << 20), Better::higher},
                    {"steps", all.steps / count},
                    {"samples", all.samples / count}};
    if (epochs.size() < 2) return metrics;
    for (std::size_t i = 0; i < epochs.size(); ++i) {
        const std::string epoch = "epoch" + std::to_string(i + 1) + "_";
        Totals own;
        own.add(epochs[i]);
        const Utilization figures = epoch_utilization(traces[i], measured);
        metrics.push_back({epoch + "samples_per_s", own.samples / own.seconds, Better::higher});
        metrics.push_back({epoch + "s", own.seconds, Better::lower});
        metrics.push_back({epoch + "stall_s", own.times.load, Better::lower});
        metrics.push_back({epoch + "first_batch_s", own.first_batch, Better::lower});
        metrics.push_back({epoch + "au_percent", figures.au_percent, Better::higher});
        metrics.push_back({epoch + "au_net_percent", figures.au_net_percent, Better::higher});
        metrics.push_back({epoch + "barrier_s", own.times.barrier});
    }
    return metrics;
}

}  // namespace tierfs::iobench
