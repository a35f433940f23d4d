// floor: backends
// From keys to names, without the XML around them. Input: the listed prefix on a line, then lines "SIZE KEY"
// for objects and "/ KEY" for common prefixes.
#include <charconv>

#include "tests/fuzz/listing_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    auto text = fuzz::text_of(data, size);
    std::string prefix(fuzz::take_line(text));
    if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
    s3::Listing listing;
    while (!text.empty()) {
        const auto line = fuzz::take_line(text);
        const auto blank = std::min(line.find(' '), line.size());
        const std::string key(line.substr(std::min(blank + 1, line.size())));
        if (line.starts_with('/')) {
            listing.prefixes.push_back(key);
            continue;
        }
        s3::ListedObject object;
        object.key = key;
        std::from_chars(line.data(), line.data() + blank, object.size);
        object.mtime_s = static_cast<std::int64_t>(object.size * 0x9E3779B97F4A7C15U);
        listing.objects.push_back(std::move(object));
    }
    fuzz::check_page(listing, prefix);
    return 0;
}
