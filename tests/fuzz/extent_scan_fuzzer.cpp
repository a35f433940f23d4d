// floor: tiering
// A whole extent file. Input: for each page of the file one byte that says what it is, then bytes that the
// pages are filled with.
#include <fuzzer/FuzzedDataProvider.h>

#include <fstream>

#include "tests/fuzz/extent_check.hpp"
#include "tiering/extent/scan.hpp"

namespace {

using namespace tierfs;

constexpr std::size_t kMostPages = 24;

struct Chunk {
    std::uint64_t at = 0, end = 0;
};

/// Zeros, garbage, a table that is in order as far as its entries are, or a whole good chunk with its data.
std::vector<std::byte> make_file(FuzzedDataProvider& input, std::vector<Chunk>& good, bool& undamaged) {
    std::vector<std::byte> file;
    std::uint32_t number = 0;
    undamaged = true;
    while (file.size() < kMostPages * kDiskAlignment && input.remaining_bytes() > 0) {
        const auto kind = input.ConsumeIntegralInRange<unsigned>(0, 3);
        const std::uint64_t at = file.size();
        if (kind == 3) {
            ChunkTable table;
            table.uuid = fuzz::kUuid;
            table.chunk = number++;
            table.offset = at;
            table.data_bytes = static_cast<std::uint32_t>(kDiskAlignment) *
                               input.ConsumeIntegralInRange<std::uint32_t>(1, 3);
            ChunkEntry entry;
            entry.id = {at, 1};
            entry.object_size = entry.stored_length =
                input.ConsumeIntegralInRange<std::uint32_t>(1, table.data_bytes);
            entry.sums = {7};
            table.entries = {entry};
            AlignedBuffer page(kMaxTableBytes);
            encode_chunk_table(table, page.span());
            file.insert(file.end(), page.data(), page.data() + table.table_bytes);
            file.resize(table.end(), std::byte{0x55});
            good.push_back({at, table.end()});
            continue;
        }
        undamaged = false;
        file.resize(at + kDiskAlignment);
        if (kind == 0) continue;
        const auto bytes =
            input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 256));
        std::memcpy(file.data() + at, bytes.data(), bytes.size());
        if (kind == 2) fuzz::mend_table(std::span(file).subspan(at), at);
    }
    return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::Folder folder;
    const auto path = folder.path() / "extent";
    FuzzedDataProvider input(data, size);
    std::vector<Chunk> good;
    bool undamaged = false;
    const auto bytes = make_file(input, good, undamaged);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const auto file = DiskFile::open(path, {});
    fuzz::require(file.has_value(), "the file opens");
    std::vector<Chunk> found;
    const auto scan = scan_extent(*file, fuzz::kUuid, [&](const ChunkTable& table) {
        fuzz::check_table(table);
        found.push_back({table.offset, table.end()});
        return true;
    });
    fuzz::require(scan.has_value() && scan->chunks == found.size(),
                  "the scan ends, and counts what it calls for");
    std::uint64_t end = 0;
    for (const auto& chunk : found) {
        fuzz::require(chunk.at >= end && chunk.end <= bytes.size(),
                      "chunks follow each other inside the file");
        end = chunk.end;
    }
    fuzz::require(scan->end == end, "the end is that of the last chunk");
    if (undamaged) {
        fuzz::require(found.size() == good.size() && scan->intact && end == bytes.size(),
                      "what is undamaged is found");
    }
    return 0;
}
