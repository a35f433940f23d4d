#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/iobench/suites/trainer.hpp"

namespace tierfs::iobench {

namespace {

struct Point {
    unsigned prefetch, workers;
};

class DepthSuite : public Suite {
  public:
    DepthSuite(const RunOptions& options, SampleSet set, std::vector<Point> grid)
        : options_(options), set_(std::move(set)), grid_(std::move(grid)) {}

    [[nodiscard]] std::vector<std::string> cases() const override {
        std::vector<std::string> names;
        names.reserve(grid_.size());
        for (const Point& point : grid_)
            names.push_back("prefetch" + std::to_string(point.prefetch) + "-workers" +
                            std::to_string(point.workers));
        return names;
    }

    Result<Metrics> run(std::size_t which, std::uint64_t seed) override {
        RunOptions options = options_;
        options.trainer.prefetch = grid_[which].prefetch;
        options.trainer.workers = grid_[which].workers;
        std::vector<EpochRecord> epochs;
        auto record = Trainer(options, set_).epoch(seed);
        if (!record) return fail(record.error());
        epochs.push_back(std::move(*record));
        return trainer_metrics(epochs, options_.trainer.batch, mean_size(set_, options_));
    }

  private:
    const RunOptions options_;
    const SampleSet set_;
    const std::vector<Point> grid_;
};

class DepthKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "depth"; }
    [[nodiscard]] std::string help() const override {
        return "One epoch of the emulated trainer (see epoch, whose figures it has) for each pair of "
               "--prefetches "
               "and --worker-counts: how much reading ahead, and how many readers, the storage needs. A case "
               "for "
               "each pair: prefetch2-workers4.";
    }
    void add_options(CLI::App& app) override {
        app.add_option("--prefetches", prefetches_, "depth: batches that a worker may be ahead, a list")
            ->delimiter(',')
            ->check(CLI::Range(1U, 1000U))
            ->option_text("N,... [1,2,4,8]");
        app.add_option("--worker-counts", workers_, "depth: worker processes of a rank, a list")
            ->delimiter(',')
            ->check(CLI::Range(1U, 4096U))
            ->option_text("N,... [1,2,4]");
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return {{"prefetches", prefetches_}, {"worker_counts", workers_}};
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        std::vector<Point> grid;
        for (const unsigned workers : workers_)
            for (const unsigned prefetch : prefetches_) {
                const bool twice = std::any_of(grid.begin(), grid.end(), [&](const Point& point) {
                    return point.prefetch == prefetch && point.workers == workers;
                });
                if (twice)
                    return fail(EINVAL,
                                "--prefetches and --worker-counts: the same number stands there twice");
                grid.push_back({prefetch, workers});
            }
        auto set = find_samples(options);
        if (!set) return fail(set.error());
        if (auto can = Trainer(options, *set).possible(); !can) return fail(can.error());
        return std::make_unique<DepthSuite>(options, std::move(*set), std::move(grid));
    }

  private:
    std::vector<unsigned> prefetches_{1, 2, 4, 8}, workers_{1, 2, 4};
};

}  // namespace

std::unique_ptr<SuiteKind> depth_kind() {
    return std::make_unique<DepthKind>();
}

}  // namespace tierfs::iobench
