#include "backends/extent/scan.hpp"

#include <algorithm>

namespace tierfs {

Result<ExtentScan> scan_extent(const DiskFile& file, const ExtentUuid& uuid,
                               const std::function<bool(const ChunkTable&)>& each) {
    const auto sizes = file.sizes();
    if (!sizes) return fail(sizes.error());
    AlignedBuffer buffer(kMaxTableBytes);
    ExtentScan scan;
    bool searching = false;
    std::uint64_t at = 0;
    while (at + kDiskAlignment <= sizes->size) {
        const auto first = file.read(buffer.span().first(kDiskAlignment), at);
        if (!first) return fail(first.error());
        if (*first < kDiskAlignment) break;
        const auto page = buffer.span().first(kDiskAlignment);
        const auto length = chunk_table_length(page, uuid, at);
        std::optional<ChunkTable> table;
        if (length && *length > kDiskAlignment) {
            const auto rest = file.read(buffer.span().subspan(kDiskAlignment, *length - kDiskAlignment),
                                        at + kDiskAlignment);
            if (!rest) return fail(rest.error());
            if (*rest == *length - kDiskAlignment) {
                table = parse_chunk_table(buffer.span().first(*length), uuid, at);
            }
        } else if (length) {
            table = parse_chunk_table(page, uuid, at);
        }
        if (table && table->end() <= sizes->size) {
            scan.end = table->end();
            ++scan.chunks;
            searching = false;
            if (!each(*table)) return scan;
            at = table->end();
            continue;
        }
        if (!searching) {
            const bool zero =
                std::all_of(page.begin(), page.end(), [](std::byte b) { return b == std::byte{0}; });
            if (zero) break;  // where the writer stopped
            scan.intact = false;
            searching = true;
        }
        at += kDiskAlignment;
    }
    return scan;
}

}  // namespace tierfs
