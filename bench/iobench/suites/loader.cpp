#include <unistd.h>

#include <numeric>

#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/suites/loader_process.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

namespace {

struct LoaderChoice {
    std::string loader;  // FILE.py:function
    std::string python = "/usr/bin/python3";
    std::string reference;
    std::uint64_t batches = 100;
    unsigned workers = 0;  // 0: --processes
    double limit_s = 600;
};

struct Case {
    std::string name;
    unsigned workers = 0;
    bool pause = false;
};

double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

class Loader : public Suite {
  public:
    Loader(const RunOptions& options, LoaderPlan plan, std::vector<Case> cases)
        : options_(options), plan_(std::move(plan)), cases_(std::move(cases)) {}

    [[nodiscard]] std::vector<std::string> cases() const override {
        std::vector<std::string> names;
        for (const auto& one : cases_) names.push_back(one.name);
        return names;
    }

    Result<Metrics> run(std::size_t which, std::uint64_t seed) override {
        LoaderPlan plan = plan_;
        plan.workers = cases_.at(which).workers;
        plan.pause_s = cases_[which].pause ? options_.trainer.compute_ms / 1e3 : 0;
        plan.seed = seed;
        const auto times = time_loader(plan, [&] { return drop_caches(options_.drop); });
        if (!times) return fail(times.error());
        return summarize(times->first, times->second);
    }

  private:
    static Metrics summarize(const LoaderPass& first, const LoaderPass& second) {
        const auto batches = static_cast<double>(first.waits_s.size());
        // The first batch has a figure of its own: with 100 batches it would be the 99th percentile.
        const std::vector<double> later(first.waits_s.begin() + 1, first.waits_s.end());
        const double waited = sum(first.waits_s), python = sum(second.waits_s);
        return {{"batches_per_s", batches / first.seconds, Better::higher},
                {"warm_batches_per_s", batches / second.seconds, Better::higher},
                {"batch_p50_ms", 1e3 * quantile(later, 0.5), Better::lower},
                {"batch_p99_ms", 1e3 * quantile(later, 0.99), Better::lower},
                {"first_batch_s", first.waits_s.front(), Better::lower},
                {"wait_s", waited, Better::lower},
                {"wait_percent", 100 * waited / first.seconds, Better::lower},
                {"storage_s", waited - python, Better::lower},
                {"python_s", python, Better::lower},
                {"storage_percent", 100 * (waited - python) / first.seconds, Better::lower},
                {"batches", batches}};
    }

    const RunOptions options_;
    const LoaderPlan plan_;
    const std::vector<Case> cases_;
};

class LoaderKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "loader"; }
    [[nodiscard]] std::string help() const override {
        return "Times --batches batches of your own data loader: --loader FILE.py:function, whose "
               "function(path, num_workers) returns a PyTorch DataLoader or any other iterable of "
               "batches. Cases: workers-0 and workers-N (N: --loader-workers), and the same with a "
               "pause of --compute milliseconds after each batch. A run starts --python, takes two "
               "batches to import everything, drops caches as --drop-caches says, takes the batches "
               "(first pass), then makes the loader again with the same seeds and takes them once more, "
               "from the page cache or from --loader-reference (second pass). python_s: the waits of "
               "the second pass; storage_s: how much longer those of the first pass were, below 0 only "
               "by chance; both as the trainer sees them, so what workers hide is in neither. "
               "storage_percent: storage_s of the first pass's time. Of the first pass: batches_per_s; "
               "batch_p50_ms, batch_p99_ms: waits for a batch, without the first; first_batch_s: with "
               "the start of the workers; wait_s, wait_percent: all waits, and their share of the time. "
               "warm_batches_per_s: of the second pass. A loader that draws other samples in the second "
               "pass though the global generators of random, numpy and torch have the same seeds, data "
               "larger than memory, and file systems whose files are not kept in the page cache (then "
               "give --loader-reference) make storage_s too small.";
    }
    void add_options(CLI::App& app) override {
        app.add_option("--loader", choice_.loader, "loader: the function that makes it")
            ->option_text("FILE.py:FUNCTION");
        app.add_option("--python", choice_.python, "loader: the interpreter")->capture_default_str();
        app.add_option("--batches", choice_.batches, "loader: batches in each pass")
            ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1'000'000}))
            ->capture_default_str();
        app.add_option("--loader-workers", choice_.workers, "loader: N of workers-N; default: --processes")
            ->check(CLI::Range(1U, 1024U));
        app.add_option("--loader-reference", choice_.reference,
                       "loader: the second pass reads here, a copy of --path in memory (tmpfs)")
            ->option_text("DIR");
        app.add_option("--loader-timeout", choice_.limit_s, "loader: seconds for one run, its start included")
            ->check(CLI::Range(0.1, 1e6))
            ->capture_default_str();
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return {{"loader", choice_.loader},
                {"python", choice_.python},
                {"batches", choice_.batches},
                {"loader_workers", choice_.workers},
                {"loader_reference", choice_.reference},
                {"loader_timeout_s", choice_.limit_s}};
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        if (!options.manifest.empty())
            return fail(EINVAL,
                        "loader cannot check content: --verify is for suites that read files themselves");
        const std::size_t colon = choice_.loader.rfind(':');
        if (colon == std::string::npos || colon == 0 || colon + 1 == choice_.loader.size())
            return fail(EINVAL, "--loader FILE.py:FUNCTION is needed, found '" + choice_.loader + "'");
        LoaderPlan plan;
        plan.python = choice_.python;
        plan.file = choice_.loader.substr(0, colon);
        plan.function = choice_.loader.substr(colon + 1);
        plan.path = options.path;
        plan.reference = choice_.reference;
        plan.batches = choice_.batches;
        plan.limit_s = choice_.limit_s;
        if (::access(plan.file.c_str(), R_OK) != 0) return fail(system_error(errno, plan.file));
        const unsigned workers = choice_.workers != 0 ? choice_.workers : options.processes;
        const std::string many = "workers-" + std::to_string(workers);
        std::vector<Case> cases = {{"workers-0", 0, false}, {many, workers, false}};
        if (options.trainer.compute_ms > 0) {
            cases.push_back({"workers-0-pause", 0, true});
            cases.push_back({many + "-pause", workers, true});
        }
        return std::make_unique<Loader>(options, std::move(plan), std::move(cases));
    }

  private:
    LoaderChoice choice_;
};

}  // namespace

std::unique_ptr<SuiteKind> loader_kind() {
    return std::make_unique<LoaderKind>();
}

}  // namespace tierfs::iobench
