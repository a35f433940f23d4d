#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/iobench/command.hpp"
#include "bench/iobench/run/peak.hpp"
#include "bench/iobench/run/runner.hpp"
#include "bench/iobench/run/table.hpp"
#include "bench/iobench/run/targets.hpp"
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
    std::string suite, json, path;
    TargetRequest targets;
    RunPlan plan;
    RunOptions options;
    TrainerCommandLine trainer;
    DatasetRule rule;  ///< of a preset; else without text
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
    Json json = {{"processes", options.processes},  {"runs", request.plan.runs},
                 {"warm_up", request.plan.warm_up}, {"seed", request.plan.seed},
                 {"drop_caches", drop->first},      {"verify", !options.manifest.empty()}};
    json.update(request.trainer.parameters(options));
    json.update(request.kind().parameters());
    return json;
}

/// The words that started this process.
std::vector<std::string> command_line() {
    std::ifstream file("/proc/self/cmdline");
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    return words;
}

/// Whether the reads that are measured reach the device.
std::string drop_rule(DropCaches drop) {
    switch (drop) {
        case DropCaches::page:
            return "page cache dropped before each run (--drop-caches page)";
        case DropCaches::all:
            return "page cache, dentries and inodes dropped before each run (--drop-caches all)";
        case DropCaches::none:
            break;
    }
    return "caches not dropped: what was read before may come from memory";
}

/// A member that a suite's parameters may have: it belongs elsewhere in the file.
std::optional<std::string> taken(Json& parameters, const char* name) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) return std::nullopt;
    std::optional<std::string> text;
    if (found->is_string() && *found != "") text = found->get<std::string>();
    parameters.erase(name);
    return text;
}

ResultFile begin_result(const Request& request) {
    ResultFile result;
    result.tierfs = TIERFS_VERSION;
    result.command = command_line();
    result.started = utc_now();
    result.suite = request.suite;
    result.parameters = parameters(request);
    result.preset = taken(result.parameters, "preset");
    result.dataset_rule = taken(result.parameters, "dataset_rule").value_or(drop_rule(request.options.drop));
    if (!request.rule.text.empty()) result.dataset_rule = request.rule.text;
    if (!request.rule.warning.empty()) result.warnings.push_back(request.rule.warning);
    result.host = host_facts();
    if (const double load = load_average(); load > kLoad) {
        char text[120];
        std::snprintf(text, sizeof text,
                      "the load average was %.2f before the start: something else was running", load);
        result.warnings.emplace_back(text);
    }
    return result;
}

/// Before hours of measuring, not after them.
Result<void> check_writable(const std::string& path) {
    if (path.empty()) return {};
    const auto folder = std::filesystem::path(path).parent_path();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0)
        return fail(system_error(errno, "--json " + path));
    return {};
}

/// What the preset says, and the rule that keeps its figures from being the page cache's. Without a preset no
/// directory is listed for it.
Result<void> settle_preset(Request& request, bool drop_given) {
    if (request.options.preset.empty()) return {};
    if (auto applied = request.trainer.apply_preset(request.options); !applied) return applied;
    RunOptions first = request.options;
    first.path = parse_named(request.path).value;
    auto rule = dataset_rule(first, drop_given);
    if (!rule) return fail(rule.error());
    request.rule = std::move(*rule);
    request.options.drop = request.rule.drop;
    std::printf("%s\n", request.rule.text.c_str());
    return {};
}

/// The exit status.
int run(const Request& request) {
    if (auto writable = check_writable(request.json); !writable) return complain(writable.error().message);
    ResultFile result = begin_result(request);  // the load before anything was measured
    auto targets = make_targets(request.targets, request.kind(), request.options,
                                [](const std::string& path) { return measure_peak(path); });
    if (!targets) return complain(targets.error().message);
    Interruption stop;
    const auto done = Runner(request.plan, std::move(*targets)).run(stop, result);
    result.ended = utc_now();
    const bool interrupted = stop.signal() != 0;
    if (!done && !interrupted) result.warnings.push_back("not complete: " + done.error().message);
    if (interrupted) result.warnings.emplace_back("not complete: interrupted");
    std::printf("%s: %u processes, %u runs\n%s", request.suite.c_str(), request.options.processes,
                request.plan.runs, table_of(result).c_str());
    std::fflush(stdout);
    const auto written = request.json.empty() ? Result<void>{} : write_result(request.json, result);
    if (!written) complain(written.error().message);
    if (interrupted) return 128 + stop.signal();
    if (!done) return complain(done.error().message);
    return written ? 0 : 1;
}

std::string footer(const std::vector<std::unique_ptr<SuiteKind>>& kinds) {
    std::string text = "Suites:\n";
    for (const auto& kind : kinds) text += "  " + kind->name() + ": " + kind->help() + "\n";
    return text + R"(
MB are 10^6 bytes. Every run has an order of its own, which belongs to --seed. --drop-caches acts before every run
(epoch: before each epoch; checkpoint: before reading back; loader: before the first pass), needs root and concerns the
whole machine. --verify hashes what is read inside the time that is measured.

With --against each round measures every directory once, in turns and in the same order of reading; ratios are taken by
rounds. Shown are the median, its 95 % interval (bootstrap; with 5 runs mostly from the least to the largest), p95, and
runs outside Tukey's fences (1.5 quartile distances). A run is called disturbed when somebody else dropped caches, when
other programs used over 5 % of the processors' time, or when the hypervisor took as much.

Ctrl-C (SIGTERM, SIGHUP) stops the run that is under way; what was measured until then is shown and written.

Exit status: 0 measured, 1 failed (a file could not be read, or was wrong), 2 wrong usage, 130 after Ctrl-C (128 plus
the number of the signal).)";
}

void add_target_options(CLI::App& app, Request& request) {
    app.add_option("--path", request.path,
                   "the directory to measure; NAME is that of its figures, else the file system's type")
        ->option_text("[NAME=]DIR")
        ->required();
    app.add_option("--against", request.targets.paths, "a directory to compare with; may be given again")
        ->option_text("[NAME=]DIR")
        ->take_all()
        ->expected(1);
    app.add_option(
           "--daemon-pid", request.targets.daemons,
           "a process that serves the directory (of --path, without NAME): its processor time and memory "
           "are recorded; may be given again. That of a tierfs mount is found")
        ->option_text("[NAME=]PID")
        ->take_all()
        ->expected(1);
    app.add_flag(
        "--measure-peak", request.targets.measure_peak,
        "first measure what the block devices below the directories give at most (root; reads for 2 s: 8 "
        "reads of 4 MiB in flight, O_DIRECT); MB/s are then shown as a share of that too. Parts of a "
        "device that were never written may give more than it can");
    app.add_option(
           "--peak", request.targets.peaks,
           "what the device gives at most, or a device or large file to measure as --measure-peak does: for "
           "file systems without a device; without NAME for all directories")
        ->option_text("[NAME=]MB_PER_S|FILE")
        ->take_all()
        ->expected(1);
}

void add_plan_options(CLI::App& app, RunPlan& plan) {
    app.add_option("--runs", plan.runs, "of each case and directory")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    app.add_option("--warm-up", plan.warm_up,
                   "runs before those, which are not counted; default: 0 with --drop-caches, 1 without")
        ->check(CLI::Range(0U, 1000U));
    app.add_option("--seed", plan.seed, "of the orders of reading")->capture_default_str();
}

}  // namespace

void add_run(CLI::App& app, int& status) {
    auto request = std::make_shared<Request>();
    RunOptions& options = request->options;
    auto* run_app = app.add_subcommand("run", "Measure a directory, or several in turns");
    std::vector<std::string> names;
    for (const auto& kind : request->kinds) names.push_back(kind->name());
    run_app->add_option("--suite", request->suite, CLI::detail::join(names, ", "))
        ->check(CLI::IsMember(names))
        ->option_text("NAME")
        ->required();
    add_target_options(*run_app, *request);
    run_app->add_option("--json", request->json,
                        "write every run, the summary and what is known of machine and mounts to this file");
    run_app->add_option("--processes", options.processes, "that read at the same time")
        ->check(CLI::Range(1U, 4096U))
        ->capture_default_str();
    add_plan_options(*run_app, request->plan);
    run_app
        ->add_option("--drop-caches", options.drop,
                     "none (the default without --preset), page (the page cache), all (inodes too)")
        ->transform(CLI::CheckedTransformer(kDrops, CLI::ignore_case))
        ->option_text("WHAT");
    run_app->add_option("--verify", options.manifest,
                        "check what is read against this manifest of iobench gen");
    request->trainer.add(*run_app, options);
    for (const auto& kind : request->kinds) kind->add_options(*run_app);
    run_app->footer(footer(request->kinds));
    run_app->callback([request, run_app, &status] {
        auto& paths = request->targets.paths;
        paths.insert(paths.begin(), request->path);
        if (auto settled = settle_preset(*request, run_app->count("--drop-caches") != 0); !settled) {
            status = complain(settled.error().message);
            return;
        }
        if (run_app->count("--warm-up") == 0)
            request->plan.warm_up = request->options.drop == DropCaches::none ? 1 : 0;
        request->plan.progress = isatty(STDERR_FILENO) == 1;
        status = run(*request);
    });
}

}  // namespace tierfs::iobench
