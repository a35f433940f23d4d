// The catalog of extents and backing files: their bytes, the open ones, and the one to evict next.
// Internal to tiering/nvme.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/disk/disk_file.hpp"
#include "backends/extent/format.hpp"
#include "config/base/mutex.hpp"
#include "tiering/nvme/backing_file.hpp"
#include "tiering/policy/s3fifo.hpp"
#include "tiering/policy/tier_shares.hpp"

namespace tierfs {

/// What is evicted as a whole: an extent (by number, `high` 0) or a backing file (by content id).
struct Unit {
    bool is_extent = false;
    ContentId id;
    static Unit extent(std::uint64_t number) { return {true, {0, number}}; }
    static Unit file(const ContentId& content) { return {false, content}; }
    friend bool operator==(const Unit&, const Unit&) = default;
};

struct UnitHash {
    std::size_t operator()(const Unit& unit) const noexcept {
        return std::hash<ContentId>()(unit.id) ^ (unit.is_extent ? 0x5851F42D4C957F2DU : 0U);
    }
};

/// An open file whose space comes back only when its last user closes it.
template <typename File>
struct Handle {
    struct Debt {
        std::shared_ptr<std::atomic<std::uint64_t>> used;
        std::atomic<std::uint64_t> owed{0};
        ~Debt() { *used -= owed.load(); }
    };
    Debt debt;  // before `file`: paid after the file is closed
    File file;
    Handle(std::shared_ptr<std::atomic<std::uint64_t>> used, File opened)
        : debt{std::move(used), 0}, file(std::move(opened)) {}
};
using ExtentHandle = Handle<DiskFile>;
using FileHandle = Handle<BackingFile>;

/// Keeps a backing file for readers beside the tier: as long as it lives the policy does not take the file,
/// and the space of one that was dropped nevertheless is owed until then.
struct FilePin {
    std::shared_ptr<FileHandle> dropped;  ///< the debt of a file that was open when it was dropped
    FileHandle::Debt debt;
    std::shared_ptr<std::atomic<std::uint64_t>> pins;
    FilePin(const std::shared_ptr<std::atomic<std::uint64_t>>& used,
            std::shared_ptr<std::atomic<std::uint64_t>> count)
        : debt{used, 0}, pins(std::move(count)) {
        ++*pins;
    }
    ~FilePin() { --*pins; }
    FilePin(const FilePin&) = delete;
    FilePin& operator=(const FilePin&) = delete;
};

/// A bounded set of open files, least recently used first out; those in use stay. Not thread-safe.
template <typename Key, typename File, typename Hash = std::hash<Key>>
class OpenFileSet {
  public:
    explicit OpenFileSet(std::size_t limit) : limit_(limit) {}

    std::shared_ptr<File> find(const Key& key) {
        const auto found = files_.find(key);
        if (found == files_.end()) return nullptr;
        order_.splice(order_.end(), order_, found->second.place);
        return found->second.file;
    }
    /// The files that had to go are returned, so that they are closed after the caller's lock is.
    std::vector<std::shared_ptr<File>> put(const Key& key, std::shared_ptr<File> file) {
        order_.push_back(key);
        files_[key] = Entry{std::move(file), std::prev(order_.end())};
        std::vector<std::shared_ptr<File>> closed;
        for (auto at = order_.begin(); files_.size() > limit_ && at != std::prev(order_.end());) {
            const auto found = files_.find(*at);
            if (found->second.file.use_count() > 1) {
                ++at;
                continue;
            }
            closed.push_back(std::move(found->second.file));
            files_.erase(found);
            at = order_.erase(at);
        }
        return closed;
    }
    std::shared_ptr<File> take(const Key& key) {
        const auto found = files_.find(key);
        if (found == files_.end()) return nullptr;
        auto file = std::move(found->second.file);
        order_.erase(found->second.place);
        files_.erase(found);
        return file;
    }

  private:
    struct Entry {
        std::shared_ptr<File> file;
        typename std::list<Key>::iterator place;
    };
    std::size_t limit_;
    std::list<Key> order_;
    std::unordered_map<Key, Entry, Hash> files_;
};

/// A unit that left the catalog: readers miss it from now on, its bytes still count until `release`.
struct Victim {
    Unit unit;
    ExtentUuid uuid;  ///< of an extent
    DatasetNumber dataset = kUnknownDataset;
    bool main = false;  ///< an extent of the main queue
    std::uint64_t bytes = 0;
    std::shared_ptr<ExtentHandle> extent;  ///< when it was open
    std::shared_ptr<FileHandle> file;
    std::shared_ptr<FilePin> pin;  ///< when it was pinned
};

/// Thread-safe. Opening files happens outside the lock. `used` covers all units, and what is unlinked but
/// still open. Only the writer thread adds, resizes and takes units.
class Catalog {
  public:
    Catalog(std::uint64_t limit, std::filesystem::path extents, std::filesystem::path files);

    [[nodiscard]] std::uint64_t used() const { return used_->load(); }
    [[nodiscard]] std::filesystem::path extent_path(std::uint64_t number, const ExtentUuid& uuid) const {
        return extents_dir_ / extent_file_name(number, uuid);
    }
    [[nodiscard]] const std::filesystem::path& files_dir() const { return files_dir_; }
    [[nodiscard]] const std::filesystem::path& extents_dir() const { return extents_dir_; }

    /// `evictable` false: the extent being written; `seal_extent` makes it evictable. `main`: it holds what
    /// was read often, and enters the policy's main queue.
    void add_extent(std::uint64_t number, const ExtentUuid& uuid, std::uint64_t bytes, bool evictable,
                    DatasetNumber dataset = kUnknownDataset, bool main = false);
    void keep_open(std::uint64_t number, std::shared_ptr<ExtentHandle> handle);
    void seal_extent(std::uint64_t number, std::uint64_t bytes);
    void add_file(const ContentId& id, std::uint64_t bytes, std::shared_ptr<FileHandle> handle,
                  DatasetNumber dataset = kUnknownDataset);
    void resize_file(const ContentId& id, std::uint64_t bytes);

    /// The unit's open file, for reading; of a file counts a use for the policy. (In extents each object is
    /// counted by itself: ReadHeat.) `gone`: there is no such unit. Null and not gone: it cannot be opened,
    /// errno in `error`.
    struct Lookup {
        bool gone = false;
        int error = 0;
    };
    std::shared_ptr<ExtentHandle> extent(std::uint64_t number, std::uint64_t tag, Lookup& lookup);
    /// Whatever its tag; for the writer thread. Nobody's data comes into use by it.
    std::shared_ptr<ExtentHandle> extent_of_number(std::uint64_t number, Lookup& lookup);
    std::shared_ptr<FileHandle> file(const ContentId& id, Lookup& lookup, bool count_use = true);

    /// Pins a file, or joins the pin that there is; counts a use. Nothing when there is no such file.
    struct Pinned {
        std::shared_ptr<FilePin> pin;
        std::uint64_t generation = 0;  ///< of the file: a later one of the same object has another
        bool trusted = false;
    };
    std::optional<Pinned> pin_file(const ContentId& id);
    /// As the pin of a file that was dropped meanwhile: so many bytes are used while it lives.
    std::shared_ptr<FilePin> owe(std::uint64_t bytes);
    [[nodiscard]] bool is_generation(const ContentId& id, std::uint64_t generation) const;
    /// Files that this process did not write from start to end are trusted once somebody verified them whole.
    void trust(const ContentId& id, std::uint64_t generation);
    void distrust(const ContentId& id);
    /// Whether some files cannot be evicted since they are pinned.
    [[nodiscard]] bool has_pins() const { return *pins_ != 0; }

    [[nodiscard]] bool has_extent(std::uint64_t number, std::uint64_t tag) const;
    [[nodiscard]] ExtentUuid uuid(std::uint64_t number) const;  ///< zeros when there is no such extent
    [[nodiscard]] bool has_file(const ContentId& id) const;
    [[nodiscard]] std::uint64_t file_bytes(const ContentId& id) const;
    [[nodiscard]] std::size_t units() const;

    /// Whose data may go for whose. A unit belongs to the dataset that it was written for; one that an
    /// earlier run left, to the first that reads it.
    [[nodiscard]] TierShares& shares() { return shares_; }
    [[nodiscard]] const TierShares& shares() const { return shares_; }
    void retain(DatasetNumber dataset, Retention retention) {
        shares_.set(dataset, retention);
        ++changes_;
    }
    void claim(const Unit& unit, DatasetNumber dataset);
    /// Whether a unit is this dataset's, or becomes it: a file does, an extent if it is `from`'s.
    bool take_over(const Unit& unit, DatasetNumber dataset, DatasetNumber from);
    /// What is this dataset's is nobody's from now on, but for extents that are being written.
    void disown(DatasetNumber dataset);
    /// The same for who comes late: what has been pinned under this number since is left alone.
    void disown_unless_pinned(DatasetNumber dataset);
    [[nodiscard]] DatasetNumber owner(const Unit& unit) const;
    /// Whether there is anything left to claim.
    [[nodiscard]] bool has_unclaimed() const { return shares_.used(kUnknownDataset) > 0; }
    /// What this dataset keeps (TierShares) and nobody has written or read since may go for it from now on.
    void renew(DatasetNumber dataset);
    /// Whether looking for a victim makes sense that may go for `bytes` of this dataset.
    [[nodiscard]] bool may_evict(DatasetNumber dataset, std::uint64_t bytes) const;

    /// What the policy gives up next for `bytes` of `taker`, `keep` excepted. `forced`: of whomever, what is
    /// pinned last. It still serves readers, and is not chosen again; the caller takes it.
    struct Chosen {
        Unit unit;
        ExtentUuid uuid;  ///< of an extent
        DatasetNumber dataset = kUnknownDataset;
        bool main = false;
    };
    std::optional<Chosen> choose_next(const std::optional<Unit>& keep, bool forced, DatasetNumber taker,
                                      std::uint64_t bytes);
    std::optional<Victim> take(const Unit& unit);
    /// After the unlink: the bytes are free, or will be when the last reader closes.
    void release(Victim victim);

    std::shared_ptr<ExtentHandle> make_handle(DiskFile file) const;
    std::shared_ptr<FileHandle> make_handle(BackingFile file) const;

  private:
    struct ExtentInfo {
        ExtentUuid uuid;
        std::uint64_t bytes = 0;
        std::uint64_t renewal = 0;  ///< the one that it was last written or read in
        DatasetNumber dataset = kUnknownDataset;
        bool main = false;
    };
    struct FileInfo {
        std::uint64_t bytes = 0;
        std::uint64_t renewal = 0;
        std::uint64_t generation = 0;  ///< tells a file from a later one of the same object
        DatasetNumber dataset = kUnknownDataset;
        bool trusted = false;
        std::weak_ptr<FilePin> pin;
    };
    /// Of a unit that is here; a zero dataset and no bytes for any other.
    struct UnitInfo {
        DatasetNumber dataset = 0;
        std::uint64_t bytes = 0, renewal = 0;
    };
    std::shared_ptr<ExtentHandle> open_extent(std::uint64_t number, const ExtentUuid& uuid, Lookup& lookup)
        TIERFS_EXCLUDES(mutex_);
    void let_go_of(DatasetNumber dataset) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] Chosen chosen(const Unit& unit) const TIERFS_REQUIRES(mutex_);
    [[nodiscard]] bool is_pinned(const Unit& unit) const TIERFS_REQUIRES(mutex_);
    [[nodiscard]] UnitInfo info(const Unit& unit) const TIERFS_REQUIRES(mutex_);
    [[nodiscard]] bool may_go(const Unit& unit, DatasetNumber taker, std::uint64_t bytes) const
        TIERFS_REQUIRES(mutex_);

    const std::filesystem::path extents_dir_, files_dir_;
    const std::shared_ptr<std::atomic<std::uint64_t>> used_, pins_;
    TierShares shares_;
    std::atomic<std::uint64_t> changes_{1};  ///< of what there is to evict
    struct Renewal {
        std::atomic<bool> stale{false};  ///< there may be units that it found and nobody read since
        std::atomic<std::uint64_t> number{0};
        std::atomic<std::uint64_t> looked{0};  ///< nothing was found for it after so many changes
    };
    std::array<Renewal, kMostDatasets> renewals_;  ///< the last of each dataset
    mutable Mutex mutex_;
    std::unordered_map<std::uint64_t, ExtentInfo> extents_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_map<ContentId, FileInfo> files_ TIERFS_GUARDED_BY(mutex_);
    OpenFileSet<std::uint64_t, ExtentHandle> open_extents_ TIERFS_GUARDED_BY(mutex_);
    OpenFileSet<ContentId, FileHandle> open_files_ TIERFS_GUARDED_BY(mutex_);
    S3Fifo<Unit, UnitHash> policy_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t generation_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t renewal_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs
