// Findings of `tierfs-stage check`: one sentence of fact each, why it matters and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tierfs::gds {

/// pass: as it should be. warn: direct, but slower or at some risk. fail: shuts the way for the back-ends
/// that it concerns. skip: could not be found out, and `why` says why.
enum class Level : std::uint8_t { pass, warn, fail, skip };

std::string_view name_of(Level level);  ///< "PASS"

/// The two ways of cuFile from a device to the GPU's memory, past the processor's memory.
enum class Backends : std::uint8_t { nvidia_fs = 1, p2pdma = 2, both = 3 };

constexpr bool concerns(Backends these, Backends one) {
    return (static_cast<unsigned>(these) & static_cast<unsigned>(one)) != 0;
}

/// Plain value. `id` is stable, for programs: "file-system"; there may be several of one id (devices, GPUs).
struct Finding {
    std::string id;
    Level level = Level::pass;
    std::string what;
    std::string why;     ///< empty for pass
    std::string advice;  ///< what to do; empty when there is nothing
    Backends backends = Backends::both;
};

using Findings = std::vector<Finding>;

/// What the person reads apart from the fact itself.
struct Reason {
    std::string why, advice;
};

void pass(Findings& findings, std::string id, std::string what, Backends backends = Backends::both);
void warn(Findings& findings, std::string id, std::string what, Reason reason,
          Backends backends = Backends::both);
void fail(Findings& findings, std::string id, std::string what, Reason reason,
          Backends backends = Backends::both);
void skip(Findings& findings, std::string id, std::string what, std::string why,
          Backends backends = Backends::both);

/// Whether one back-end would be taken, and the ids of the findings that forbid it, each once.
struct Verdict {
    bool direct = false;
    std::vector<std::string> because;
};

Verdict verdict_of(const Findings& findings, Backends one);

}  // namespace tierfs::gds
