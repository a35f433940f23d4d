// Memory of entries: what listings brought of names, for the look-ups that follow.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/nfs/connection.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::nfs {

/// Handles and attributes that came with the names of directories, each for one look-up, within a limit of
/// bytes and no longer than `longest`: who looks up all names of a directory that was just listed need not
/// ask the server for each. The oldest go first, in two generations.
///
/// What this client changes is not answered from here: a change is noted when it is done, and what was asked
/// for before that is worth nothing. Thread-safe.
class EntryMemory {
  public:
    EntryMemory(std::size_t most_bytes, std::chrono::milliseconds longest)
        : most_(most_bytes), longest_(longest) {}

    struct Entry {
        Handle handle;
        struct stat status {};
        Clock::time_point asked;  ///< when the listing was begun
    };
    /// A page of a directory. Those without handle or attributes are left out.
    void keep(const Handle& directory, const std::vector<DirectoryEntry3>& page, Clock::time_point asked);
    /// Takes it out.
    std::optional<Entry> take(const Handle& directory, const std::string& name);

    /// What a call changes: names, and files and directories, as marks of them.
    using Marks = std::vector<std::uint64_t>;
    static Marks changed_by(const Call& call);
    static std::uint64_t mark_of(const Handle& file);
    void note(const Marks& changed);

    /// Bytes that are taken, about.
    [[nodiscard]] std::size_t bytes() const;

  private:
    using Generation = std::unordered_map<std::string, Entry>;
    [[nodiscard]] bool is_changed_since(std::uint64_t mark, Clock::time_point asked) const
        TIERFS_REQUIRES(mutex_);

    const std::size_t most_;
    const std::chrono::milliseconds longest_;
    mutable Mutex mutex_;
    Generation young_ TIERFS_GUARDED_BY(mutex_), old_ TIERFS_GUARDED_BY(mutex_);
    std::size_t young_bytes_ TIERFS_GUARDED_BY(mutex_) = 0, old_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::unordered_map<std::uint64_t, Clock::time_point> changed_ TIERFS_GUARDED_BY(mutex_);
    Clock::time_point worthless_until_ TIERFS_GUARDED_BY(mutex_);  ///< what was asked for till then
};

}  // namespace tierfs::nfs
