// floor: backends
// ListObjectsV2's XML, from the wire to a directory's names. Input: the listed prefix on a line, then the
// body.
#include "tests/fuzz/listing_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    auto body = fuzz::text_of(data, size);
    std::string prefix(fuzz::take_line(body));
    if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
    const auto listing = s3::parse_listing(body);
    if (!listing) {
        fuzz::require(listing.error().code == EIO && !listing.error().message.empty(),
                      "an error says what it is");
        return 0;
    }
    for (const auto& object : listing->objects) {
        fuzz::require(object.size <= static_cast<std::uint64_t>(INT64_MAX), "sizes fit off_t");
    }
    fuzz::check_page(*listing, prefix);
    return 0;
}
