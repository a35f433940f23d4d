#include "bench/iobench/report/text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tierfs::iobench {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

bool continues(char c) {
    return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// Bytes of the character that begins at `at`; 0 when it is not UTF-8. The shortest form and the range of
/// each second byte are Unicode's table 3-7.
std::size_t character_at(std::string_view text, std::size_t at) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return 1;
    const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || at + size > text.size()) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if (!continues(text[at + i])) return 0;
    const auto second = static_cast<unsigned char>(text[at + 1]);
    const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool surrogate = first == 0xed && second > 0x9f;
    return overlong || surrogate || (first == 0xf4 && second > 0x8f) ? 0 : size;
}

/// C0, DEL, C1: what a terminal may take for a command.
bool is_control(std::string_view character) {
    const auto first = static_cast<unsigned char>(character[0]);
    return first < 0x20 || first == 0x7f ||
           (first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0);
}

/// Calls `take` with each character; with an empty one for a byte that belongs to none.
template <typename Take>
void for_each_character(std::string_view text, const Take& take) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = character_at(text, at);
        take(text.substr(at, size));
        at += std::max<std::size_t>(size, 1);
    }
}

std::string_view html_of(std::string_view character) {
    if (character == "&") return "&amp;";
    if (character == "<") return "&lt;";
    if (character == ">") return "&gt;";
    if (character == "\"") return "&quot;";
    if (character == "'") return "&#39;";
    return character;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string safe;
    for_each_character(text, [&](std::string_view character) {
        safe += character.empty() || is_control(character) ? kReplacement : character;
    });
    return safe;
}

std::string html(std::string_view text) {
    std::string safe;
    const std::string clean = printable(text);
    for_each_character(clean, [&](std::string_view character) { safe += html_of(character); });
    return safe;
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of("\",\r\n") == std::string_view::npos) return std::string(text);
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted + '"';
}

std::string gnuplot_string(std::string_view text) {
    constexpr std::string_view kHarmless = " .,:+-/=()[]_*";
    std::string safe = "'";
    const std::string clean = printable(text);
    for_each_character(clean, [&](std::string_view character) {
        const char c = character[0];
        const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        const bool stays = character.size() > 1 || letter || kHarmless.find(c) != std::string_view::npos;
        safe += stays ? character : "?";
    });
    return safe + "'";
}

std::size_t length(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string shortened(std::string_view text, std::size_t limit) {
    std::string clean = printable(text);
    std::vector<std::string_view> characters;
    for_each_character(clean, [&](std::string_view character) { characters.push_back(character); });
    if (characters.size() <= limit) return clean;
    const std::size_t head = (limit - 1) / 2, tail = limit - 1 - head;
    std::string cut;
    for (std::size_t i = 0; i < head; ++i) cut += characters[i];
    cut += "…";
    for (std::size_t i = characters.size() - tail; i < characters.size(); ++i) cut += characters[i];
    return cut;
}

std::string number(double value) {
    const double size = std::fabs(value);
    if (value == 0) return "0";
    if (size < 1e-4 || size >= 1e15) {
        char text[40];
        std::snprintf(text, sizeof text, "%.3e", value);
        return text;
    }
    const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
    char text[40];
    std::snprintf(text, sizeof text, "%.*f", std::max(0, 4 - before), value);
    std::string shown = text;
    if (shown.find('.') == std::string::npos) return shown;
    shown.erase(shown.find_last_not_of('0') + 1);
    if (shown.back() == '.') shown.pop_back();
    return shown;
}

std::string ratio_number(double ratio) {
    const double size = std::fabs(ratio);
    char text[40];
    if (size != 0 && (size < 0.1 || size >= 1e6))
        std::snprintf(text, sizeof text, "%.3g", ratio);
    else
        std::snprintf(text, sizeof text, "%.*f", size < 10 ? 3 : size < 100 ? 1 : 0, ratio);
    return text;
}

std::string ratio_text(double ratio, double low, double high) {
    return ratio_number(ratio) + " [" + ratio_number(low) + ", " + ratio_number(high) + "]";
}

std::string columns(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right) {
    std::vector<std::size_t> widths(right.size());
    for (const auto& row : rows)
        for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], length(row[i]));
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < widths.size(); ++i) {
            const std::string blanks(widths[i] - length(row[i]), ' ');
            line += (i == 0 ? "" : "  ") + (right[i] ? blanks + row[i] : row[i] + blanks);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace tierfs::iobench
