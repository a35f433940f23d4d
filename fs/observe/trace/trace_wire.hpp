// The trace on the control socket. fs/daemon answers, fs/commands asks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/base/result.hpp"
#include "fs/observe/trace/trace.hpp"

namespace tierfs {

/// An event as a client has it. Plain value.
struct TraceLine {
    bool passthrough = false;
    std::int64_t time_us = 0;  ///< since 1970
    std::int64_t took_us = 0;
    std::int64_t pid = 0;
    std::uint64_t uid = 0;
    std::string command, path;  ///< any bytes; the path is relative to the mount
    std::string tier;           ///< see tier_of
    std::uint64_t offset = 0, length = 0;
    std::uint64_t nvme_bytes = 0, origin_bytes = 0;
    int error = 0;
};
struct TraceLines {
    bool ended = false;  ///< the daemon does not know the tracer (any more)
    bool more = false;
    std::uint64_t dropped = 0;  ///< after the lines
    std::vector<TraceLine> lines;
};

/// Commands, each answered at once:
///   {"command": "trace-start"}               {"trace": 1234}
///   {"command": "trace-take", "trace": 1234} what came since: see read_trace_lines
///   {"command": "trace-stop", "trace": 1234} {}
/// Who takes nothing for Trace::kPatience has ended. Text is as control.hpp says. ENOSYS: it is none of them.
Result<nlohmann::json> answer_trace(Trace& trace, const std::string& name, const nlohmann::json& request);

/// The answer to trace-take. EPROTO: it is none.
Result<TraceLines> read_trace_lines(const nlohmann::json& answer);

}  // namespace tierfs
