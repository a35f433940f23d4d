// Files that the kernel writes by itself into their local copies: see Draft and posix_bucket.hpp.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/log.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::chrono::milliseconds kPatienceAtLast{5000}, kBetweenLooks{20};  // for who has the path locked

}  // namespace

Result<Draft::Snapshot> PosixBucket::snapshot_of(Draft& draft) {
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    return draft.snapshot(std::move(*copy));
}

std::string PosixBucket::against_passthrough() const {
    return back_ ? back_->journal().against_passthrough() : "the source is no directory of this machine";
}

/// The local copy of a file that the kernel may write by itself: a journal that fills up makes writers wait, which it
/// cannot. -1: none.
int PosixBucket::descriptor_to_pass(const BucketNode& node) {
    if (!back_ || !back_->journal().against_passthrough().empty()) return -1;
    if (!back_->journal().is_half_empty() || back_->size() >= most_queued_ / 2) return -1;
    if (journal_limit_ != 0 && totals_.dirty_bytes() >= journal_limit_ / 2) return -1;
    std::shared_ptr<Draft> draft;
    {
        const MutexLock lock(mutex_);
        if (node.standing == BucketNode::Standing::named) draft = node.draft;
    }
    return draft && draft->may_pass_through() ? draft->copy()->descriptor() : -1;
}

bool PosixBucket::pass_through(const BucketNode& node, int descriptor) {
    const auto draft = draft_of(node);
    return draft && draft->copy()->descriptor() == descriptor && draft->pass_through();
}

/// The last close of a file whose local copy the kernel had. Who has it mapped for writing may outlive that: as long as
/// somebody does, the copy is the file.
bool PosixBucket::may_still_be_mapped(const BucketNodePtr& node) {
    if (!node->may_be_mapped) return false;
    if (std::find(mapped_.begin(), mapped_.end(), node) == mapped_.end()) mapped_.push_back(node);
    return true;
}

/// What was written through mappings of files that are closed is acknowledged when the last mapping has gone, or `at_last`.
void PosixBucket::look_at_mapped(bool at_last) {
    const auto until = WriteBack::Clock::now() + kPatienceAtLast;
    std::vector<BucketNodePtr> mapped, later;
    {
        const MutexLock lock(mutex_);
        mapped.swap(mapped_);
    }
    for (const auto& node : mapped) {
        bool is_done = acknowledge_mapped(node, at_last);
        while (!is_done && at_last && WriteBack::Clock::now() < until) {
            std::this_thread::sleep_for(kBetweenLooks);
            is_done = acknowledge_mapped(node, at_last);
        }
        if (!is_done) later.push_back(node);
    }
    const MutexLock lock(mutex_);
    mapped_.insert(mapped_.end(), later.begin(), later.end());
}

/// False: not yet.
bool PosixBucket::acknowledge_mapped(const BucketNodePtr& node, bool at_last) {
    const auto path = path_of(*node);
    std::vector<PathLocks::Path> paths{change_of(*node)};
    if (path) paths.push_back({*path, false});
    std::shared_ptr<Draft> draft, given_up;  // the latter after the lock
    bool is_held = false;
    const PathLocks::Held held(locks_, std::move(paths), is_held);
    if (!is_held) return false;
    {
        const MutexLock lock(mutex_);
        draft = node->draft;
        if (!draft || !draft->is_passed_through()) return true;
        if (node->opens != 0) return true;  // its last close is to come
    }
    if (path && path_of(*node).value_or("") != *path) return false;
    if (!at_last && !draft->copy()->is_open_nowhere_else()) return false;
    // A store that a page fault has let in may be later than the time that the fault has moved.
    draft->publish_again();
    const auto done = path ? acknowledge(node, *path, false) : Result<void>();
    const auto code = done ? 0 : done.error().code;
    const bool is_of_room = code == ENOSPC || code == EDQUOT || code == EMFILE || code == ENFILE;
    if (is_of_room && !at_last && !draft->is_broken()) return false;
    if (!done) log::error("what was written to a mapped file is lost: " + done.error().message);
    const MutexLock lock(mutex_);
    if (node->opens != 0) return true;
    node->may_be_mapped = false;
    given_up = std::exchange(node->draft, node->pending ? node->pending->draft : nullptr);
    return true;
}

}  // namespace tierfs::s3
