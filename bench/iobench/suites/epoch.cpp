#include <semaphore.h>

#include <algorithm>
#include <ctime>

#include "bench/iobench/run/workers.hpp"
#include "bench/iobench/suites/samples.hpp"

namespace tierfs::iobench {

namespace {

/// What one worker and the trainer share. The semaphores live as long as the mapping and are never destroyed:
/// a killed worker may hold one, and they own nothing outside it.
struct Lane {
    sem_t wanted;  // batches that the worker may begin
    sem_t ready;   // batches that it has read
    std::uint64_t bytes;
};

void compute(double milliseconds) {
    const auto ns = static_cast<std::uint64_t>(milliseconds * 1e6);
    timespec left{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

void take(sem_t& semaphore) {
    while (sem_wait(&semaphore) != 0 && errno == EINTR) {
    }
}

class Epoch : public Suite {
  public:
    Epoch(const RunOptions& options, std::vector<Sample> samples)
        : options_(options), samples_(std::move(samples)) {}

    [[nodiscard]] std::vector<std::string> cases() const override { return {"shuffled"}; }

    Result<Metrics> run(std::size_t /*which*/, std::uint64_t seed) override {
        const auto order = order_of(samples_, options_, seed);
        const std::size_t batches = (order.size() + options_.trainer.batch - 1) / options_.trainer.batch;
        Shared<Lane> lanes(options_.processes);
        for (Lane& lane : lanes) {
            sem_init(&lane.wanted, 1, options_.trainer.prefetch);
            sem_init(&lane.ready, 1, 0);
        }
        Workers workers(options_.processes,
                        [&](unsigned index) { return load(index, lanes[index], order, batches); });
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        const std::uint64_t start = now_ns();
        workers.release();
        std::uint64_t stalled = 0, first = 0;
        for (std::size_t batch = 0; batch < batches; ++batch) {
            Lane& lane = lanes[batch % options_.processes];
            const std::uint64_t before = now_ns();
            if (auto ready = await(lane, workers); !ready) return fail(ready.error());
            stalled += now_ns() - before;
            if (batch == 0) first = now_ns() - start;
            sem_post(&lane.wanted);  // as torch does: the next batch is asked for when one is taken
            compute(options_.trainer.compute_ms);
        }
        const double seconds = static_cast<double>(now_ns() - start) / 1e9;
        if (auto done = workers.wait(); !done) return fail(done.error());
        std::uint64_t bytes = 0;
        for (const Lane& lane : lanes) bytes += lane.bytes;
        const double computed = static_cast<double>(batches) * options_.trainer.compute_ms / 1e3;
        return Metrics{{"samples_per_s", static_cast<double>(order.size()) / seconds, Better::higher},
                       {"mb_per_s", static_cast<double>(bytes) / 1e6 / seconds, Better::higher},
                       {"epoch_s", seconds, Better::lower},
                       {"stall_s", static_cast<double>(stalled) / 1e9, Better::lower},
                       {"first_batch_s", static_cast<double>(first) / 1e9, Better::lower},
                       {"au_percent", 100 * computed / seconds, Better::higher},
                       {"batches", static_cast<double>(batches)}};
    }

  private:
    Result<void> load(unsigned index, Lane& lane, const std::vector<std::uint32_t>& order,
                      std::size_t batches) {
        std::vector<std::byte> buffer(options_.samples.max_file + 1);
        for (std::size_t batch = index; batch < batches; batch += options_.processes) {
            take(lane.wanted);
            const std::size_t end = std::min<std::size_t>(order.size(), (batch + 1) * options_.trainer.batch);
            for (std::size_t i = batch * options_.trainer.batch; i < end; ++i) {
                const auto bytes = read_sample(samples_[order[i]], buffer);
                if (!bytes) return fail(bytes.error());
                lane.bytes += *bytes;
            }
            sem_post(&lane.ready);
        }
        return {};
    }

    /// Waits for the lane's next batch; looks after the workers meanwhile, since a dead one will never post.
    static Result<void> await(Lane& lane, Workers& workers) {
        for (;;) {
            timespec limit{};
            clock_gettime(CLOCK_REALTIME, &limit);
            limit.tv_sec += 1;
            if (sem_timedwait(&lane.ready, &limit) == 0) return {};
            if (errno == EINTR) continue;
            if (auto alive = workers.check(); !alive) return alive;
        }
    }

    const RunOptions options_;
    const std::vector<Sample> samples_;
};

class EpochKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "epoch"; }
    [[nodiscard]] std::string help() const override {
        return "A trainer takes batches of --batch samples in order from --processes workers, each up to "
               "--prefetch "
               "batches ahead, and computes --compute milliseconds on each (it sleeps). epoch_s: from the "
               "workers' "
               "start to the end of the last computation. stall_s: the trainer's waits for batches. "
               "au_percent "
               "(accelerator utilization): 100 * batches * compute / epoch_s.";
    }
    void add_options(CLI::App& app) override { static_cast<void>(app); }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return nlohmann::ordered_json::object();
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        auto samples = find_samples(options);
        if (!samples) return fail(samples.error());
        return std::make_unique<Epoch>(options, std::move(*samples));
    }
};

}  // namespace

std::unique_ptr<SuiteKind> epoch_kind() {
    return std::make_unique<EpochKind>();
}

}  // namespace tierfs::iobench
