// Drafts that the kernel writes by itself: see draft.hpp.
#include <algorithm>
#include <cerrno>

#include "backends/s3/readwrite/draft.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs::s3 {

bool Draft::may_pass_through() {
    const MutexLock lock(mutex_);
    return !is_frozen_ && !broken_ && base_limit_ == 0 && gone_.count() == 0 && parts_.empty() && !upload_;
}

bool Draft::pass_through() {
    const Turn turn(*this);
    if (!may_pass_through()) return false;
    // Zeros at the end need not have been written.
    if (!is_passed_ && !copy_->resize(size())) return false;
    const MutexLock lock(mutex_);
    const auto now = copy_->stamp();
    if (!now || is_frozen_) return false;
    if (!is_passed_) seen_ = *now;
    is_passed_.store(true, std::memory_order_release);
    return true;
}

/// Takes in what the kernel has made of the local copy. Each write moves its time before it moves a byte, and what is told
/// of by a time that was looked at has another one the next time.
void Draft::look() {
    if (!is_passed_) return;
    const auto now = copy_->stamp();
    if (!now && !broken_) broken_ = now.error();
    if (!now || *now == seen_) return;
    seen_ = *now;
    size_ = now->size;
    bytes_have_changed(size_, now->changed_ns);
}

bool Draft::is_broken() {
    const MutexLock lock(mutex_);
    return broken_.has_value();
}

std::int64_t Draft::written_ns() {
    const MutexLock lock(mutex_);
    look();
    return seen_.changed_ns;
}

// The time is looked at before the blocks are shared. A write that began before that has moved it already, and the file
// system shares no block while one is under way; one that begins later moves it again, and counts as a change whether the
// snapshot has its bytes or not.
Result<Draft::Snapshot> Draft::snapshot(std::shared_ptr<LocalCopy> copy) {
    const Turn turn(*this);
    FileMetadata metadata;
    Snapshot made;
    {
        const MutexLock lock(mutex_);
        look();
        if (broken_) return fail(*broken_);
        metadata = metadata_;
        made.changes = changes_;
    }
    TIERFS_SYNC_POINT("s3.draft.sharing");
    const auto size = copy_->share_with(*copy);
    // An error of writing back is told once, and a second snapshot would find nothing wrong.
    if (auto good = copy_->is_written_back(); !good) return fail(failed(std::move(good.error())).error());
    if (!size) return fail(size.error());
    if (auto synced = copy->sync(); !synced) return fail(std::move(synced.error()));
    if (*size > PartSizes::kLargestObject) return fail(EFBIG, "an object has 5 TiB at most");
    made.draft = std::make_shared<Draft>(calls_, totals_, std::move(copy), std::move(metadata), *size);
    const MutexLock lock(made.draft->mutex_);
    made.draft->is_frozen_ = true;
    made.draft->next_ = weak_from_this();
    return made;
}

void Draft::kept(const Snapshot& snapshot) {
    const MutexLock lock(mutex_);
    if (changes_ != snapshot.changes) return;
    bytes_changed_ = metadata_changed_ = false;
    unpublished_ = 0;
    totals_.set_clean(this);
}

}  // namespace tierfs::s3
