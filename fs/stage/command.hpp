// The subcommands of tierfs-stage: command lines over fs/stage/copy/. Each adds its options to the parser and
// leaves its exit status: 0 done, 1 failed; its --help says what else.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace tierfs::stage {

/// `status` outlives the parser.
void add_plan(CLI::App& app, int& status);
void add_in(CLI::App& app, int& status);
/// status, verify, pin, unpin, evict and gc.
void add_upkeep(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_cufile_json(CLI::App& app, int& status);
void add_out(CLI::App& app, int& status);

/// "tierfs-stage: TEXT" on standard error; the exit status 1.
int complain(const std::string& text);

}  // namespace tierfs::stage
