// Waiting for room in the journal, and for what it holds; see posix_bucket.hpp.
#include <algorithm>
#include <cerrno>

#include "backends/s3/readwrite/posix_bucket.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::uint64_t kRoomOfOthers = std::uint64_t{64} << 20U;  // of the journal's file system

}  // namespace

/// Bytes that the journal takes until writers wait.
std::uint64_t PosixBucket::room() const {
    const auto free = back_->journal().free_space(), dirty = totals_.dirty_bytes();
    const auto on_disk = free - std::min(free, kRoomOfOthers);
    return journal_limit_ == 0 ? on_disk
                               : std::min(on_disk, journal_limit_ - std::min(journal_limit_, dirty));
}

bool PosixBucket::is_full() {
    return back_->size() >= most_queued_ || room() == 0;
}

/// Of the journal: what is brought to the bucket gives its room back.
Result<void> PosixBucket::wait_for_room() {
    const auto deadline = WriteBack::Clock::now() + calls_.deadline();
    while (is_full()) {
        back_->hurry();
        const bool has_queue = back_->size() != 0;
        if (has_queue && back_->wait_for_any(deadline)) continue;
        return fail(ENOSPC, "the journal " + back_->journal().folder() + " is full" +
                                (has_queue ? ", and the bucket did not take anything before origin.deadline"
                                           : " of files that are being written: journal.limit"));
    }
    return {};
}

/// Of the queue, each of whose entries holds a descriptor.
Result<void> PosixBucket::wait_for_place() {
    const auto deadline = WriteBack::Clock::now() + calls_.deadline();
    while (back_->size() >= most_queued_) {
        back_->hurry();
        if (!back_->wait_for_any(deadline))
            return fail(ENOSPC, "the journal " + back_->journal().folder() + " holds " +
                                    std::to_string(most_queued_) +
                                    " changes, a quarter of RLIMIT_NOFILE, and the bucket did not take any "
                                    "before origin.deadline");
    }
    return {};
}

Result<void> PosixBucket::wait_for_all() {
    if (!back_) return {};
    return back_->wait_for(back_->hurry(), WriteBack::Clock::now() + calls_.deadline());
}

Result<void> PosixBucket::wait_for_path(const std::string& path) {
    const auto entry = back_ ? back_->at(path) : nullptr;
    if (!entry) return {};
    back_->hurry();
    return back_->wait_for(entry, WriteBack::Clock::now() + calls_.deadline());
}

Result<void> PosixBucket::wait_for_node(const BucketNodePtr& node) {
    WriteBack::EntryPtr pending;
    {
        const MutexLock lock(mutex_);
        pending = node->pending;
    }
    if (!pending) return {};
    back_->hurry();
    return back_->wait_for(pending, WriteBack::Clock::now() + calls_.deadline());
}

}  // namespace tierfs::s3
