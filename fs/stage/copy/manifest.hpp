// fs/stage/copy/: what tierfs-stage does. Writes copies of datasets in the shape that direct readers want,
// and keeps the books about them. fs/stage/ (the command line) calls it, nobody else.
//
// manifest.hpp: the book of what is where. A text file of JSON lines: first a header with the format's name
// and version, then records, each appended whole; of one path the last record counts.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/stage/copy/book_folder.hpp"

namespace tierfs::stage {

/// Checksums, the journal and repeated work count in chunks of this many bytes of a file; the last is
/// shorter.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{16} << 20;

inline constexpr std::string_view kManifestFormat = "tierfs-stage-manifest";
inline constexpr unsigned kManifestVersion = 1;

/// `staged`: whole, checked, under its final name. `removed`: it was taken away again (evict, --delete).
enum class RecordState : std::uint8_t { staged, removed };

/// One file. A plain value.
struct ManifestRecord {
    std::string path;            ///< relative to the folder that the manifest is about; any bytes but NUL
    std::uint64_t size = 0;      ///< bytes
    std::string source;          ///< where the bytes came from: Origin::identity(), or a URL
    std::string source_version;  ///< Attributes::version of the bytes
    std::int64_t mtime_ns = 0;
    std::uint32_t mode = 0444;          ///< permission bits
    std::string link;                   ///< the target of a symbolic link; empty for a file
    std::uint64_t xxh3 = 0;             ///< XXH3, 64 bits, seed 0, of the whole content
    std::vector<std::uint32_t> crc32c;  ///< of each chunk of kChunkBytes
    std::string device;                 ///< "MAJOR:MINOR" of the file system it lies on; may be empty
    std::uint32_t extents = 0;          ///< as FIEMAP counted them; 0: not known
    std::int64_t time = 0;              ///< of the record, seconds since 1970
    RecordState state = RecordState::staged;

    bool operator==(const ManifestRecord&) const = default;
};

/// The first line.
struct ManifestHeader {
    std::string
        source;  ///< the dataset: Origin::identity() of what is staged here; for `out` the destination
    std::string created_by = TIERFS_VERSION;
    std::map<std::string, std::string> more;  ///< further members with text values, kept as they are

    bool operator==(const ManifestHeader&) const = default;
};

/// One line each, with its newline. Bytes that are no UTF-8 go as "path_hex" instead of "path" (and
/// link_hex).
std::string to_line(const ManifestHeader& header);
std::string to_line(const ManifestRecord& record);

/// EINVAL with what is wrong. `line` without its newline; hostile input is refused, never trusted: a path
/// that is absolute or has empty, "." or ".." components, a number of checksums that does not fit the size.
Result<ManifestHeader> parse_header(std::string_view line);
Result<ManifestRecord> parse_record(std::string_view line);

/// A path that may stand in a record.
bool is_clean_path(std::string_view path);

/// What a manifest says now.
struct Manifest {
    ManifestHeader header;
    std::map<std::string, ManifestRecord, std::less<>> records;  ///< by path; removed ones are left out
    std::uint64_t good_bytes = 0;  ///< length of the file without a torn last line

    /// ENOENT: there is none. EINVAL "FILE:LINE: ..." for a line that is no record; a last line without a
    /// newline was torn by a kill and is left out. Reading costs memory in proportion to the records.
    static Result<Manifest> load(const BookFolder& books, const std::string& name);
};

/// Appends to a manifest. Not thread-safe; several processes may append to one file (O_APPEND, one write a
/// call). Errors: errno of the call, with the path.
class ManifestWriter {
  public:
    /// Opens, or makes with this header (durably, by a rename). A torn last line is cut off: the
    /// caller holds the lock of the folder.
    static Result<ManifestWriter> open(const BookFolder& books, const std::string& name,
                                       const ManifestHeader& header);

    /// All records in one write.
    Result<void> append(std::span<const ManifestRecord> records);
    /// fdatasync(2): what was appended survives a power cut.
    Result<void> sync();

  private:
    ManifestWriter(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    FileDescriptor fd_;
    std::string path_;
};

}  // namespace tierfs::stage
