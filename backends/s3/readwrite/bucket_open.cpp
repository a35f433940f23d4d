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

/// One open of a file. Who reads gets the version that it was opened with, or what this mount put there
/// since; ESTALE once others have put another one there.
class BucketFile final : public PosixFile {
  public:
    BucketFile(PosixBucket& bucket, BucketNodePtr node, bool writes, Facts facts)
        : bucket_(bucket), node_(std::move(node)), writes_(writes), pinned_(std::move(facts)) {
        (void)bucket_.newer(*node_, epoch_);
    }
    ~BucketFile() override { bucket_.closed(node_, writes_); }
    BucketFile(const BucketFile&) = delete;
    BucketFile& operator=(const BucketFile&) = delete;

    Result<std::size_t> read(std::span<std::byte> destination, std::uint64_t offset) override {
        if (const auto draft = bucket_.draft_of(*node_)) return draft->read(destination, offset);
        const auto pinned = this->pinned();
        if (offset >= pinned.size) return std::size_t{0};
        destination = destination.first(
            static_cast<std::size_t>(std::min<std::uint64_t>(destination.size(), pinned.size - offset)));
        const auto path = bucket_.path_of(*node_);
        if (!path) return fail(path.error());
        const auto recent = bucket_.recent()->find(*path, pinned.version);
        if (recent && recent->read(destination, offset)) return destination.size();
        auto read = bucket_.calls().read(*path, pinned.version, offset, destination);
        if (!read)
            return fail(read.error().code == ENOENT ? ESTALE : read.error().code, read.error().message);
        return destination.size();
    }

    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) override {
        return with_draft([&](Draft& draft) { return draft.write(bytes, offset); });
    }
    Result<void> resize(std::uint64_t size) override {
        return with_draft([&](Draft& draft) { return draft.resize(size); });
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

    Result<void> sync(bool /*data_only*/) override { return bucket_.publish(node_); }
    Result<void> flush() override { return writes_ ? bucket_.publish(node_) : Result<void>(); }
    [[nodiscard]] bool awaits_content() override {
        const auto draft = writes_ ? bucket_.draft_of(*node_) : nullptr;
        return draft && draft->awaits_content();
    }
    Result<PosixAttributes> attributes() override { return bucket_.attributes_of(node_); }

  private:
    Facts pinned() {
        const MutexLock lock(mutex_);
        if (auto newer = bucket_.newer(*node_, epoch_)) pinned_ = std::move(*newer);
        return pinned_;
    }
    template <typename Work>
    Result<void> with_draft(Work work) {
        const auto draft = bucket_.draft_of(*node_);
        if (!writes_ || !draft) return fail(EBADF, "the file is not open for writing");
        return work(*draft);
    }

    PosixBucket& bucket_;
    const BucketNodePtr node_;
    const bool writes_;
    Mutex mutex_;
    Facts pinned_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t epoch_ TIERFS_GUARDED_BY(mutex_) = UINT64_MAX;
};

}  // namespace

PosixFilePtr make_bucket_file(PosixBucket& bucket, BucketNodePtr node, bool writes, const Facts& facts) {
    return std::make_shared<BucketFile>(bucket, std::move(node), writes, facts);
}

/// The node's draft, a new one if it has none; the path must be locked.
Result<std::shared_ptr<Draft>> PosixBucket::make_draft(const BucketNodePtr& node) {
    if (auto draft = draft_of(*node)) return draft;
    const auto path = path_of(*node);
    if (!path) return fail(path.error());
    auto now = calls_.head(*path);  // what is changed must be what is there
    if (!now) return fail(now.error().code == ENOENT ? ESTALE : now.error().code, now.error().message);
    if (now->archived) return fail(EACCES, "an archived object must be restored before it is changed");
    known_.put(place(*node), *now);
    auto copy = copies_.make();
    if (!copy) return fail(std::move(copy.error()));
    auto metadata = now->metadata;
    auto draft = std::make_shared<Draft>(calls_, totals_, std::move(*copy), std::move(metadata),
                                         Draft::Base{*path, *now});
    const MutexLock lock(mutex_);
    node->own = std::move(*now);
    node->draft = draft;
    return draft;
}

Result<PosixFilePtr> PosixBucket::open(const PosixNode& held_node, int flags) {
    const auto& node = bucket_node(held_node);
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (!writes && (flags & O_TRUNC) == 0) {
        auto now = facts(node);
        if (!now) return fail(std::move(now.error()));
        {
            const MutexLock lock(mutex_);
            ++node->opens;
        }
        return make_bucket_file(*this, node, false, *now);
    }
    const auto path = path_of(*node);
    if (!path) return fail(path.error());
    std::shared_ptr<Draft> draft;
    {
        const PathLocks::Held held(locks_, {{*path, false}});
        auto made = make_draft(node);
        if (!made) return fail(std::move(made.error()));
        draft = std::move(*made);
        const MutexLock lock(mutex_);
        ++node->opens;
        ++node->writers;
        node->draft = draft;
    }
    auto file = make_bucket_file(*this, node, true, {});
    if ((flags & O_TRUNC) != 0) {
        if (auto cut = draft->resize(0); !cut) return fail(std::move(cut.error()));
    }
    return file;
}

void PosixBucket::put_own(const BucketNodePtr& node, const Facts& facts) {
    known_.put(place(*node), facts);
    const MutexLock lock(mutex_);
    node->own = facts;
    ++node->epoch;
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

/// The object is another host's. What is known of it is out of date.
void PosixBucket::tell_lost_update(const BucketNodePtr& node, const std::string& path) {
    known_.drop(place(*node));
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
    auto facts = draft->publish(path, condition);
    if (!facts) {
        const auto code = facts.error().code;
        if (code == EEXIST || (code == ESTALE && !condition.only_if_version.empty()))
            tell_lost_update(node, path);
        return fail(facts.error().within(path));
    }
    put_own(node, *facts);
    return {};
}

Result<void> PosixBucket::publish(const BucketNodePtr& node) {
    for (;;) {
        auto path = path_of(*node);
        if (!path) return {};  // it has no name any more: nobody will ask for it
        const PathLocks::Held held(locks_, {{*path, false}});
        const auto now = path_of(*node);
        if (!now) return {};
        if (*now != *path) continue;  // renamed meanwhile
        return publish_locked(node, *path);
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
        if (auto done = publish_locked(node, *path); !done)
            log::error("what was written to a file is lost: " + done.error().message);
        keep_recent(node, *draft);
        return let_go(node);
    }
    let_go(node);
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
    const bool is_needed = node->writers != 0 || (node->is_unlinked && node->opens != 0);
    if (is_needed) return;
    given_up = std::move(node->draft);
    node->draft = nullptr;
    if (node->has_object || node->is_unlinked) return;
    // Never published: the name is gone.
    node->is_unlinked = true;
    fresh_.erase(node->inode);
    nodes_.erase(node->inode);
}

}  // namespace tierfs::s3
