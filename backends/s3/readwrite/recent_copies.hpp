// Local copies of files that were just written.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "backends/s3/readwrite/byte_ranges.hpp"
#include "backends/s3/readwrite/local_copies.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// All bytes of a version of an object, in a local copy that nobody changes any more.
struct RecentCopy {
    std::string path, version;
    std::uint64_t size = 0;
    std::shared_ptr<const LocalCopy> copy;
};

/// What this mount wrote last, so that who reads it next, and the tiers, get it without asking the bucket.
/// Bounded: those that were read go, then the oldest. Thread-safe.
class RecentCopies {
  public:
    /// Each holds a descriptor.
    static constexpr std::size_t kMost = 128;
    static constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30U;
    /// Of what their file system has free, they take one part in so many at most.
    static constexpr std::uint64_t kShare = 8;
    /// Of those that were read whole, so much stays: a tier does not keep all that it asks for.
    static constexpr std::uint64_t kMostReadBytes = 256 << 20;

    void add(RecentCopy copy) TIERFS_EXCLUDES(mutex_);
    /// Null: there is none of this version.
    std::shared_ptr<const LocalCopy> find(const std::string& path, const std::string& version)
        TIERFS_EXCLUDES(mutex_);
    /// This range of it has been read: when each byte of it has been, the tiers have had their chance, and it is the next
    /// to go.
    void was_read(const std::string& path, const std::string& version, ByteRange range)
        TIERFS_EXCLUDES(mutex_);
    /// It cannot be read.
    void lost(const std::string& path, const std::string& version) TIERFS_EXCLUDES(mutex_);
    /// The server has copied `from_version`: the same bytes under another name or with other metadata, as
    /// another version. What is kept of another version of `from` is let go of.
    void copied(const std::string& from, const std::string& from_version, const std::string& to,
                const std::string& version) TIERFS_EXCLUDES(mutex_);

    void forget(const std::string& path) TIERFS_EXCLUDES(mutex_);
    void clear() TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        RecentCopy copy;
        ByteRanges read;  ///< some of it more than once
        bool is_read = false;
    };
    using Entries = std::list<Entry>;
    Entries::iterator find_locked(const std::string& path) TIERFS_REQUIRES(mutex_);
    void take_out(Entries::iterator entry, Entries& gone) TIERFS_REQUIRES(mutex_);

    Mutex mutex_;
    /// The newest first, behind them those that were read whole; few enough to be looked through.
    Entries entries_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t read_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< of those that were read whole
};

}  // namespace tierfs::s3
