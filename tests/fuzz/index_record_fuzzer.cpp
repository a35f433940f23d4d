// floor: tiering
// Records of the index and of the NVMe tier's locations. Input: the kind of the record, then its bytes.
#include "tests/fuzz/fuzz.hpp"
#include "tiering/index/format.hpp"
#include "tiering/nvme/location.hpp"

namespace {

using namespace tierfs;
using namespace tierfs::index_format;

/// What was decoded encodes to the very bytes: there is one way to write a record.
template <typename Record, typename Encode>
void check(const std::optional<Record>& record, std::string_view bytes, Encode encode) {
    if (record) fuzz::require(encode(*record) == bytes, "a record is written as it was read");
}

void check_listing(std::string_view bytes) {
    const auto record = decode_listing(bytes);
    if (!record) return;
    // Reasons may come in any order, and twice: what stays is what matters.
    const auto again = decode_listing(encode(*record));
    fuzz::require(again && again->hidden == record->hidden && again->entries == record->entries &&
                      again->listed_ns == record->listed_ns,
                  "a record is written and read again");
}

void check_keys(std::string_view key) {
    if (const auto id = parse_location_key(key))
        fuzz::require(location_key(*id) == key, "a key has one meaning");
    for (const char kind : {kNames, kListings, kNodes}) {
        const auto number = parse_number_key(kind, key);
        if (number) fuzz::require(key.starts_with(number_key(kind, *number)), "a key begins with its number");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto bytes = fuzz::text_of(data, size).substr(1);
    const auto encoded = [](const auto& record) { return encode(record); };
    switch (data[0]) {
        case 'N':
            check(decode_name(bytes), bytes, encoded);
            break;
        case 'I':
            check(decode_node(bytes), bytes, encoded);
            break;
        case 'D':
            check_listing(bytes);
            break;
        case 'L':
            if (const auto location = Location::decode(bytes)) {
                fuzz::require(Location::decode(location->encode()) == location,
                              "a location is written and read again");
            }
            break;
        case 'M':
            check(decode_layout(bytes), bytes, encode_layout);
            check(decode_next_node(bytes), bytes, encode_next_node);
            break;
        default:
            check_keys(bytes);
    }
    return 0;
}
