#include "fs/session/request_table.hpp"

#include <linux/fuse.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tierfs {

void RequestTable::add(Entry& entry, fuse_req_t raw, const RequestInfo& info, Subject subject) {
    entry.raw_ = raw;
    entry.info_ = info;
    entry.subject_ = std::move(subject);
    Shard& shard = shard_of(entry);
    const MutexLock lock(shard.mutex);
    entry.next_ = shard.first;
    if (shard.first != nullptr) shard.first->previous_ = &entry;
    shard.first = &entry;
}

void RequestTable::describe(Entry& entry, Subject subject) {
    const MutexLock lock(shard_of(entry).mutex);
    entry.subject_ = std::move(subject);
}

void RequestTable::unlink(Shard& shard, Entry& entry) {
    (entry.previous_ != nullptr ? entry.previous_->next_ : shard.first) = entry.next_;
    if (entry.next_ != nullptr) entry.next_->previous_ = entry.previous_;
    entry.previous_ = entry.next_ = nullptr;
    entry.raw_ = nullptr;
}

bool RequestTable::take(Entry& entry) {
    Shard& shard = shard_of(entry);
    const MutexLock lock(shard.mutex);
    if (entry.raw_ == nullptr) return false;
    unlink(shard, entry);
    if (is_metadata(entry.info_.opcode)) metadata_.add(RequestInfo::Clock::now() - entry.info_.since);
    return true;
}

bool RequestTable::mark_interrupted(std::uint64_t unique) {
    for (Shard& shard : shards_) {
        const MutexLock lock(shard.mutex);
        for (Entry* entry = shard.first; entry != nullptr; entry = entry->next_) {
            if (entry->info_.unique != unique) continue;
            entry->interrupted_ = true;
            return true;
        }
    }
    return false;
}

bool RequestTable::wait(Entry& entry, int (*is_interrupted)(fuse_req_t)) {
    const MutexLock lock(shard_of(entry).mutex);
    if (entry.raw_ == nullptr) return true;
    entry.waits_ = true;
    return !entry.interrupted_ && is_interrupted(entry.raw_) == 0;
}

bool RequestTable::end_wait(Entry& entry) {
    const MutexLock lock(shard_of(entry).mutex);
    if (entry.raw_ == nullptr) return false;
    if (std::exchange(entry.waits_, false)) entry.info_.since = RequestInfo::Clock::now();
    return true;
}

fuse_req_t RequestTable::take_interrupted(std::uint64_t unique) {
    for (Shard& shard : shards_) {
        const MutexLock lock(shard.mutex);
        for (Entry* entry = shard.first; entry != nullptr; entry = entry->next_) {
            if (entry->info_.unique != unique) continue;
            if (!entry->waits_ || !entry->interrupted_) return nullptr;
            const fuse_req_t raw = entry->raw_;
            unlink(shard, *entry);
            return raw;
        }
    }
    return nullptr;
}

bool RequestTable::is_there(Entry& entry) {
    const MutexLock lock(shard_of(entry).mutex);
    return entry.raw_ != nullptr;
}

std::vector<RequestTable::Seen> RequestTable::take_if(const Wanted& wanted) {
    std::vector<Seen> taken;
    for (Shard& shard : shards_) {
        const MutexLock lock(shard.mutex);
        for (Entry* entry = shard.first; entry != nullptr;) {
            Entry* const next = entry->next_;
            if (wanted(entry->info_)) {
                taken.push_back(copy(*entry));
                unlink(shard, *entry);
            }
            entry = next;
        }
    }
    return taken;
}

std::vector<RequestTable::Seen> RequestTable::unreported_before(RequestInfo::Clock::time_point limit,
                                                                std::size_t most) {
    std::vector<Seen> seen;
    for (Shard& shard : shards_) {
        const MutexLock lock(shard.mutex);
        for (Entry* entry = shard.first; entry != nullptr && seen.size() < most; entry = entry->next_) {
            if (entry->reported_ || entry->waits_ || entry->info_.since >= limit) continue;
            entry->reported_ = true;
            seen.push_back(copy(*entry));
        }
    }
    return seen;
}

std::vector<std::pair<std::uint64_t, pid_t>> RequestTable::interrupted_or_before(
    RequestInfo::Clock::time_point limit) {
    std::vector<std::pair<std::uint64_t, pid_t>> found;
    for (Shard& shard : shards_) {
        const MutexLock lock(shard.mutex);
        for (Entry* entry = shard.first; entry != nullptr; entry = entry->next_) {
            if (entry->interrupted_ || (entry->info_.since < limit && !entry->waits_))
                found.emplace_back(entry->info_.unique, entry->info_.asker);
        }
    }
    return found;
}

RequestTable::Summary RequestTable::summary() {
    Summary summary;
    for (Shard& shard : shards_) {
        const MutexLock lock(shard.mutex);
        for (Entry* entry = shard.first; entry != nullptr; entry = entry->next_) {
            if (entry->waits_) continue;
            ++summary.under_way;
            summary.oldest = std::min(summary.oldest, entry->info_.since);
        }
    }
    return summary;
}

std::string opcode_name(std::uint32_t opcode) {
    struct Name {
        std::uint32_t opcode;
        const char* name;
    };
    static constexpr std::array kNames{Name{FUSE_LOOKUP, "LOOKUP"},
                                       Name{FUSE_FORGET, "FORGET"},
                                       Name{FUSE_GETATTR, "GETATTR"},
                                       Name{FUSE_READLINK, "READLINK"},
                                       Name{FUSE_OPEN, "OPEN"},
                                       Name{FUSE_READ, "READ"},
                                       Name{FUSE_STATFS, "STATFS"},
                                       Name{FUSE_RELEASE, "RELEASE"},
                                       Name{FUSE_GETXATTR, "GETXATTR"},
                                       Name{FUSE_LISTXATTR, "LISTXATTR"},
                                       Name{FUSE_FLUSH, "FLUSH"},
                                       Name{FUSE_INIT, "INIT"},
                                       Name{FUSE_OPENDIR, "OPENDIR"},
                                       Name{FUSE_READDIR, "READDIR"},
                                       Name{FUSE_RELEASEDIR, "RELEASEDIR"},
                                       Name{FUSE_INTERRUPT, "INTERRUPT"},
                                       Name{FUSE_IOCTL, "IOCTL"},
                                       Name{FUSE_BATCH_FORGET, "BATCH_FORGET"},
                                       Name{FUSE_READDIRPLUS, "READDIRPLUS"},
                                       Name{FUSE_SETATTR, "SETATTR"},
                                       Name{FUSE_WRITE, "WRITE"},
                                       Name{FUSE_CREATE, "CREATE"},
                                       Name{FUSE_TMPFILE, "TMPFILE"},
                                       Name{FUSE_MKNOD, "MKNOD"},
                                       Name{FUSE_MKDIR, "MKDIR"},
                                       Name{FUSE_SYMLINK, "SYMLINK"},
                                       Name{FUSE_LINK, "LINK"},
                                       Name{FUSE_UNLINK, "UNLINK"},
                                       Name{FUSE_RMDIR, "RMDIR"},
                                       Name{FUSE_RENAME, "RENAME"},
                                       Name{FUSE_RENAME2, "RENAME2"},
                                       Name{FUSE_SETXATTR, "SETXATTR"},
                                       Name{FUSE_REMOVEXATTR, "REMOVEXATTR"},
                                       Name{FUSE_FSYNC, "FSYNC"},
                                       Name{FUSE_FSYNCDIR, "FSYNCDIR"},
                                       Name{FUSE_FALLOCATE, "FALLOCATE"},
                                       Name{FUSE_LSEEK, "LSEEK"},
                                       Name{FUSE_GETLK, "GETLK"},
                                       Name{FUSE_SETLK, "SETLK"},
                                       Name{FUSE_SETLKW, "SETLKW"},
                                       Name{FUSE_COPY_FILE_RANGE, "COPY_FILE_RANGE"}};
    const auto found = std::find_if(kNames.begin(), kNames.end(),
                                    [opcode](const Name& name) { return name.opcode == opcode; });
    return found != kNames.end() ? found->name : "request " + std::to_string(opcode);
}

bool takes_its_time(std::uint32_t opcode) {
    switch (opcode) {
        case FUSE_READDIR:
        case FUSE_READDIRPLUS:
        case FUSE_FSYNC:
        case FUSE_FSYNCDIR:
        case FUSE_FALLOCATE:
        case FUSE_COPY_FILE_RANGE:
        case FUSE_SETLKW:
            return true;
        default:
            return false;
    }
}

bool is_metadata(std::uint32_t opcode) {
    switch (opcode) {
        case FUSE_READ:
        case FUSE_WRITE:
        case FUSE_FLUSH:
        case FUSE_RELEASE:
        case FUSE_FSYNC:
        case FUSE_FALLOCATE:
        case FUSE_COPY_FILE_RANGE:
        case FUSE_GETLK:
        case FUSE_SETLK:
        case FUSE_SETLKW:
            return false;
        default:
            return true;
    }
}

bool changes_take_their_time(std::uint32_t opcode) {
    switch (opcode) {
        case FUSE_OPEN:
        case FUSE_WRITE:
        case FUSE_FLUSH:
        case FUSE_RELEASE:
        case FUSE_SETATTR:
        case FUSE_SETXATTR:
        case FUSE_REMOVEXATTR:
        case FUSE_UNLINK:
        case FUSE_RMDIR:
        case FUSE_RENAME:
        case FUSE_RENAME2:
        case FUSE_LINK:
            return true;
        default:
            return takes_its_time(opcode);
    }
}

}  // namespace tierfs
