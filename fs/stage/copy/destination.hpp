// A folder that a dataset is staged into, with its books in DEST/.tierfs-stage:
//
//   manifest.jsonl              what is staged here (manifest.hpp)
//   journal[-I-of-N].jsonl      what an interrupted run had done; gone after a run that was not (journal.hpp)
//   parts/0 to parts/f          files that are not complete
//   lock, lock-I-of-N           folder_lock.hpp
//   pin                         it is pinned: gc and evict leave it
//   last-used                   its time of change is when the dataset was staged or asked for last
//   last-run.json               figures of the last run
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/stage/copy/book_folder.hpp"
#include "fs/stage/copy/folder_lock.hpp"
#include "fs/stage/copy/journal.hpp"
#include "fs/stage/copy/manifest.hpp"
#include "fs/stage/copy/shape.hpp"

namespace tierfs::stage {

inline constexpr const char* kBooks = ".tierfs-stage";
inline constexpr const char* kManifest = "manifest.jsonl";

/// What lies under a final name.
enum class FinalState : std::uint8_t {
    absent,   ///< nothing
    staged,   ///< what the record says: size and time of change are right
    changed,  ///< the record speaks of it, but somebody changed it since
    foreign   ///< something that no record speaks of, or not a file
};

/// The name of a part in a folder that is held.
struct PartPlace {
    int folder = -1;
    std::string name;
};

/// Opened for one run. The plain members are read-only after open but for what their comments say. Not
/// thread-safe; the descriptors may be used from any thread.
class Destination {
  public:
    struct Options {
        bool create = false;  ///< make the folder and its books
        bool peek = false;    ///< only look, also where nothing is staged or the folder is absent
        bool lock = true;     ///< false: only look (plan, status, verify)
        bool wait = false;    ///< for the lock
        Shard shard;
        std::string source;  ///< of the manifest made with `create`
    };

    /// ENOENT without books and without `create`; EWOULDBLOCK for the lock; EINVAL for a manifest or journal
    /// that cannot be read.
    static Result<Destination> open(const std::string& path, const Options& options, const StopFlag& stop);

    [[nodiscard]] const std::string& path() const { return path_; }
    /// Not where peek found none.
    [[nodiscard]] const BookFolder& books() const { return *books_; }
    [[nodiscard]] bool has_books() const { return books_.has_value(); }
    [[nodiscard]] std::string journal_name() const;

    [[nodiscard]] int root() const { return root_.get(); }
    /// Where a part lies (part_name). Not one of ours: folder -1.
    [[nodiscard]] PartPlace place_of(const std::string& part) const;
    [[nodiscard]] const FileSystemFacts& facts() const { return facts_; }
    [[nodiscard]] const Manifest& manifest() const { return manifest_; }
    [[nodiscard]] const JournalContents& found_journal() const { return found_; }

    /// What lies under the final name of `path`. No symbolic link on the way is followed.
    [[nodiscard]] FinalState state_of(const std::string& path) const;
    [[nodiscard]] FinalState state_of(const std::string& path, const ManifestRecord* record) const;
    [[nodiscard]] const ManifestRecord* record_of(const std::string& path) const;

    /// A record is gone; for who removed the file.
    void forget(const std::string& path) { manifest_.records.erase(path); }

    void remove_part(const std::string& part) const;
    /// Removes parts that the found journals do not speak of, and leaves those in `keep` alone.
    void remove_strange_parts() const;
    /// After a run that has nothing left to do: journals of the run are gone.
    void remove_journals() const;

    /// last-used and, if not empty, last-run.json.
    void note_use(const std::string& last_run) const;

  private:
    Destination() = default;
    Result<void> open_books(const Options& options, const StopFlag& stop);
    Result<void> open_parts(bool make);
    Result<void> load(const Options& options);
    /// Names of the journals of the run.
    [[nodiscard]] std::vector<std::string> journals() const;

    std::string path_;
    FileDescriptor root_;  ///< with peek, the next folder above that is there
    std::array<FileDescriptor, 16> parts_;
    bool exists_ = true;
    FileSystemFacts facts_;
    Shard shard_;
    std::optional<BookFolder> books_;
    std::optional<FolderLock> lock_;
    Manifest manifest_;
    JournalContents found_;
};

/// Name of the part of a file below parts/: depends on what it will hold, so that another version is another
/// part.
std::string part_name(const std::string& path, const std::string& source, const std::string& version);

/// The folders on the way to `path` below `root`, made where absent; opens the last. `made` is set when one
/// was made. No symbolic link is followed: ENOTDIR or ENOENT then.
Result<FileDescriptor> open_parent(int root, const std::string& path, bool create, bool& made);

/// The last component.
std::string name_in_parent(const std::string& path);

/// Removes a file and the folders above it that are empty then, up to the root.
Result<void> remove_below(int root, const std::string& path);

}  // namespace tierfs::stage
