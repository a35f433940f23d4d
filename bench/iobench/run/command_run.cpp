#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/iobench/command.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/suites/dataset_rule.hpp"
#include "bench/iobench/suites/suites.hpp"
#include "bench/iobench/suites/trainer_options.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;

const std::map<std::string, DropCaches> kDrops = {
    {"none", DropCaches::none}, {"page", DropCaches::page}, {"all", DropCaches::all}};

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

/// What the command line said beside the suite's own options.
struct Request {
    std::string suite, json;
    unsigned runs = 5;
    std::uint64_t seed = 1;
    RunOptions options;
    TrainerCommandLine trainer;
    std::vector<std::unique_ptr<SuiteKind>> kinds = suite_kinds();

    [[nodiscard]] const SuiteKind& kind() const {
        return **std::find_if(kinds.begin(), kinds.end(),
                              [&](const auto& kind) { return kind->name() == suite; });
    }
};

Json parameters(const Request& request) {
    const RunOptions& options = request.options;
    const auto drop =
        std::find_if(kDrops.begin(), kDrops.end(), [&](const auto& e) { return e.second == options.drop; });
    Json json = {{"processes", options.processes},
                 {"runs", request.runs},
                 {"seed", request.seed},
                 {"drop_caches", drop->first},
                 {"verify", !options.manifest.empty()}};
    json.update(request.trainer.parameters(options));
    json.update(request.kind().parameters());
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

void print(const Request& request, const std::string& name, const Json& summary) {
    std::printf("%s, %s of %s: %u processes, %u runs\n%-18s %14s %14s %14s\n", request.suite.c_str(),
                name.c_str(), request.options.path.c_str(), request.options.processes, request.runs, "",
                "median", "min", "max");
    for (const auto& [metric, value] : summary.items())
        std::printf("%-18s %14.2f %14.2f %14.2f\n", metric.c_str(), value["median"].get<double>(),
                    value["min"].get<double>(), value["max"].get<double>());
}

/// All runs of one case: {"name": …, "runs": […], "summary": …}.
Result<Json> run_case(const Request& request, Suite& suite, std::size_t which, const std::string& name) {
    Json report = {{"name", name}, {"runs", Json::array()}};
    std::vector<Metrics> runs;
    for (unsigned i = 0; i < request.runs; ++i) {
        auto metrics = suite.run(which, derive_seed(request.seed, i));
        if (!metrics) return fail(metrics.error().within(name + ", run " + std::to_string(i + 1)));
        Json entry = Json::object();
        for (const auto& metric : *metrics) entry[metric.name] = metric.value;
        report["runs"].push_back(entry);
        runs.push_back(std::move(*metrics));
    }
    report["summary"] = summarize(runs);
    print(request, name, report["summary"]);
    report["remarks"] = suite.remarks(runs.back());
    for (const auto& remark : suite.remarks(runs.back())) std::printf("%s\n", remark.c_str());
    return report;
}

/// A preset's defaults, and the rule that keeps its figures from being the page cache's.
Result<DatasetRule> settle(Request& request) {
    if (auto applied = request.trainer.apply_preset(request.options); !applied) return fail(applied.error());
    const bool reads_samples =
        request.suite == "smallfiles" || request.suite == "epoch" || request.suite == "depth";
    if (!reads_samples) return DatasetRule{"", "", request.options.drop};
    auto rule = dataset_rule(request.options);
    if (!rule) return rule;
    request.options.drop = rule->drop;
    std::printf("%s\n", rule->text.c_str());
    if (!rule->warning.empty()) std::fprintf(stderr, "iobench: warning: %s\n", rule->warning.c_str());
    return rule;
}

Result<void> run(Request& request) {
    const auto rule = settle(request);
    if (!rule) return fail(rule.error());
    auto suite = request.kind().make(request.options);
    if (!suite) return fail(suite.error());
    Json report = {{"tool", "iobench"},
                   {"version", TIERFS_VERSION},
                   {"time", utc_now()},
                   {"suite", request.suite},
                   {"path", request.options.path},
                   {"parameters", parameters(request)},
                   {"dataset_rule", rule->text},
                   {"warnings", Json::array()},
                   {"host", host_facts(request.options.path)},
                   {"cases", Json::array()}};
    if (!rule->warning.empty()) report["warnings"].push_back(rule->warning);
    const auto cases = (*suite)->cases();
    for (std::size_t which = 0; which < cases.size(); ++which) {
        auto done = run_case(request, **suite, which, cases[which]);
        if (!done) return fail(done.error().within(request.suite));
        report["cases"].push_back(std::move(*done));
    }
    if (request.json.empty()) return {};
    const std::string text = report.dump(2) + "\n";
    return write_atomically(request.json, true,
                            [&](const Sink& sink) { return sink(std::as_bytes(std::span(text))); });
}

std::string footer(const std::vector<std::unique_ptr<SuiteKind>>& kinds) {
    std::string text = "Suites:\n";
    for (const auto& kind : kinds) text += "  " + kind->name() + ": " + kind->help() + "\n";
    return text + R"(
MB are 10^6 bytes. Every run has an order of its own, which belongs to --seed. --drop-caches acts before every run
(seqrand: before each of its halves), needs root and concerns the whole machine. --verify hashes what is read inside
the time that is measured. Exit status: 0 measured, 1 failed (a file could not be read, or was wrong), 2 wrong usage.)";
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    auto request = std::make_shared<Request>();
    RunOptions& options = request->options;
    auto* run_app = app.add_subcommand("run", "Measure a directory: medians, least and most of several runs");
    std::vector<std::string> names;
    for (const auto& kind : request->kinds) names.push_back(kind->name());
    run_app->add_option("--suite", request->suite, CLI::detail::join(names, ", "))
        ->check(CLI::IsMember(names))
        ->option_text("NAME")
        ->required();
    run_app->add_option("--path", options.path, "the directory to read")->required();
    run_app->add_option("--json", request->json,
                        "write every run, the summary and the host's facts to this file");
    run_app->add_option("--processes", options.processes, "that read at the same time")
        ->check(CLI::Range(1U, 4096U))
        ->capture_default_str();
    run_app->add_option("--runs", request->runs)->check(CLI::Range(1U, 1000U))->capture_default_str();
    run_app->add_option("--seed", request->seed, "of the orders of reading")->capture_default_str();
    run_app
        ->add_option("--drop-caches", options.drop,
                     "none (the default), page (the page cache), all (inodes too)")
        ->transform(CLI::CheckedTransformer(kDrops, CLI::ignore_case))
        ->option_text("WHAT");
    run_app->add_option("--verify", options.manifest,
                        "check what is read against this manifest of iobench gen");
    request->trainer.add(*run_app, options);
    for (const auto& kind : request->kinds) kind->add_options(*run_app);
    run_app->footer(footer(request->kinds));
    run_app->callback([request, &status] {
        const auto done = run(*request);
        status = done ? 0 : complain(done.error().message);
    });
}

}  // namespace tierfs::iobench
