#include "bench/iobench/run/runner.hpp"

#include <algorithm>

#include "bench/iobench/data/random.hpp"
#include "bench/iobench/run/run_progress.hpp"

namespace tierfs::iobench {

namespace {

constexpr double kGib = 1 << 30;
/// Warm-ups read in other orders than the runs, and the seeds of runs do not depend on how many there are.
constexpr std::uint64_t kWarmUpSeeds = 1ULL << 32;
/// Below this a run's bytes say nothing about what a daemon did: mmap and io_uring go past the counters.
constexpr std::uint64_t kLeastBytes = 1 << 20;

std::optional<std::size_t> index_of(const std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
}

bool same_metrics(const Metrics& a, const Metrics& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Metric& one, const Metric& other) {
        return one.name == other.name && one.better == other.better;
    });
}

/// GiB that a run moved; none where that is not known.
std::optional<double> gib_of(const RunOutcome& outcome) {
    if (!outcome.bytes || *outcome.bytes < kLeastBytes) return std::nullopt;
    return static_cast<double>(*outcome.bytes) / kGib;
}

void add_figure(ResultFile& result, const ResultTarget& target, const std::string& test, const Metric& metric,
                std::vector<double> values) {
    ResultFigure figure{.target = target.name,
                        .test = test,
                        .metric = metric.name,
                        .unit = unit_of(metric.name),
                        .better = metric.better,
                        .values = std::move(values),
                        .summary = {},
                        .share_of_peak = {}};
    figure.summary = summarize(figure.values);
    // The peak is of reading: not of what is written, nor of one rank among several.
    const bool reads = metric.name == "mb_per_s" || metric.name == "read_total_mb_per_s";
    if (target.device && target.device->peak_mb_per_s.value_or(0) > 0 && reads)
        figure.share_of_peak = figure.summary.median / *target.device->peak_mb_per_s;
    result.figures.push_back(std::move(figure));
}

}  // namespace

Runner::Runner(const RunPlan& plan, std::vector<Target> targets, Look look)
    : plan_(plan), targets_(std::move(targets)), look_(std::move(look)) {
    std::vector<std::string> names;
    for (const auto& target : targets_)
        for (const auto& name : target.suite->cases())
            if (!index_of(names, name)) names.push_back(name);
    for (const auto& name : names) {
        cases_.push_back({.name = name, .numbers = {}, .records = {}});
        for (const auto& target : targets_)
            cases_.back().numbers.push_back(index_of(target.suite->cases(), name));
        cases_.back().records.resize(targets_.size());
    }
}

std::vector<Runner::Turn> Runner::turns() const {
    std::vector<Turn> all;
    const auto add = [&](std::size_t test, unsigned round, bool warm_up) {
        for (std::size_t target = 0; target < targets_.size(); ++target)
            if (cases_[test].numbers[target]) all.push_back({test, target, round, warm_up});
    };
    for (std::size_t test = 0; test < cases_.size(); ++test) {
        for (unsigned i = 0; i < plan_.warm_up; ++i) add(test, i, true);
        for (unsigned i = 0; i < plan_.runs; ++i) add(test, i, false);
    }
    return all;
}

Result<void> Runner::run(Interruption& stop, ResultFile& result) {
    result.complete = false;
    for (const auto& target : targets_) result.targets.push_back(target.description);
    own_drops();  // from here on those of children are counted too
    const auto all = turns();
    RunProgress progress(plan_.progress, all.size());
    Result<void> done;
    for (std::size_t i = 0; done && i < all.size(); ++i) {
        progress.begin({.test = cases_[all[i].test].name,
                        .target = targets_[all[i].target].description.name,
                        .test_number = all[i].test + 1,
                        .tests = cases_.size(),
                        .run = all[i].round + 1,
                        .runs = all[i].warm_up ? plan_.warm_up : plan_.runs,
                        .warm_up = all[i].warm_up});
        done = take(all[i], stop, result);
        progress.end();
    }
    add_figures(result);
    add_remarks(result);
    add_daemons(result);
    result.complete = done.has_value();
    return done;
}

Result<void> Runner::take(const Turn& turn, Interruption& stop, ResultFile& result) {
    Case& test = cases_[turn.test];
    Target& target = targets_[turn.target];
    auto& records = test.records[turn.target];
    const std::uint64_t number = turn.warm_up ? kWarmUpSeeds + turn.round : turn.round;
    const MachineState before = turn.warm_up ? MachineState{} : look_();
    auto record = measure(target, *test.numbers[turn.target], derive_seed(plan_.seed, number), stop);
    const std::string where = test.name + ", " + target.description.name + ", " +
                              (turn.warm_up ? "warm-up " : "run ") + std::to_string(turn.round + 1);
    if (!record) return fail(record.error().within(where));
    if (turn.warm_up) return {};
    look_for_disturbances(turn, before, *record, result);
    if (!records.empty() && !same_metrics(records.front().outcome.metrics, record->outcome.metrics))
        return fail(EPROTO, where + ": the suite gave other metrics than in run 1");
    records.push_back(std::move(*record));
    return {};
}

Result<Runner::Record> Runner::measure(Target& target, std::size_t number, std::uint64_t seed,
                                       Interruption& stop) {
    Watch watch;
    if (target.daemon) {
        target.daemon->begin();
        watch = {.interval = std::chrono::milliseconds(Daemon::kSampleMs),
                 .look = [&] { target.daemon->sample(); }};
    }
    auto outcome = run_apart([&] { return target.suite->run(number, seed); }, stop, watch);
    if (!outcome) return fail(outcome.error());
    Record record{.outcome = std::move(*outcome)};
    if (target.daemon) {
        target.daemon->sample();
        record.daemon_cpu_s = target.daemon->cpu_s();
        record.daemon_peak = target.daemon->peak_bytes();
    }
    return record;
}

void Runner::look_for_disturbances(const Turn& turn, const MachineState& before, const Record& record,
                                   ResultFile& result) {
    const MachineState after = look_();
    const Target& target = targets_[turn.target];
    const auto pids = target.daemon ? target.daemon->pids() : std::vector<pid_t>{};
    auto found = disturbances(before, after, {.cpu_s = record.daemon_cpu_s, .pids = pids});
    if (target.daemon && target.daemon->lost()) found.push_back(*target.daemon->lost());
    for (auto& what : found)
        result.disturbances.push_back({.target = target.description.name,
                                       .test = cases_[turn.test].name,
                                       .what = std::move(what),
                                       .run = turn.round + 1});
}

void Runner::add_figures(ResultFile& result) const {
    for (const auto& test : cases_) {
        for (std::size_t i = 0; i < targets_.size(); ++i) {
            const auto& records = test.records[i];
            if (records.empty()) continue;
            const auto add = [&](const Metric& metric, auto&& value) {
                std::vector<double> values;
                for (const auto& record : records) values.push_back(value(record));
                add_figure(result, targets_[i].description, test.name, metric, std::move(values));
            };
            const Metrics& metrics = records.front().outcome.metrics;
            for (std::size_t m = 0; m < metrics.size(); ++m)
                add(metrics[m], [&](const Record& record) { return record.outcome.metrics[m].value; });
            if (!targets_[i].daemon) continue;
            add({"daemon_peak_mb", 0, Better::lower},
                [](const Record& record) { return static_cast<double>(record.daemon_peak) / 1e6; });
            if (std::all_of(records.begin(), records.end(),
                            [](const Record& record) { return gib_of(record.outcome).has_value(); }))
                add({"daemon_cpu_s_per_gib", 0, Better::lower},
                    [](const Record& record) { return record.daemon_cpu_s / *gib_of(record.outcome); });
        }
    }
}

void Runner::add_remarks(ResultFile& result) const {
    for (const auto& test : cases_)
        for (std::size_t i = 0; i < targets_.size(); ++i) {
            if (test.records[i].empty()) continue;
            const Metrics& last = test.records[i].back().outcome.metrics;
            for (const auto& remark : targets_[i].suite->remarks(last))
                result.warnings.push_back(test.name + ", " + targets_[i].description.name + ": " + remark);
        }
}

void Runner::add_daemons(ResultFile& result) const {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
        if (!targets_[i].daemon) continue;
        ResultDaemon daemon{.pid = targets_[i].daemon->pids().front(),
                            .command = targets_[i].daemon->command(),
                            .peak_rss_bytes = 0,
                            .cpu_s = 0,
                            .cpu_s_per_gib = {}};
        double gib = 0, cpu_s = 0;
        for (const auto& test : cases_)
            for (const auto& record : test.records[i]) {
                daemon.cpu_s += record.daemon_cpu_s;
                daemon.peak_rss_bytes = std::max(daemon.peak_rss_bytes, record.daemon_peak);
                const auto moved = gib_of(record.outcome);
                if (!moved) continue;
                gib += *moved;
                cpu_s += record.daemon_cpu_s;
            }
        if (gib > 0) daemon.cpu_s_per_gib = cpu_s / gib;
        result.targets[i].daemon = daemon;
    }
}

}  // namespace tierfs::iobench
