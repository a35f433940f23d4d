#include "fs/stage/run.hpp"

#include <sys/resource.h>

#include <CLI/CLI.hpp>

#include "fs/cli/signals.hpp"

namespace tierfs::stage {

namespace {

/// Many files are open until their batch is synced.
void raise_descriptor_limit() {
    constexpr rlim_t kEnough = 16384;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kEnough) return;
    limit.rlim_cur = limit.rlim_max < kEnough ? limit.rlim_max : kEnough;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace

void ReportOptions::add_to(CLI::App& command) {
    command.add_flag("--json", json, "Events as JSON lines on standard output");
    command.add_flag("--quiet", quiet, "No progress");
    command.add_option("--progress", interval, "Seconds between two lines of progress")
        ->capture_default_str()
        ->check(CLI::Range(0U, 86400U));
}

int run_with(const ReportOptions& options, const std::function<int(Reporter&, const StopFlag&)>& work) {
    raise_descriptor_limit();
    StopFlag stop;
    const Signals signals(stop);
    Reporter reporter({options.json, options.quiet, std::chrono::seconds(options.interval)});
    return work(reporter, stop);
}

}  // namespace tierfs::stage
