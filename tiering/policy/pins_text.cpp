#include "tiering/policy/pins_text.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <span>

#include "config/base/crc32c.hpp"

namespace tierfs {
namespace {

constexpr std::string_view kTitle = "tierfs pins ";
constexpr std::string_view kLayout = "1";

std::string sum_of(std::string_view text) {
    std::array<char, 9> digits{};
    std::snprintf(digits.data(), digits.size(), "%08x", crc32c(0, std::as_bytes(std::span(text))));
    return digits.data();
}

std::string escaped(std::string_view path) {
    std::string out;
    for (const char each : path) {
        const auto byte = static_cast<unsigned char>(each);
        if (byte > 0x20 && byte < 0x7f && byte != '%') {
            out += each;
            continue;
        }
        std::array<char, 4> text{};
        std::snprintf(text.data(), text.size(), "%%%02X", byte);
        out += text.data();
    }
    return out;
}

std::optional<std::string> unescaped(std::string_view text) {
    std::string path;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            path += text[at];
            continue;
        }
        unsigned byte = 0;
        if (text.size() - at < 3) return std::nullopt;
        const char* const digits = text.data() + at + 1;
        const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
        if (error != std::errc() || end != digits + 2) return std::nullopt;
        path += static_cast<char>(byte);
        at += 2;
    }
    return path;
}

/// Cuts off what stands before the first `separator`; all of it when there is none.
std::string_view cut(std::string_view& text, char separator) {
    const std::size_t at = text.find(separator);
    const std::string_view word = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return word;
}

bool parse_number(std::string_view text, std::uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

bool parse_pin(std::string_view line, PinTable& pins) {
    PinSize size;
    if (!parse_number(cut(line, ' '), size.files) || !parse_number(cut(line, ' '), size.bytes)) return false;
    auto path = unescaped(line);
    if (!path || path->size() > kLongestPinPath || pins.size() == kMostPins) return false;
    return pins.emplace(std::move(*path), size).second;
}

}  // namespace

std::string format_pins(const PinFile& file) {
    std::string text(kTitle);
    text += std::string(kLayout) + "\nsequence " + std::to_string(file.sequence) + '\n';
    for (const auto& [path, size] : file.pins) {
        text += "pin " + std::to_string(size.files) + ' ' + std::to_string(size.bytes) + ' ' + escaped(path) +
                '\n';
    }
    return text + "end " + sum_of(text) + '\n';
}

Result<PinFile> parse_pins(std::string_view text) {
    const auto damaged = [] { return fail(EBADMSG, "is damaged"); };
    if (!text.starts_with(kTitle) || text.size() > kLargestPinFile) return damaged();
    const std::size_t last = text.rfind("\nend ");
    if (last == std::string_view::npos) return damaged();
    const std::string_view body = text.substr(0, last + 1);
    if (text.substr(last + 1) != "end " + sum_of(body) + '\n') return damaged();
    std::string_view rest = body.substr(kTitle.size());
    if (cut(rest, '\n') != kLayout) return fail(EPROTO, "was written by another version of tierfs");
    PinFile file;
    while (!rest.empty()) {
        std::string_view line = cut(rest, '\n');
        const std::string_view word = cut(line, ' ');
        if (word == "sequence" && !parse_number(line, file.sequence)) return damaged();
        if (word == "pin" && !parse_pin(line, file.pins)) return damaged();
    }
    return file;
}

}  // namespace tierfs
