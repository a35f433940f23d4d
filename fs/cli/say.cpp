#include "fs/cli/say.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>

#include "config/base/log_lines.hpp"

namespace tierfs {
namespace {

bool put(std::FILE* to, const std::string& text) {
    return std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
}

std::string harmless(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const auto end = std::min(text.find('\n', at), text.size());
        out += log::escaped(text.substr(at, end - at));
        if (end < text.size()) out += '\n';
        at = end + 1;
    }
    return out;
}

}  // namespace

bool say(std::FILE* to, std::string_view text) {
    return put(to, harmless(text));
}

bool say_line(std::FILE* to, std::string_view line) {
    return put(to, log::escaped(line) + "\n");
}

bool sayf(std::FILE* to, const char* format, ...) {
    std::va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int size = std::vsnprintf(nullptr, 0, format, arguments);
    va_end(arguments);
    std::string text(size < 0 ? 0 : static_cast<std::size_t>(size), '\0');
    std::vsnprintf(text.data(), text.size() + 1, format, again);
    va_end(again);
    return say(to, text);
}

bool say_json(std::FILE* to, std::string_view dumped) {
    std::string out;
    for (std::size_t i = 0; i < dumped.size(); ++i) {
        const auto byte = static_cast<unsigned char>(dumped[i]);
        const auto next = i + 1 < dumped.size() ? static_cast<unsigned char>(dumped[i + 1]) : 0U;
        if (byte == 0x7f) {
            out += "\\u007f";
        } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
            constexpr std::string_view kHex = "0123456789abcdef";
            out += std::string("\\u00") + kHex[next >> 4U] + kHex[next & 15U];
            ++i;
        } else {
            out += dumped[i];
        }
    }
    return put(to, out + "\n");
}

bool say_exactly(std::FILE* to, std::string_view text) {
    return ::isatty(::fileno(to)) == 1 ? say(to, text) : put(to, std::string(text));
}

void say_over(std::FILE* to, std::string_view line) {
    put(to, "\r\x1b[K" + log::escaped(line));
}

}  // namespace tierfs
