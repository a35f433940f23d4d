#include "fs/observe/trace/trace_wire.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/base/log.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostAtOnce = 1000;  // half a megabyte; the control thread has others to answer
/// Of the clock, which counts nanoseconds: in the year 2262.
constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max() / 1000;

Json event_json(const TraceEvent& event) {
    const auto since = std::chrono::duration_cast<std::chrono::microseconds>(event.time.time_since_epoch());
    return Json{{"passthrough", event.kind == TraceEvent::Kind::passthrough},
                {"time_us", since.count()},
                {"took_us", event.took.count()},
                {"pid", event.reader.pid},
                {"uid", event.reader.uid},
                {"command", path_to_wire(event.reader.command)},
                {"path", path_to_wire(event.object ? event.object->path : std::string())},
                {"tier", tier_of(event)},
                {"offset", event.offset},
                {"length", event.length},
                {"nvme_bytes", event.nvme_bytes},
                {"origin_bytes", event.origin_bytes},
                {"error", event.error}};
}

Json take(Trace& trace, std::uint64_t number) {
    const auto batch = trace.take(number, kMostAtOnce, Trace::Clock::now());
    if (!batch) return Json{{"ended", true}, {"more", false}, {"dropped", 0}, {"events", Json::array()}};
    Json events = Json::array();
    for (const auto& event : batch->events) events.push_back(event_json(event));
    return Json{
        {"ended", false}, {"more", batch->more}, {"dropped", batch->dropped}, {"events", std::move(events)}};
}

/// Throws what is no line.
TraceLine read_line(const Json& event) {
    const auto text = [&](const char* member) {
        return path_from_wire(event.at(member).get_ref<const std::string&>()).value_or("?");
    };
    // A fraction is nobody's count, and converting it might be undefined.
    const auto integer = [&]<typename Integer>(const char* member, Integer) {
        const auto& value = event.at(member);
        return value.is_number_float() ? Integer{0} : value.get<Integer>();
    };
    const auto count = [&](const char* member) { return integer(member, std::uint64_t{0}); };
    const auto number = [&](const char* member) { return integer(member, std::int64_t{0}); };
    TraceLine line;
    line.passthrough = event.at("passthrough").get<bool>();
    line.time_us = std::clamp(number("time_us"), std::int64_t{0}, kLatest);
    line.took_us = number("took_us");
    line.pid = number("pid");
    line.uid = count("uid");
    line.command = text("command");
    line.path = text("path");
    line.tier = text("tier");
    line.offset = count("offset");
    line.length = count("length");
    line.nvme_bytes = count("nvme_bytes");
    line.origin_bytes = count("origin_bytes");
    line.error = integer("error", 0);
    return line;
}

}  // namespace

Result<Json> answer_trace(Trace& trace, const std::string& name, const Json& request) {
    if (name != "trace-start" && name != "trace-take" && name != "trace-stop")
        return fail(ENOSYS, "no command about traces");
    if (name == "trace-start") {
        const auto number = trace.start(Trace::Clock::now());
        if (!number) return fail(number.error());
        log::info("reads are traced");
        return Json{{"trace", *number}};
    }
    const auto number = request.find("trace");
    if (number == request.end() || !number->is_number_unsigned())
        return fail(EINVAL, "the request has no \"trace\"");
    if (name == "trace-take") return take(trace, number->get<std::uint64_t>());
    trace.stop(number->get<std::uint64_t>());
    return Json::object();
}

Result<TraceLines> read_trace_lines(const Json& answer) {
    TraceLines lines;
    try {
        lines.ended = answer.at("ended").get<bool>();
        lines.more = answer.at("more").get<bool>();
        const auto& dropped = answer.at("dropped");
        lines.dropped = dropped.is_number_float() ? 0 : dropped.get<std::uint64_t>();
        for (const auto& event : answer.at("events")) lines.lines.push_back(read_line(event));
    } catch (const Json::exception&) {
        return fail(EPROTO, "the mount's answer is not understood: is its daemon of another version?");
    }
    return lines;
}

}  // namespace tierfs
