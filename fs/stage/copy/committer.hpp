// Gives finished files their final names, many at once.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "config/base/mutex.hpp"
#include "fs/stage/copy/plan.hpp"
#include "fs/stage/copy/reporter.hpp"

namespace tierfs::stage {

/// A part whose bytes are all written, of exact size, with mode and time.
struct FinishedPart {
    CopyJob job;
    FileDescriptor fd;  ///< of the part, or of the final file; none for a symbolic link
    ManifestRecord record;
};

/// A thread for each destination takes what is finished in batches and makes it durable in this order: bytes
/// (fsync, or one syncfs for the batch: XFS then writes its log once instead of once a file), check of the
/// extents, rename, folders, records. So a record speaks only of a file that is whole on the disk under its
/// name, and a name stands only for a whole file. While more is waiting, one syncfs makes durable the names
/// of one batch, the bytes of the next, and the records and the journal's lines before it. Thread-safe.
class Committer {
  public:
    Committer(Destination& destination, ManifestWriter manifest, const Journal& journal,
              const std::string& farm, Reporter& reporter);
    /// Finishes what was given.
    ~Committer();
    Committer(const Committer&) = delete;
    Committer& operator=(const Committer&) = delete;

    /// Waits while very much is waiting.
    void give(FinishedPart part);

    /// Waits until all that was given is done. Idempotent.
    void finish();

    /// Appends records of removed files.
    Result<void> record_removed(const std::vector<ManifestRecord>& records);

  private:
    /// Files that have their names; the names may still be lost by a power cut.
    struct Named {
        std::vector<ManifestRecord> records;
        std::map<std::string, FileDescriptor> folders;  ///< that hold the names, by their paths
        bool is_wide = false;  ///< too many folders, or new ones: only a sync of all makes the names durable
    };

    void run();
    std::vector<FinishedPart> next_batch();
    [[nodiscard]] bool more_is_waiting() const;
    void commit(std::vector<FinishedPart>& batch, Named& named);
    Result<void> sync_all();
    Result<void> sync_each(const std::vector<FinishedPart>& batch) const;
    Result<void> name(FinishedPart& part, Named& named);
    Result<int> folder_of(const std::string& path, Named& named);
    Result<void> sync_names(const Named& named);
    void record(Named& named, bool durably);
    void fail_all(const std::vector<ManifestRecord>& records, const Error& error);
    bool check_shape(FinishedPart& part);

    Destination& destination_;
    ManifestWriter manifest_;
    const Journal& journal_;
    const std::string farm_;
    Reporter& reporter_;

    mutable Mutex mutex_;
    std::condition_variable changed_;
    std::deque<FinishedPart> waiting_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t waiting_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool finishing_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace tierfs::stage
