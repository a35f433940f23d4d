// Checksums of staged files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/stage/copy/manifest.hpp"

struct XXH3_state_s;

namespace tierfs::stage {

/// XXH3 of a whole file and CRC-32C of its chunks, from its bytes in order. Movable; not thread-safe.
class ContentSums {
  public:
    ContentSums();

    /// What add(data) would make of chunk_crc().
    [[nodiscard]] std::uint32_t chunk_crc_with(std::span<const std::byte> data) const;
    /// The next bytes; they lie within one chunk.
    void add(std::span<const std::byte> data);
    /// The file has ended.
    void end();

    /// Of the chunk under way, from its start to the bytes added last.
    [[nodiscard]] std::uint32_t chunk_crc() const { return crc_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] const std::vector<std::uint32_t>& chunks() const { return chunks_; }
    [[nodiscard]] std::uint64_t xxh3() const;

  private:
    struct Free {
        void operator()(XXH3_state_s* state) const;
    };
    std::unique_ptr<XXH3_state_s, Free> state_;
    std::uint32_t crc_ = 0;
    std::uint64_t bytes_ = 0;
    std::vector<std::uint32_t> chunks_;
};

/// Opens for reading past the page cache, or through it where that is refused. Not through a symbolic link.
Result<FileDescriptor> open_direct(int folder, const std::string& name);

/// Reads the file and compares with the record: "" when all is as recorded, else what is not. `stopped` is
/// asked now and then (ECANCELED); `progress` hears of bytes read.
Result<std::string> compare_content(int fd, const ManifestRecord& record,
                                    const std::function<bool()>& stopped,
                                    const std::function<void(std::uint64_t)>& progress = {});

}  // namespace tierfs::stage
