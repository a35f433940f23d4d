// floor: backends
// A whole extent file. Input: for each page of the file one byte that says what it is, then bytes that the
// pages are filled with.
#include "backends/extent/scan.hpp"
#include "tests/fuzz/extent_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    static const fuzz::Folder folder;
    const auto path = folder.path() / "extent";
    FuzzedDataProvider input(data, size);
    std::vector<fuzz::GoodChunk> good;
    bool undamaged = false;
    const auto bytes = fuzz::make_extent(input, good, undamaged);
    fuzz::write_file(path, bytes);
    const auto file = DiskFile::open(path, {});
    fuzz::require(file.has_value(), "the file opens");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    const auto scan = scan_extent(*file, fuzz::kUuid, [&](const ChunkTable& table) {
        fuzz::check_table(table);
        found.emplace_back(table.offset, table.end());
        return true;
    });
    fuzz::require(scan.has_value() && scan->chunks == found.size(),
                  "the scan ends, and counts what it calls for");
    std::uint64_t end = 0;
    for (const auto& chunk : found) {
        fuzz::require(chunk.first >= end && chunk.second <= bytes.size(),
                      "chunks follow each other inside the file");
        end = chunk.second;
    }
    fuzz::require(scan->end == end, "the end is that of the last chunk");
    if (undamaged) {
        fuzz::require(found.size() == good.size() && scan->intact && end == bytes.size(),
                      "what is undamaged is found");
    }
    return 0;
}
