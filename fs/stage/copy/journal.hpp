// The journal of an interrupted run, so that the next one does nothing again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/stage/copy/book_folder.hpp"
#include "fs/stage/copy/manifest.hpp"

namespace tierfs::stage {

/// A range of a part that was written. `crc32c` is of the chunk (kChunkBytes) it lies in, from the chunk's
/// start to the range's end: so the sum of the whole chunk need not be computed a second time.
struct PieceMark {
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t crc32c = 0;

    bool operator==(const PieceMark&) const = default;
};

/// A file that was not complete.
struct UnfinishedPart {
    std::string path, source_version;
    std::uint64_t size = 0;
    std::map<std::uint64_t, PieceMark> pieces;  ///< by offset
};

/// What a journal says. It is believed only as far as the bytes of the part have the checksums.
struct JournalContents {
    std::map<std::string, UnfinishedPart> parts;  ///< by the part's name
    /// All bytes written; it may have its final name already, or not.
    std::map<std::string, ManifestRecord> whole;
    std::uint64_t damaged_lines = 0;  ///< left out; what they were about is copied again

    /// Adds what the book says; nothing where there is none. Errors of reading with the path.
    Result<void> load(const BookFolder& books, const std::string& name);
};

/// Appends to a journal. Thread-safe: each call is one write with O_APPEND. Lines are on the disk when the
/// file system is synced; after a kill they are there anyway. Errors: errno of the call, with the path.
class Journal {
  public:
    static Result<Journal> open(const BookFolder& books, const std::string& name);

    Result<void> begin(const std::string& part, const UnfinishedPart& file) const;
    Result<void> piece(const std::string& part, const PieceMark& mark) const;
    Result<void> whole(const std::string& part, const ManifestRecord& record) const;
    [[nodiscard]] Result<void> sync() const;

  private:
    Journal(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    [[nodiscard]] Result<void> append(const std::string& line) const;

    FileDescriptor fd_;
    std::string path_;
};

}  // namespace tierfs::stage
