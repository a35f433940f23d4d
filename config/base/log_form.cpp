#include "config/base/log_form.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

namespace tierfs::log {

namespace {

using Clock = std::chrono::system_clock;

}  // namespace

std::string rfc3339(Clock::time_point time) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
    const auto part = std::chrono::floor<std::chrono::microseconds>(time - seconds).count();
    const std::time_t whole = Clock::to_time_t(seconds);
    std::tm parts{};
    ::gmtime_r(&whole, &parts);
    std::array<char, 32> day{};
    std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%s.%06dZ", day.data(), static_cast<int>(part));
    return text.data();
}

std::string_view name_of(Level level) {
    switch (level) {
        case Level::debug:
            return "debug";
        case Level::info:
            return "info";
        case Level::warning:
            return "warning";
        case Level::error:
            return "error";
    }
    return "error";
}

std::string json_line(Clock::time_point time, Level level, long pid, std::string_view message,
                      const About& about, const Fields& fields) {
    nlohmann::ordered_json line{
        {"time", rfc3339(time)}, {"level", name_of(level)}, {"pid", pid}, {"message", message}};
    if (!about.mountpoint.empty()) line["mountpoint"] = about.mountpoint;
    if (!about.source.empty()) line["source"] = about.source;
    if (!fields.path.empty()) line["path"] = fields.path;
    if (const char* name = fields.code == 0 ? nullptr : ::strerrorname_np(fields.code); name != nullptr)
        line["errno"] = name;
    // What is no UTF-8 becomes U+FFFD.
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string_view journal_prefix(Level level) {
    switch (level) {
        case Level::debug:
            return "<7>";
        case Level::info:
            return "<6>";
        case Level::warning:
            return "<4>";
        case Level::error:
            return "<3>";
    }
    return "<3>";
}

bool is_journal(int descriptor, const char* journal_stream) {
    struct stat found {};
    if (journal_stream == nullptr || ::fstat(descriptor, &found) != 0) return false;
    return journal_stream == std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino);
}

}  // namespace tierfs::log
