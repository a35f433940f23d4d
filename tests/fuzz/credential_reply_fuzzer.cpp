// floor: backends
// Credentials as a container, an instance, a credential_process (JSON) and STS (XML) give them. Input: the
// body.
#include <algorithm>

#include "backends/s3/client/credential_chain.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;

void check(const Result<s3::ResolvedCredentials>& found) {
    if (!found) {
        fuzz::require(found.error().code == EACCES && !found.error().message.empty(),
                      "an error says what it is");
        return;
    }
    const auto& credentials = found->credentials;
    fuzz::require(!credentials.access_key.empty() && !credentials.secret_key.empty(), "a key has two parts");
    for (const auto& text : {credentials.access_key, credentials.session_token}) {
        fuzz::require(std::none_of(text.begin(), text.end(),
                                   [](char c) { return c == '\r' || c == '\n' || c == '\0'; }),
                      "what goes into a header is one line");
    }
    if (found->expiry) {
        fuzz::require(s3::WallClock::to_time_t(*found->expiry) > -62'200'000'000,
                      "a late year is not an early one");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string body(fuzz::text_of(data, size));
    check(s3::parse_credentials_json(body));
    check(s3::parse_credentials_xml(body));
    return 0;
}
