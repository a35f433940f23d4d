// The subcommands of iobench. Each adds its options to the parser and leaves its exit status: 0 done, 1
// failed; its --help says what else.
#pragma once

#include <CLI/App.hpp>

namespace tierfs::iobench {

/// `status` outlives the parser.
void add_gen(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);

/// "iobench: TEXT" on standard error; the exit status 1.
int complain(const std::string& text);

}  // namespace tierfs::iobench
