// Common options and steps of the subcommands that work on datasets.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "fs/cli/stop_flag.hpp"
#include "fs/stage/copy/reporter.hpp"

namespace tierfs::stage {

/// --json, --progress SECONDS, --quiet.
struct ReportOptions {
    bool json = false, quiet = false;
    unsigned interval = 10;
    void add_to(CLI::App& command);
};

/// Runs `work` with signals, a reporter and as many descriptors as may be had. The exit status.
int run_with(const ReportOptions& options, const std::function<int(Reporter&, const StopFlag&)>& work);

/// Throws CLI::ValidationError (wrong usage) with what is wrong.
template <typename T>
T must(tl::expected<T, Error> result, const std::string& option) {
    if (!result) throw CLI::ValidationError(option, result.error().message);
    return std::move(*result);
}

}  // namespace tierfs::stage
