// Files that are open; see posix_bucket.hpp.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::uint64_t kMostBroughtHere = std::uint64_t{64} << 20U;

/// One open of a file. Who reads gets the node's object, and what this mount made of it since; ESTALE for what
/// is not to be had of it any more once others have put another one there.
class BucketFile final : public PosixFile {
  public:
    BucketFile(PosixBucket& bucket, BucketNodePtr node, int access, bool writes)
        : bucket_(bucket), node_(std::move(node)), access_(access), writes_(writes) {}
    ~BucketFile() override { bucket_.closed(node_, writes_); }
    BucketFile(const BucketFile&) = delete;
    BucketFile& operator=(const BucketFile&) = delete;

    Result<std::size_t> read(std::span<std::byte> destination, std::uint64_t offset) override {
        if (const auto draft = bucket_.draft_of(*node_)) return draft->read(destination, offset);
        const auto object = bucket_.object_of(*node_);
        if (!object) return fail(object.error());
        const auto& [path, facts] = *object;
        if (offset >= facts.size) return std::size_t{0};
        destination = destination.first(
            static_cast<std::size_t>(std::min<std::uint64_t>(destination.size(), facts.size - offset)));
        const auto recent = bucket_.recent()->find(path, facts.version);
        if (recent && recent->read(destination, offset)) return destination.size();
        auto read = bucket_.calls().read(path, facts.version, offset, destination);
        if (read) return destination.size();
        const bool is_gone = read.error().code == ENOENT || read.error().code == ESTALE;
        if (is_gone) bucket_.doubt(*node_);
        return fail(is_gone ? ESTALE : read.error().code, read.error().message);
    }

    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) override {
        return with_draft([&](Draft& draft) { return draft.write(bytes, offset); });
    }
    Result<void> resize(std::uint64_t size) override {
        return with_draft([&](Draft& draft) { return draft.resize(size); }, size);
    }

    // There is no room to be had in advance: what counts is the size.
    Result<void> allocate(int mode, std::uint64_t offset, std::uint64_t length) override {
        return with_draft([&](Draft& draft) -> Result<void> {
            const auto end = offset + length;
            const bool keeps_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
            const int what = mode & ~FALLOC_FL_KEEP_SIZE;
            if (what != 0 && what != FALLOC_FL_PUNCH_HOLE && what != FALLOC_FL_ZERO_RANGE)
                return fail(EOPNOTSUPP, "a bucket's file cannot be changed so");
            if (what != 0) {
                if (auto cleared = draft.clear(offset, end); !cleared) return cleared;
            }
            return keeps_size || draft.size() >= end ? Result<void>() : draft.resize(end);
        });
    }

    Result<std::uint64_t> seek(std::uint64_t offset, int whence) override {
        const auto now = attributes();
        if (!now) return fail(now.error());
        const auto size = static_cast<std::uint64_t>(now->status.st_size);
        if (offset >= size) return fail(ENXIO, "beyond the end");
        return whence == SEEK_DATA ? offset : size;
    }

    // The kernel reads and writes instead.
    Result<std::uint64_t> copy(std::uint64_t /*offset*/, PosixFile& /*to*/, std::uint64_t /*to_offset*/,
                               std::uint64_t /*length*/) override {
        return fail(EOPNOTSUPP, "ranges cannot be copied in a bucket");
    }

    Result<void> sync(bool /*data_only*/) override { return bucket_.publish(node_, true); }
    Result<void> flush() override { return writes_ ? bucket_.publish(node_, false) : Result<void>(); }
    [[nodiscard]] bool awaits_content() override {
        const auto draft = writes_ ? bucket_.draft_of(*node_) : nullptr;
        return draft && draft->awaits_content();
    }
    Result<PosixAttributes> attributes() override { return bucket_.attributes_of(node_); }
    Result<Renewal> renew(std::uint64_t asked) override { return bucket_.renew_node(node_, asked); }

    // Who reads, too, may map it, and who writes with O_SYNC counts on the journal: such a file is left to the daemon, unless
    // somebody who only writes has it already.
    [[nodiscard]] int descriptor() const override {
        return access_ == O_WRONLY ? bucket_.descriptor_to_pass(*node_) : -1;
    }
    bool pass_through(int descriptor) override { return bucket_.pass_through(*node_, descriptor); }
    [[nodiscard]] bool looks_itself() const override { return true; }

  private:
    template <typename Work>
    Result<void> with_draft(Work work, std::uint64_t at_most = UINT64_MAX) {
        if (!writes_) return fail(EBADF, "the file is not open for writing");
        for (;;) {
            const auto draft = bucket_.draft_to_change(node_, at_most);
            if (!draft) return fail(draft.error());
            auto done = work(**draft);
            // Somebody has synced it in between.
            if (done || done.error().code != Draft::kFrozen) return done;
        }
    }

    PosixBucket& bucket_;
    const BucketNodePtr node_;
    const int access_;
    const bool writes_;
};

}  // namespace

PosixFilePtr make_bucket_file(PosixBucket& bucket, BucketNodePtr node, int access, bool writes) {
    return std::make_shared<BucketFile>(bucket, std::move(node), access, writes);
}

/// The node's draft, a new one if it has none; the path must be locked.
Result<std::shared_ptr<Draft>> PosixBucket::make_draft(const BucketNodePtr& node, bool is_replaced) {
    auto draft = draft_of(*node);
    {
        const MutexLock lock(mutex_);
        if (node->is_local()) return node->draft;
    }
    const auto path = path_of(*node);
    if (!path) return fail(path.error());
    auto now = head_to_change(node, *path, is_replaced);  // what is changed must be what is there
    if (!now) return fail(std::move(now.error()));
    if (draft) {
        draft->renew_metadata(std::move(now->metadata));
        return draft;
    }
    if (now->archived) return fail(EACCES, "an archived object must be restored before it is changed");
    calls_.ask_tags(*path, *now);
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    auto metadata = now->metadata;
    draft = std::make_shared<Draft>(calls_, totals_, std::move(*copy), std::move(metadata),
                                    Draft::Base{*path, *now});
    const MutexLock lock(mutex_);
    node->facts = std::move(*now);
    node->draft = draft;
    return draft;
}

Result<PosixFilePtr> PosixBucket::open(const PosixNode& held_node, int flags) {
    const auto& node = bucket_node(held_node);
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (!writes && (flags & O_TRUNC) == 0) {
        // Where somebody reads it already it cannot be renewed, so that it is looked at before.
        bool is_open = false;
        {
            const MutexLock lock(mutex_);
            is_open = node->opens != 0 && node->standing == BucketNode::Standing::named;
        }
        if (auto now = facts(node, is_open ? Asked::just_now : Asked::lately); !now)
            return fail(std::move(now.error()));
        {
            const MutexLock lock(mutex_);
            if (node->standing == BucketNode::Standing::replaced)
                return fail(ESTALE, "another host has put another object in its place");
            ++node->opens;
        }
        return make_bucket_file(*this, node, O_RDONLY, false);
    }
    const auto path = path_of(*node);
    if (!path) return fail(path.error());
    std::shared_ptr<Draft> draft;
    {
        const PathLocks::Held held(locks_, {{*path, false}});
        auto made = make_draft(node, (flags & O_TRUNC) != 0);
        if (!made) return fail(std::move(made.error()));
        draft = std::move(*made);
        const MutexLock lock(mutex_);
        ++node->opens;
        ++node->writers;
        node->may_be_mapped |= (flags & O_ACCMODE) == O_RDWR;
        if (!node->draft) node->draft = std::move(draft);  // else who writes to it may have gone on already
    }
    auto file = make_bucket_file(*this, node, flags & (O_ACCMODE | O_DSYNC), true);
    if ((flags & O_TRUNC) != 0) {
        if (auto cut = file->resize(0); !cut) return fail(std::move(cut.error()));
    }
    return file;
}

void PosixBucket::put_own(const BucketNodePtr& node, const Facts& facts) {
    const auto place = this->place(*node);
    know(*node, facts);
    births_.changed(place, facts.version, node->birth);
    const MutexLock lock(mutex_);
    node->facts = facts;
    node->has_object = true;
    node->is_exclusive = false;
    fresh_.erase(node->inode);
}

PutOptions PosixBucket::condition_for(const BucketNode& node, Draft& draft) {
    PutOptions condition;
    // Of metadata alone the server makes the new object, out of whatever it has.
    if (exclusive_ && draft.has_base()) condition.only_if_version = draft.base_version();
    const MutexLock lock(mutex_);
    condition.only_if_absent = !node.has_object && (node.is_exclusive || exclusive_);
    return condition;
}

/// The object is another host's, and the name leads to that from now on.
void PosixBucket::tell_lost_update(const BucketNodePtr& node, const std::string& path) {
    known_.drop(place(*node));
    replaced(node);
    {
        const MutexLock lock(mutex_);
        if (std::exchange(node->is_lost_update_told, true)) return;
    }
    log::error(
        path +
        ": another host has written it since it was opened here: its object stays, and what was written "
        "here is kept until the file is closed");
}

Result<void> PosixBucket::publish_locked(const BucketNodePtr& node, const std::string& path) {
    const auto draft = draft_of(*node);
    if (!draft || !draft->is_changed()) return {};
    const auto condition = condition_for(*node, *draft);
    auto still = draft->is_passed_through() ? snapshot_of(*draft) : Draft::Snapshot{draft};
    if (!still) return fail(std::move(still.error()));
    auto facts = still->draft->publish(path, condition);
    if (!facts) {
        const auto code = facts.error().code;
        if (code == EEXIST || (code == ESTALE && !condition.only_if_version.empty()))
            tell_lost_update(node, path);
        return fail(facts.error().within(path));
    }
    if (still->draft != draft) {
        draft->kept(*still);
        still->draft->hand_base_on();
    }
    put_own(node, *facts);
    return {};
}

/// Nobody will ask for what has been unlinked here; what cannot be brought to a name that is another host's now
/// is lost, or has been kept beside it.
Result<void> PosixBucket::publish_nameless(const BucketNodePtr& node) {
    const auto draft = draft_of(*node);
    const bool is_changed = draft && draft->is_changed();
    const MutexLock lock(mutex_);
    const bool is_untold = std::exchange(node->is_conflict_untold, false);
    const bool is_lost = is_untold || (is_changed && node->standing == BucketNode::Standing::replaced);
    return is_lost ? fail(ESTALE, "another host has put another object in its place") : Result<void>();
}

Result<void> PosixBucket::publish(const BucketNodePtr& node, bool is_synced) {
    for (;;) {
        auto path = path_of(*node);
        if (!path) return publish_nameless(node);
        // Too much to be had here before it is acknowledged: the bucket makes the object out of what it has.
        const auto draft = back_ ? draft_of(*node) : nullptr;
        const bool is_through = draft && draft->is_changed() && draft->bytes_elsewhere() > kMostBroughtHere;
        if (is_through) {
            if (auto waited = wait_for_all(); !waited) return waited;
        }
        // Nobody has waited for it before the kernel wrote it, nor before an empty file was made.
        const bool is_new_there = draft && draft->is_changed() && !is_pending(*node);
        if (is_new_there && (draft->is_passed_through() || draft->size() == 0)) {
            if (auto place = wait_for_place(); !place) return place;
        }
        const PathLocks::Held held(locks_, {{*path, false}});
        const auto now = path_of(*node);
        if (!now) return publish_nameless(node);
        if (*now != *path) continue;                    // renamed meanwhile
        if (is_through && is_pending(*node)) continue;  // synced by somebody else meanwhile
        return back_ && !is_through ? acknowledge(node, *path, is_synced) : publish_locked(node, *path);
    }
}

void PosixBucket::closed(const BucketNodePtr& node, bool was_writing) {
    std::shared_ptr<Draft> draft;
    {
        const MutexLock lock(mutex_);
        if (was_writing && --node->writers == 0) draft = node->draft;
    }
    TIERFS_SYNC_POINT("s3.closing");
    while (draft) {
        const auto path = path_of(*node);
        if (!path) break;
        // Until the draft is gone nobody must change what it holds, or open it again.
        const PathLocks::Held held(locks_, {{*path, false}});
        if (const auto now = path_of(*node); !now || *now != *path) continue;
        // Mapped pages are written back after the last close.
        const bool is_here = back_ && draft->bytes_elsewhere() <= kMostBroughtHere;
        auto done = is_here ? acknowledge(node, *path, false) : publish_locked(node, *path);
        if (!done) {
            log::error("what was written to a file is lost: " + done.error().message);
            forget_changes(node);
        }
        keep_recent(node, *draft);
        return let_go(node);
    }
    let_go(node);
}

/// What could not be acknowledged goes with its last writer: the file is what was acknowledged before, as long as the bucket
/// does not have that.
void PosixBucket::forget_changes(const BucketNodePtr& node) {
    std::shared_ptr<Draft> given_up;  // after the lock
    const MutexLock lock(mutex_);
    const bool is_passed = node->draft && node->draft->is_passed_through();  // who reads it has it to the end
    if (node->pending && node->writers == 0 && !is_passed)
        given_up = std::exchange(node->draft, node->pending->draft);
}

/// What nobody writes to any more; the path must be locked, so that nobody begins to.
void PosixBucket::keep_recent(const BucketNodePtr& node, Draft& draft) {
    {
        const MutexLock lock(mutex_);
        if (node->writers != 0) return;
    }
    if (auto copy = draft.whole_copy()) recent_->add(std::move(*copy));
}

void PosixBucket::let_go(const BucketNodePtr& node) {
    std::shared_ptr<Draft> given_up;  // after the lock
    const MutexLock lock(mutex_);
    --node->opens;
    const bool is_unlinked = node->standing == BucketNode::Standing::unlinked;
    if (is_unlinked && node->opens == 0) numbers_.give_back(node->inode);
    // As long as it is open the kernel has the local copy.
    const bool is_passed = node->draft && node->draft->is_passed_through();
    if (is_passed && node->opens == 0 && !is_unlinked && may_still_be_mapped(node)) return;
    if (is_passed && node->opens == 0 && node->pending)
        given_up = std::exchange(node->draft, node->pending->draft);
    if (!is_passed && node->opens == 0) node->may_be_mapped = false;
    const bool is_needed =
        node->writers != 0 || ((is_unlinked || is_passed) && node->opens != 0) || node->pending;
    if (is_needed) return;
    given_up = std::move(node->draft);
    node->draft = nullptr;
    if (node->has_object || is_unlinked) return;
    // Never published: the name is gone.
    node->standing = BucketNode::Standing::unlinked;
    forget_locked(node);
}

}  // namespace tierfs::s3
