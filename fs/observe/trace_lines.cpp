#include "fs/observe/trace_lines.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "config/base/log_form.hpp"
#include "config/base/log_lines.hpp"

namespace tierfs {

namespace {

std::string time_of_day(std::int64_t time_us) {
    const auto seconds = static_cast<std::time_t>(time_us / 1'000'000);
    std::tm parts{};
    std::array<char, 16> day{};
    if (::localtime_r(&seconds, &parts) != nullptr) std::strftime(day.data(), day.size(), "%H:%M:%S", &parts);
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%s.%06d", day.data(), static_cast<int>(time_us % 1'000'000));
    return text.data();
}

std::string json_text(const nlohmann::ordered_json& object) {
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string json_of(const TraceLine& line) {
    const std::chrono::system_clock::time_point time{std::chrono::microseconds(line.time_us)};
    nlohmann::ordered_json object{{"time", log::rfc3339(time)},
                                  {"event", line.passthrough ? "passthrough" : "read"},
                                  {"pid", line.pid},
                                  {"command", line.command},
                                  {"uid", line.uid},
                                  {"path", line.path},
                                  {"offset", line.offset},
                                  {"length", line.length},
                                  {"tier", line.tier},
                                  {"nvme_bytes", line.nvme_bytes},
                                  {"origin_bytes", line.origin_bytes},
                                  {"microseconds", line.took_us}};
    if (line.error != 0) object["error"] = std::strerror(line.error);
    return json_text(object);
}

std::string columns_of(const TraceLine& line) {
    std::array<char, 256> text{};
    const auto length =
        std::snprintf(text.data(), text.size(), "%-15s %8lld %-15.64s %6llu %-6.16s %14llu %10llu %9lld ",
                      time_of_day(line.time_us).c_str(), static_cast<long long>(line.pid),
                      log::escaped(line.command).c_str(), static_cast<unsigned long long>(line.uid),
                      line.passthrough ? "kernel" : log::escaped(line.tier).c_str(),
                      static_cast<unsigned long long>(line.offset),
                      static_cast<unsigned long long>(line.length), static_cast<long long>(line.took_us));
    return std::string(text.data(), length < 0 ? 0 : std::min<std::size_t>(length, text.size() - 1)) +
           log::escaped(line.path) + "\n";
}

}  // namespace

std::string TraceLineWriter::head() const {
    if (form_ != Form::columns) return {};
    std::array<char, 256> text{};
    std::snprintf(text.data(), text.size(), "%-15s %8s %-15s %6s %-6s %14s %10s %9s %s\n", "TIME", "PID",
                  "COMMAND", "UID", "TIER", "OFFSET", "LENGTH", "MICROS", "PATH");
    return text.data();
}

std::string TraceLineWriter::line(const TraceLine& line) {
    switch (form_) {
        case Form::columns:
            return columns_of(line);
        case Form::json:
            return json_of(line);
        case Form::order:
            return ordered(line);
    }
    return {};
}

std::string TraceLineWriter::ordered(const TraceLine& line) {
    if (line.error != 0 || !seen_.insert(line.path).second) return {};
    auto path = (mountpoint_ == "/" ? "" : mountpoint_) + "/" + line.path + "\n";
    if (path.find('\n') + 1 == path.size()) return path;
    ++left_out_;
    return {};
}

std::string TraceLineWriter::dropped(std::uint64_t count) const {
    if (count == 0 || form_ == Form::order) return {};
    if (form_ == Form::json) return json_text(nlohmann::ordered_json{{"event", "dropped"}, {"count", count}});
    return "... " + std::to_string(count) + " more are not shown: they came faster than they were fetched\n";
}

}  // namespace tierfs
