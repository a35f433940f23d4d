// floor: backends
// Tables of chunks. Input: a table's bytes, which are tried as they are, and with the checksum and what else
// every table has put in order.
#include "tests/fuzz/extent_check.hpp"

namespace {

using namespace tierfs;

void check_again(const ChunkTable& table) {
    auto copy = table;
    AlignedBuffer buffer(kMaxTableBytes);
    encode_chunk_table(copy, buffer.span());
    const auto again = parse_chunk_table(buffer.span(), table.uuid, table.offset);
    fuzz::require(again.has_value() && again->entries.size() == table.entries.size(),
                  "a table is written and read again");
    for (std::size_t i = 0; i < table.entries.size(); ++i) {
        const auto &one = table.entries[i], &other = again->entries[i];
        fuzz::require(one.id == other.id && one.offset == other.offset && one.sums == other.sums &&
                          one.stored_length == other.stored_length && one.object_size == other.object_size &&
                          one.codec == other.codec,
                      "and holds the same");
    }
    // A damaged byte is noticed, wherever it is.
    const auto at = (table.entries.size() * 97 + table.data_bytes / 7) % copy.table_bytes;
    buffer.span()[at] ^= std::byte{0x10};
    fuzz::require(!parse_chunk_table(buffer.span(), table.uuid, table.offset), "a damaged table is none");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto input = std::as_bytes(std::span(data, size));
    if (const auto table = parse_chunk_table(input, fuzz::kUuid, 0)) fuzz::check_table(*table);
    if (const auto name = parse_extent_file_name(fuzz::text_of(data, size))) {
        fuzz::require(extent_file_name(name->number, name->uuid) == fuzz::text_of(data, size),
                      "a name has one meaning");
    }
    std::vector<std::byte> bytes(align_up(std::clamp<std::size_t>(size, 1, kMaxTableBytes)));
    std::copy_n(input.begin(), std::min(size, bytes.size()), bytes.begin());
    fuzz::mend_table(bytes, 1 << 20);
    const auto table = parse_chunk_table(bytes, fuzz::kUuid, 1 << 20);
    if (!table) return 0;
    fuzz::check_table(*table);
    check_again(*table);
    return 0;
}
