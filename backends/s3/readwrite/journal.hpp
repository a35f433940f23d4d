// The journal of a write-back mount: a folder of this node that holds what was acknowledged and is not at the bucket yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backends/s3/readwrite/file_metadata.hpp"
#include "backends/s3/readwrite/local_copies.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs::s3 {

/// One thing that is still to be done at the bucket.
struct JournalRecord {
    enum class Kind : std::uint8_t {
        put,    ///< the file's bytes and metadata become the object
        remove  ///< the object goes
    };
    /// What the bucket has at the path before this is done, so that another host's object is never overwritten.
    enum class Expects : std::uint8_t {
        nothing,
        version,
        anything  ///< nobody could tell
    };
    std::uint64_t sequence = 0;  ///< from 1; in the order of acknowledgement
    Kind kind = Kind::put;
    std::string
        path;  ///< relative to the root of the mount; of a directory that is to get its object, with '/'
    Expects expects = Expects::nothing;
    std::string version;      ///< where one is expected
    std::uint64_t after = 0;  ///< what this was made of may know of all up to this sequence
    std::uint64_t first = 0;  ///< the sequence of the first of those whose place it has taken, else its own
    std::int64_t made_ns =
        0;                  ///< wall clock: when the oldest that it stands for was acknowledged; 0: not known
    bool is_light = false;  ///< see WriteBack
    std::uint64_t replaces =
        0;  ///< the sequence of a record that this one has taken the place of; 0: of none
    // Of put:
    FileMetadata metadata = {};
    std::uint64_t size = 0;
    std::string bytes = {};  ///< LocalCopy::name()
    [[nodiscard]] bool is_of_directory() const { return path.ends_with('/'); }
};

/// See above. Layout: journal.path/HASH, a folder for each source, which holds `source` (its identity, for people),
/// `lock`, NUMBER.bytes and SEQUENCE.record (JSON); a record is complete when it has this name. Who finds bytes without a
/// record finds what was never acknowledged, and removes them; a record that makes no sense is put aside as
/// SEQUENCE.damaged, and its bytes stay. Thread-safe. Calls sync the disk.
class Journal {
  public:
    /// Makes the folder, if need be, not its parents: a missing one is a device that is not mounted, most likely. EBUSY:
    /// another mount of the same source uses it, for seconds already.
    static Result<std::unique_ptr<Journal>> open(const std::string& folder, const std::string& identity);
    /// How many records of a source are there, for who mounts it otherwise. Nothing is made.
    static std::uint64_t count(const std::string& folder, const std::string& identity);

    /// A copy with a name in the folder, which goes with its last pointer.
    Result<std::shared_ptr<LocalCopy>> make();
    /// Returns when the record is durable; so is the removal of what it replaces. `copy`: synced; null: of remove.
    Result<void> add(const JournalRecord& record, LocalCopy* copy);
    /// Instead of the record of the same sequence.
    Result<void> change(const JournalRecord& record);
    /// What it stood for has been done. Returns when the record, and each that could not be removed before, is gone for
    /// good; on an error a power cut may bring it back, and nothing may be done that this would contradict.
    Result<void> done(std::uint64_t sequence) TIERFS_EXCLUDES(mutex_);

    struct Found {
        JournalRecord record;
        std::shared_ptr<LocalCopy> copy;  ///< null: of remove
    };
    /// What was in the folder when it was opened, in order; once.
    std::vector<Found> take_found() { return std::move(found_); }
    [[nodiscard]] std::uint64_t last_found() const { return last_found_; }
    [[nodiscard]] const std::string& folder() const { return folder_; }
    /// What its file system has left for others, bytes.
    [[nodiscard]] std::uint64_t free_space() const;
    [[nodiscard]] bool is_half_empty() const;
    /// Why its files cannot be written by the kernel itself while tierfs keeps versions of them: its file system shares no
    /// blocks between files, or does not tell each write from those before by its time. Empty: it does.
    [[nodiscard]] const std::string& against_passthrough() const { return against_passthrough_; }

  private:
    Journal(std::string folder, FileDescriptor directory, FileDescriptor lock)
        : folder_(std::move(folder)),
          directory_(std::make_shared<FileDescriptor>(std::move(directory))),
          lock_(std::move(lock)) {}
    Result<void> look();
    /// EINVAL: it makes no sense, and never will.
    Result<void> find(const std::string& name, std::vector<std::uint64_t>& replaced);
    std::shared_ptr<LocalCopy> copy_of(FileDescriptor file, std::string name);
    Result<void> write(const JournalRecord& record);
    Result<void> sync_folder();
    [[nodiscard]] std::string find_against_passthrough() const;

    const std::string folder_;
    const std::shared_ptr<const FileDescriptor> directory_;  ///< of all copies, which may outlive this
    const FileDescriptor lock_;
    std::atomic<std::uint64_t> made_{0};
    Mutex mutex_;
    std::set<std::uint64_t> leaving_ TIERFS_GUARDED_BY(mutex_);  ///< sequences of records that are to go
    std::string against_passthrough_;
    std::vector<Found> found_;
    std::uint64_t last_found_ = 0;
};

/// A record as text, and back. EINVAL: it makes no sense. Pure.
std::string record_text(const JournalRecord& record);
Result<JournalRecord> parse_record(const std::string& text);

}  // namespace tierfs::s3
