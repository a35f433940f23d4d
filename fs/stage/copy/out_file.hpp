// One file on its way out: what is read, in which state it was, and its checksums.
#pragma once

#include <memory>
#include <optional>

#include "backends/origin/writable_origin.hpp"
#include "config/base/aligned_buffer.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"
#include "fs/stage/copy/manifest.hpp"

namespace tierfs::stage {

/// A regular file of DIR, read past the page cache (O_DIRECT) where the file system allows it; elsewhere what
/// was read is dropped from it. Thread-safe. Errors: errno, with the path; ESTALE: it changed.
class OutSource {
  public:
    /// `root`: of DIR. Symbolic links on the way are not followed.
    static Result<OutSource> open(int root, const std::string& path);

    [[nodiscard]] const Attributes& attributes() const { return attributes_; }

    /// The bytes [offset, offset + size) to the front of `buffer`, which has room for align_up(size).
    Result<void> read(AlignedBuffer& buffer, std::uint64_t offset, std::size_t size) const;

    /// Neither written to nor replaced since open(): else ESTALE.
    Result<void> expect_unchanged(int root) const;

  private:
    OutSource() = default;

    FileDescriptor fd_;
    std::string path_;
    Attributes attributes_;
};

/// Checksums of a whole file whose parts are read side by side. XXH3 wants the bytes in order, so each part
/// waits for those before it; that is over soon, since it costs a hundredth of reading. Thread-safe.
class OutSums {
  public:
    OutSums();
    ~OutSums();
    OutSums(const OutSums&) = delete;
    OutSums& operator=(const OutSums&) = delete;

    /// Part `number` (from 0, each once; all but the last a multiple of kChunkBytes). False: given up.
    bool add(unsigned number, std::span<const std::byte> bytes) TIERFS_EXCLUDES(mutex_);
    /// Wakes who waits: a part will never come.
    void give_up() TIERFS_EXCLUDES(mutex_);

    /// After the last part.
    [[nodiscard]] std::uint64_t xxh3() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] std::vector<std::uint32_t> crc32c() TIERFS_EXCLUDES(mutex_);

  private:
    struct State;
    Mutex mutex_;
    std::condition_variable turn_;
    unsigned next_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool given_up_ TIERFS_GUARDED_BY(mutex_) = false;
    std::vector<std::uint32_t> crc32c_ TIERFS_GUARDED_BY(mutex_);
    const std::unique_ptr<State> state_;  ///< used by whose turn it is
};

/// Clocks of two machines may differ by so many seconds.
inline constexpr std::int64_t kClockSlack = 300;

/// A large file between its first part and its last. The scheduling (out_upload.cpp) owns it.
struct OutJob {
    std::string path;
    OutSource source;
    std::uint64_t size = 0, part_size = 0;
    unsigned parts = 0;
    Upload upload;
    std::int64_t begun_s = 0;  ///< when `upload` was asked for, seconds since 1970; 0: by an earlier run
    PutOptions options;
    std::map<unsigned, UploadPart> there;  ///< what an earlier run sent, by number
    OutSums sums;

    OutJob(std::string name, OutSource file) : path(std::move(name)), source(std::move(file)) {}

    Mutex mutex;
    std::vector<UploadPart> done TIERFS_GUARDED_BY(mutex);      ///< by number
    std::vector<std::string> digests TIERFS_GUARDED_BY(mutex);  ///< MD5 of each part, computed here
    unsigned left TIERFS_GUARDED_BY(mutex) = 0;                 ///< parts that are not finished, well or not
    std::uint64_t sent_bytes TIERFS_GUARDED_BY(mutex) = 0;
    unsigned found_parts TIERFS_GUARDED_BY(mutex) = 0;
    std::optional<Error> failed TIERFS_GUARDED_BY(mutex);
};

}  // namespace tierfs::stage
