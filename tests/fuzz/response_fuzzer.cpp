// floor: backends
// The head of a reply, and what tierfs makes of it. Input: a line "OFFSET SIZE VERSION" with what was asked
// for, the lines of the head, an empty line, the body.
#include <charconv>

#include "backends/http/header_line.hpp"
#include "backends/http/retry.hpp"
#include "backends/s3/client/head.hpp"
#include "backends/s3/client/verdict.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;

s3::Expectation expectation(std::string_view line) {
    s3::Expectation wanted;
    const auto number = [&](std::uint64_t most) {
        std::uint64_t value = 0;
        const auto blank = std::min(line.find(' '), line.size());
        std::from_chars(line.data(), line.data() + blank, value);
        line.remove_prefix(std::min(blank + 1, line.size()));
        return value % (most + 1);
    };
    wanted.offset = number(INT64_MAX);
    wanted.size = number(std::uint64_t{1} << 40U);
    wanted.version = line;
    return wanted;
}

s3::Target target() {
    s3::Target made;
    made.endpoint = *http::parse_url("http://s3.eu-west-1.amazonaws.com");
    made.bucket = "bucket";
    made.region = "eu-west-1";
    made.aws = true;
    return made;
}

void check_header_values(const http::Response& response) {
    for (const auto& [name, value] : response.headers) {
        fuzz::require(name.find_first_of("\r\n:") != 0 && !name.ends_with(' '),
                      "names of headers are trimmed");
        const auto wait = http::retry_after(value, 1'700'000'000);
        fuzz::require(!wait || (wait->count() >= 0 && *wait <= std::chrono::hours(1)), "waits are bounded");
        (void)http::parse_http_date(value);
        if (const auto range = s3::parse_content_range(value)) {
            fuzz::require(range->first <= range->last, "a range is not empty");
            fuzz::require(!range->total || range->last < *range->total, "a range lies in the object");
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    auto text = fuzz::text_of(data, size);
    const auto wanted = expectation(fuzz::take_line(text));
    http::Response response;
    while (!text.empty()) {
        const auto line = fuzz::take_line(text);
        if (line.empty() || line == "\r") break;
        http::take_header_line(response, std::string(line) + "\r\n");
    }
    fuzz::require(response.status >= 0, "a status is no negative number");
    response.body = text;
    response.received = text.size();
    check_header_values(response);

    if (const auto attributes = s3::attributes_of_head(response, {})) {
        fuzz::require(attributes->size <= static_cast<std::uint64_t>(INT64_MAX), "sizes fit off_t");
        fuzz::require(!attributes->version.empty(), "a file has a version");
        fuzz::require(s3::is_strong_etag(attributes->version) == attributes->version.starts_with('"'),
                      "If-Match gets quoted ETags only");
    }
    const auto judgement = s3::judge(response, wanted, target(), "GET s3://bucket/key");
    if (judgement.verdict != s3::Verdict::good) {
        fuzz::require(judgement.error.code != 0 && !judgement.error.message.empty(),
                      "an error says what it is");
    } else {
        fuzz::require(response.status == 200 || response.status == 206, "only these are good");
        fuzz::require(wanted.size == 0 || response.received == wanted.size, "a good reply is whole");
    }
    return 0;
}
