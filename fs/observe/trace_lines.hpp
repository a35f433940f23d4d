// Lines of `tierfs trace`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>

#include "fs/observe/trace/trace_wire.hpp"

namespace tierfs {

/// Makes lines of what was read, in one of three forms; each text ends with a newline. Not thread-safe.
class TraceLineWriter {
  public:
    /// columns: for people, control characters in names escaped; json: an object a line, in which what is no
    /// UTF-8 becomes U+FFFD; order: the path of each file at its first read, below `mountpoint`, as it is.
    enum class Form { columns, json, order };
    TraceLineWriter(Form form, std::string mountpoint) : form_(form), mountpoint_(std::move(mountpoint)) {}

    /// What stands above the lines; empty when nothing does.
    [[nodiscard]] std::string head() const;
    /// Empty: there is nothing to print of it.
    std::string line(const TraceLine& line);
    [[nodiscard]] std::string dropped(std::uint64_t count) const;

    /// Names that no list can hold, since they have a newline.
    [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

  private:
    std::string ordered(const TraceLine& line);

    const Form form_;
    const std::string mountpoint_;
    std::unordered_set<std::string> seen_;  ///< of `order`
    std::uint64_t left_out_ = 0;
};

}  // namespace tierfs
