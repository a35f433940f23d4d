#include "backends/s3/readwrite/recent_copies.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tierfs::s3 {

RecentCopies::Entries::iterator RecentCopies::find_locked(const std::string& path) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const Entry& entry) { return entry.copy.path == path; });
}

void RecentCopies::take_out(Entries::iterator entry, Entries& gone) {
    bytes_ -= entry->copy.size;
    if (entry->is_read) read_bytes_ -= entry->copy.size;
    gone.splice(gone.end(), entries_, entry);
}

// Files are closed, which gives their room back, after the lock.
void RecentCopies::add(RecentCopy copy) {
    const auto free = copy.copy->free_space();
    const auto size = copy.size;
    Entries gone;
    const MutexLock lock(mutex_);
    if (const auto old = find_locked(copy.path); old != entries_.end()) take_out(old, gone);
    // What they hold would be free without them.
    const auto limit = std::min(kMostBytes, (free + bytes_ + size) / kShare);
    if (size == 0 || size > limit) return;
    entries_.push_front({std::move(copy), {}, false});
    bytes_ += size;
    while (bytes_ > limit || entries_.size() > kMost) take_out(std::prev(entries_.end()), gone);
}

std::shared_ptr<const LocalCopy> RecentCopies::find(const std::string& path, const std::string& version) {
    const MutexLock lock(mutex_);
    const auto found = find_locked(path);
    return found != entries_.end() && found->copy.version == version ? found->copy.copy : nullptr;
}

void RecentCopies::was_read(const std::string& path, const std::string& version, ByteRange range) {
    Entries gone;
    const MutexLock lock(mutex_);
    const auto found = find_locked(path);
    if (found == entries_.end() || found->copy.version != version || found->is_read) return;
    found->read.add(range.begin, range.end);
    if (!found->read.covers(0, found->copy.size)) return;
    found->is_read = true;
    read_bytes_ += found->copy.size;
    const auto first_read = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.is_read && &entry != &*found;
    });
    entries_.splice(first_read, entries_, found);
    while (read_bytes_ > kMostReadBytes) take_out(std::prev(entries_.end()), gone);
}

void RecentCopies::lost(const std::string& path, const std::string& version) {
    Entries gone;
    const MutexLock lock(mutex_);
    const auto found = find_locked(path);
    if (found != entries_.end() && found->copy.version == version) take_out(found, gone);
}

void RecentCopies::copied(const std::string& from, const std::string& from_version, const std::string& to,
                          const std::string& version) {
    Entries gone;
    const MutexLock lock(mutex_);
    const auto replaced = from == to ? entries_.end() : find_locked(to);
    if (replaced != entries_.end()) take_out(replaced, gone);
    const auto found = find_locked(from);
    if (found == entries_.end()) return;
    if (found->copy.version != from_version) return take_out(found, gone);
    found->copy.path = to;
    found->copy.version = version;
}

void RecentCopies::forget(const std::string& path) {
    Entries gone;
    const MutexLock lock(mutex_);
    if (const auto found = find_locked(path); found != entries_.end()) take_out(found, gone);
}

void RecentCopies::clear() {
    Entries gone;
    const MutexLock lock(mutex_);
    gone.swap(entries_);
    bytes_ = read_bytes_ = 0;
}

}  // namespace tierfs::s3
