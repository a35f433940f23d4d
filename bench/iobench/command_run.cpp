#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/iobench/command.hpp"
#include "bench/iobench/random.hpp"
#include "bench/iobench/statistics.hpp"
#include "bench/iobench/suites.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;

const std::map<std::string, DropCaches> kDrops = {
    {"none", DropCaches::none}, {"page", DropCaches::page}, {"all", DropCaches::all}};

constexpr const char* kFooter = R"(Suites:
  smallfiles  Each file of at most --max-file is opened, read to its end and closed, in shuffled order, divided among
              --processes. files_per_s and mb_per_s: from the first process's start to the last one's end. p50_us,
              p99_us: of one file.
  epoch       A trainer takes batches of --batch samples in order from --processes workers, each up to --prefetch
              batches ahead, and computes --compute milliseconds on each (it sleeps). epoch_s: from the workers' start
              to the end of the last computation. stall_s: the trainer's waits for batches. au_percent (accelerator
              utilization): 100 * batches * compute / epoch_s; 100 means that reading never held it up.
  seqrand     The largest file (or --file), buffered: 1 MiB reads in order by one process, seq_mb_per_s; then --reads
              reads of 64 KiB at random multiples of 64 KiB, divided among --processes.

MB are 10^6 bytes. Every run has an order of its own, which belongs to --seed. --drop-caches acts before every run
(seqrand: before each of its halves), needs root and concerns the whole machine. --verify hashes what is read inside
the time that is measured. Exit status: 0 measured, 1 failed (a file could not be read, or was wrong), 2 wrong usage.)";

Result<std::unique_ptr<Suite>> make_suite(const RunOptions& options) {
    if (options.suite == "smallfiles") return make_smallfiles(options);
    if (options.suite == "epoch") return make_epoch(options);
    return make_seqrand(options);
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

Json parameters(const RunOptions& options) {
    const auto drop =
        std::find_if(kDrops.begin(), kDrops.end(), [&](const auto& e) { return e.second == options.drop; });
    Json json = {{"processes", options.processes},
                 {"runs", options.runs},
                 {"seed", options.seed},
                 {"drop_caches", drop->first},
                 {"verify", !options.manifest.empty()}};
    if (options.suite == "seqrand") {
        json.update({{"file", options.file}, {"reads", options.reads}, {"bytes", options.bytes}});
        return json;
    }
    json.update({{"files", options.files}, {"max_file", options.max_file}});
    if (options.suite == "epoch")
        json.update(
            {{"batch", options.batch}, {"prefetch", options.prefetch}, {"compute_ms", options.compute_ms}});
    return json;
}

/// {"files_per_s": {"median": …, "min": …, "max": …}, …} from runs that all have the same metrics.
Json summarize(const std::vector<Metrics>& runs) {
    Json summary = Json::object();
    for (std::size_t i = 0; i < runs.front().size(); ++i) {
        std::vector<double> values;
        values.reserve(runs.size());
        for (const auto& run : runs) values.push_back(run[i].value);
        summary[runs.front()[i].name] = {
            {"median", median(values)}, {"min", quantile(values, 0)}, {"max", quantile(values, 1)}};
    }
    return summary;
}

void print(const RunOptions& options, const Json& summary) {
    std::printf("%s of %s: %u processes, %u runs\n%-18s %14s %14s %14s\n", options.suite.c_str(),
                options.path.c_str(), options.processes, options.runs, "", "median", "min", "max");
    for (const auto& [name, value] : summary.items())
        std::printf("%-18s %14.2f %14.2f %14.2f\n", name.c_str(), value["median"].get<double>(),
                    value["min"].get<double>(), value["max"].get<double>());
}

Result<void> run(const RunOptions& options) {
    auto suite = make_suite(options);
    if (!suite) return fail(suite.error());
    Json report = {{"tool", "iobench"},
                   {"version", TIERFS_VERSION},
                   {"time", utc_now()},
                   {"suite", options.suite},
                   {"path", options.path},
                   {"parameters", parameters(options)},
                   {"host", host_facts(options.path)},
                   {"runs", Json::array()}};
    std::vector<Metrics> runs;
    for (unsigned i = 0; i < options.runs; ++i) {
        auto metrics = (*suite)->run(derive_seed(options.seed, i));
        if (!metrics) return fail(metrics.error().within(options.suite + ", run " + std::to_string(i + 1)));
        Json entry = Json::object();
        for (const auto& metric : *metrics) entry[metric.name] = metric.value;
        report["runs"].push_back(entry);
        runs.push_back(std::move(*metrics));
    }
    report["summary"] = summarize(runs);
    print(options, report["summary"]);
    if (options.json.empty()) return {};
    const std::string text = report.dump(2) + "\n";
    return write_atomically(options.json, true,
                            [&](const Sink& sink) { return sink(std::as_bytes(std::span(text))); });
}

void add_suite_options(CLI::App& app, RunOptions& options) {
    app.add_option("--files", options.files,
                   "smallfiles, epoch: read at most so many of the shuffled files; 0: all")
        ->capture_default_str();
    app.add_option("--max-file", options.max_file, "smallfiles, epoch: leave larger files out; default 4M")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30))
        ->option_text("SIZE");
    app.add_option("--batch", options.batch, "epoch: samples in a batch")
        ->check(CLI::Range(1U, 1U << 20))
        ->capture_default_str();
    app.add_option("--prefetch", options.prefetch, "epoch: batches that a worker may be ahead")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    app.add_option("--compute", options.compute_ms, "epoch: milliseconds of computing for a batch")
        ->check(CLI::Range(0.0, 3.6e6))
        ->capture_default_str();
    app.add_option("--file", options.file,
                   "seqrand: the file to read, relative to --path; default: the largest");
    app.add_option("--reads", options.reads, "seqrand: random reads in a run")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
        ->capture_default_str();
    app.add_option("--bytes", options.bytes, "seqrand: read so much in order; default: the whole file")
        ->transform(CLI::AsSizeValue(false))
        ->option_text("SIZE");
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    auto options = std::make_shared<RunOptions>();
    auto* run_app = app.add_subcommand("run", "Measure a directory: medians, least and most of several runs");
    run_app->add_option("--suite", options->suite, "smallfiles, epoch or seqrand")
        ->check(CLI::IsMember({"smallfiles", "epoch", "seqrand"}))
        ->option_text("NAME")
        ->required();
    run_app->add_option("--path", options->path, "the directory to read")->required();
    run_app->add_option("--json", options->json,
                        "write every run, the summary and the host's facts to this file");
    run_app->add_option("--processes", options->processes, "that read at the same time")
        ->check(CLI::Range(1U, 4096U))
        ->capture_default_str();
    run_app->add_option("--runs", options->runs)->check(CLI::Range(1U, 1000U))->capture_default_str();
    run_app->add_option("--seed", options->seed, "of the orders of reading")->capture_default_str();
    run_app
        ->add_option("--drop-caches", options->drop,
                     "none (the default), page (the page cache), all (inodes too)")
        ->transform(CLI::CheckedTransformer(kDrops, CLI::ignore_case))
        ->option_text("WHAT");
    run_app->add_option("--verify", options->manifest,
                        "check what is read against this manifest of iobench gen");
    add_suite_options(*run_app, *options);
    run_app->footer(kFooter);
    run_app->callback([options, &status] {
        const auto done = run(*options);
        status = done ? 0 : complain(done.error().message);
    });
}

}  // namespace tierfs::iobench
