// floor: fs
// The head of a request to metrics.listen, and the setting itself. Input: either.
#include "config/listen_address.hpp"
#include "fs/observe/http_responder.hpp"
#include "fs/observe/metrics.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto text = fuzz::text_of(data, size);
    const auto answer = answer_http(text, [] { return std::string("a 1\n"); });
    fuzz::require(answer.starts_with("HTTP/1.1 ") && answer.find("\r\n\r\n") != std::string::npos,
                  "an answer has a head");
    const auto value = label("a", text);
    fuzz::require(value.find('\n') == std::string::npos, "a label is one line");
    if (const auto address = parse_listen_address(text)) {
        fuzz::require(
            address->path.empty() ? address->port != 0 && !address->host.empty() : address->path[0] == '/',
            "a path or a host");
    }
    return 0;
}
