// A Python interpreter that times a user's data loader: loader_driver.py, which is part of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

struct LoaderPlan {
    std::string python;          ///< the interpreter
    std::string file, function;  ///< the user's: function(path, num_workers)
    std::string path;
    std::string reference;  ///< the second pass reads here; empty: `path`
    unsigned workers = 0;
    std::uint64_t batches = 100;
    std::uint64_t warmup = 2;  ///< batches before the first pass, without workers
    double pause_s = 0;        ///< after each batch
    std::uint64_t seed = 1;
    double limit_s = 600;  ///< for everything together
};

/// `batches` batches, taken one after another.
struct LoaderPass {
    std::vector<double> waits_s;  ///< for each batch; the first one begins before the workers start
    double seconds = 0;           ///< of the whole, pauses too
};

struct LoaderTimes {
    LoaderPass first, second;
};

/// The text of loader_driver.py.
const char* loader_driver();

/// Starts the interpreter, and ends it and its workers (its process group) in every case. `ready` is called
/// when all is imported and the loader made, right before the first pass. Errors: those of `ready`; what is
/// wrong with the user's file, with Python's stack; a time limit, with where Python was; what it printed,
/// when it died.
Result<LoaderTimes> time_loader(const LoaderPlan& plan, const std::function<Result<void>()>& ready);

}  // namespace tierfs::iobench
