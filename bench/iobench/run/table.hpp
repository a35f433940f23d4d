// A result for people.
#pragma once

#include <string>

#include "bench/iobench/run/result_file.hpp"

namespace tierfs::iobench {

/// Targets, a row for each figure with its median, interval and p95, what was out of the ordinary. With
/// several targets each one's ratio to the first, paired by round, with its interval and a verdict.
std::string table_of(const ResultFile& result);

}  // namespace tierfs::iobench
