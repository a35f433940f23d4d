// Runs gnuplot: a script in, SVG out.
#pragma once

#include <chrono>
#include <string>

#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Immutable, thread-safe.
class Gnuplot {
  public:
    using Milliseconds = std::chrono::milliseconds;

    /// `program`: a path, or a name that is looked for in PATH. A run that takes longer than `limit` is
    /// killed.
    explicit Gnuplot(std::string program = "gnuplot", Milliseconds limit = Milliseconds(30'000))
        : program_(std::move(program)), limit_(limit) {}

    /// What the script writes to its standard output. No shell is involved, no start-up file of the user's is
    /// read, and the script is trusted: whoever writes one passes foreign text through gnuplot_string. ENOENT
    /// when there is no such program, ETIMEDOUT, EIO with gnuplot's words when it fails.
    [[nodiscard]] Result<std::string> run(const std::string& script) const;

  private:
    std::string program_;
    Milliseconds limit_;
};

}  // namespace tierfs::iobench
