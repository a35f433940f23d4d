#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "bench/iobench/data/random.hpp"
#include "bench/iobench/suites/trainer.hpp"

namespace tierfs::iobench {

namespace {

class EpochSuite : public Suite {
  public:
    EpochSuite(const RunOptions& options, SampleSet set)
        : options_(options), set_(std::move(set)), trainer_(options_, set_) {}

    [[nodiscard]] std::vector<std::string> cases() const override { return {"shuffled"}; }

    Result<Metrics> run(std::size_t /*which*/, std::uint64_t seed) override {
        std::vector<EpochRecord> epochs;
        for (unsigned i = 0; i < options_.trainer.epochs; ++i) {
            auto record = trainer_.epoch(derive_seed(seed, i));
            if (!record) return fail(record.error());
            epochs.push_back(std::move(*record));
        }
        return trainer_metrics(epochs, options_.trainer.batch, mean_size(set_, options_));
    }

    [[nodiscard]] std::vector<std::string> remarks(const Metrics& metrics) const override {
        const auto value = [&](const char* name) {
            const auto found =
                std::find_if(metrics.begin(), metrics.end(), [&](const auto& m) { return m.name == name; });
            return found == metrics.end() ? 0 : found->value;
        };
        const TrainerOptions& trainer = options_.trainer;
        constexpr double kLeastSteps = 500;
        std::vector<std::string> said;
        char text[300];
        if (trainer.compute_ms <= 0) {
            std::snprintf(
                text, sizeof text,
                "no compute time: AU says nothing here; the barrier after each step took %.1f us on "
                "average, %.2f %% of the epoch",
                value("barrier_us"), value("barrier_percent"));
            said.emplace_back(text);
        } else if (trainer.au_bar_percent > 0) {
            // dlio_benchmark reads each TFRecord file from its beginning to its end
            const bool many_records = set_.samples.size() > set_.files.size();
            std::snprintf(
                text, sizeof text, "AU %.2f %% (net of barriers %.2f %%); %s %g %%%s", value("au_percent"),
                value("au_net_percent"),
                many_records ? "not to be compared with MLPerf Storage's" : "MLPerf Storage asks for",
                trainer.au_bar_percent,
                many_records ? ": records are read at random over all files, there each file in order" : "");
            said.emplace_back(text);
        }
        if (trainer.au_bar_percent > 0 && value("steps") < kLeastSteps) {
            std::snprintf(text, sizeof text, "%.0f steps an epoch; MLPerf Storage asks for at least %.0f",
                          value("steps"), kLeastSteps);
            said.emplace_back(text);
        }
        return said;
    }

  private:
    const RunOptions options_;
    const SampleSet set_;
    const Trainer trainer_;
};

class EpochKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "epoch"; }
    [[nodiscard]] std::string help() const override {
        return "An emulated trainer: --ranks accelerators, each with --workers processes that read batches "
               "of "
               "--batch samples in shuffled order, up to --prefetch batches ahead, as torch's DataLoader and "
               "DistributedSampler do; a rank takes its batches in order, computes --compute milliseconds on "
               "each "
               "(it sleeps) and meets the others at a barrier. --epochs of these make a run, each shuffled "
               "anew. "
               "Steps of an epoch: floor(samples / batch / ranks), the rest is not read (--keep-last reads "
               "it). "
               "samples_per_s, mb_per_s, epoch_s: from the workers' start to the last barrier. stall_s: "
               "waits for "
               "batches, first_batch_s: until every rank has one. au_percent: accelerator utilization as "
               "MLPerf "
               "Storage computes it (first step excluded, barriers in the denominator), the mean over ranks "
               "and "
               "epochs; au_net_percent: with the barriers taken out. compute_s, barrier_s: of an epoch, "
               "means over "
               "ranks; barrier_us: of a step; barrier_percent: of epoch_s. dlio_samples_per_s and "
               "dlio_mib_per_s "
               "(2^20 bytes): as that benchmark counts them, without two steps. With several epochs the "
               "figures of "
               "each follow (epoch1_s and so on).";
    }
    void add_options(CLI::App& app) override { static_cast<void>(app); }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return nlohmann::ordered_json::object();
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        auto set = find_samples(options);
        if (!set) return fail(set.error());
        if (auto can = Trainer(options, *set).possible(); !can) return fail(can.error());
        return std::make_unique<EpochSuite>(options, std::move(*set));
    }
};

}  // namespace

std::unique_ptr<SuiteKind> epoch_kind() {
    return std::make_unique<EpochKind>();
}

}  // namespace tierfs::iobench
