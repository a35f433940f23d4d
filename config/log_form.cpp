#include "config/log_form.hpp"

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>

namespace tierfs::log {

namespace {

using Clock = std::chrono::system_clock;

/// Bytes of the UTF-8 character (RFC 3629) that `text` begins with; 0: it begins with none.
std::size_t character(std::string_view text) {
    const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0U; };
    const unsigned first = at(0);
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4) return 0;
    const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    // Neither longer than need be, nor a surrogate, nor beyond U+10FFFF.
    const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (at(1) < least || at(1) > most) return 0;
    for (std::size_t i = 2; i < length; ++i) {
        if (at(i) < 0x80 || at(i) > 0xbf) return 0;
    }
    return length;
}

void append_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        const auto byte = static_cast<unsigned char>(text.front());
        const std::size_t length = character(text);
        if (length == 0) {
            out += "\xef\xbf\xbd";
        } else if (byte == '"' || byte == '\\') {
            out += '\\';
            out += text.front();
        } else if (byte < 0x20) {
            std::array<char, 8> code{};
            std::snprintf(code.data(), code.size(), "\\u%04x", unsigned{byte});
            out += code.data();
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out += '"';
}

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

std::string json_line(Clock::time_point time, Level level, long pid, std::string_view message) {
    std::string out = R"({"time":")" + rfc3339(time) + R"(","level":")";
    out += name_of(level);
    out += R"(","pid":)" + std::to_string(pid) + R"(,"message":)";
    append_string(out, message);
    return out + "}";
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
