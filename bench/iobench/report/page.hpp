// The page and the table that `iobench report` writes.
#pragma once

#include <string>
#include <vector>

#include "bench/iobench/report/gnuplot.hpp"
#include "bench/iobench/report/sections.hpp"

namespace tierfs::iobench {

/// A page of its own: no script, and nothing that is loaded from elsewhere. What plots could not be drawn,
/// and why, stands in the page and is added to `problems`.
std::string html_page(const std::vector<NamedResult>& results, const Gnuplot& gnuplot,
                      std::vector<std::string>& problems);

/// A line for each value, RFC 4180: file, suite, target, case, metric, unit, run (from 1), value.
std::string csv_table(const std::vector<NamedResult>& results);

}  // namespace tierfs::iobench
