#include "backends/http/header_line.hpp"

#include <algorithm>
#include <charconv>

namespace tierfs::http {
namespace {

std::string_view trimmed(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

void take_header_line(Response& response, std::string_view line) {
    if (line.starts_with("HTTP/")) {  // a new reply: what came before was a 1xx
        response.headers.clear();
        response.status = 0;
        const auto space = line.find(' ');
        if (space != std::string_view::npos) {
            const auto digits = line.substr(space + 1);
            std::from_chars(digits.data(), digits.data() + digits.size(), response.status);
            response.status = std::max(response.status, 0);  // from_chars takes a minus sign
        }
        return;
    }
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return;
    std::string name(trimmed(line.substr(0, colon)));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    response.headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
}

}  // namespace tierfs::http
