// Modes, owners, times and extended attributes; see posix_bucket.hpp.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {

namespace {

void set_time(std::int64_t& time, const struct timespec& wanted) {
    if (wanted.tv_nsec == UTIME_OMIT) return;
    time = wanted.tv_nsec == UTIME_NOW ? wall_clock_ns() : to_ns(wanted.tv_sec, wanted.tv_nsec);
}

Result<void> check_name(const std::string& name) {
    constexpr std::string_view kUser = "user.";
    if (!name.starts_with(kUser)) return fail(EOPNOTSUPP, "a bucket keeps attributes of users alone");
    if (name.size() == kUser.size()) return fail(EINVAL, "the attribute has no name");
    return {};
}

/// Whether a version may be the digest of the bytes, which copies have, too.
bool is_md5(const std::string& version) {
    constexpr std::size_t kQuotedDigits = 34;
    return version.size() == kQuotedDigits && is_strong_etag(version);
}

Result<void> change_draft(Draft& draft, const std::function<Result<void>(FileMetadata&)>& change) {
    auto metadata = draft.metadata();
    if (auto done = change(metadata); !done) return done;
    draft.set_metadata(std::move(metadata));
    return {};
}

}  // namespace

Result<void> PosixBucket::change(const PosixNode& held, const Change& change) {
    const auto& node = bucket_node(held);
    const Change with_time = [&](FileMetadata& metadata) {
        auto done = change(metadata);
        if (done) metadata.ctime_ns = wall_clock_ns();
        return done;
    };
    return S_ISDIR(node->type) ? change_directory(node, with_time) : change_file(node, with_time);
}

Result<void> PosixBucket::change_directory(const BucketNodePtr& node, const Change& change) {
    const auto path = path_of(*node);
    if (!path) return fail(path.error());
    for (;;) {
        {
            const PathLocks::Held held(locks_, {{*path, false}, change_of(*node)});
            if (path->empty() && !calls_.has_prefix()) return change_root(change);
            const auto draft = draft_of(*node);
            if (!draft) return change_marker(node, marker_of(*path), change);
            // The bucket does not have it yet.
            auto done = amend(node, *draft, [&](Draft& its) { return change_draft(its, change); });
            if (done || done.error().code != EINPROGRESS) return done;
        }
        if (auto waited = wait_for_node(node); !waited) return waited;
    }
}

Result<void> PosixBucket::change_marker(const BucketNodePtr& node, const std::string& marker,
                                        const Change& change) {
    constexpr unsigned kAttempts = 3;
    for (unsigned attempt = 1;; ++attempt) {
        auto now = calls_.head(marker);
        const bool has_marker = static_cast<bool>(now);
        if (!now && now.error().code == ENOENT) now = facts(node);
        if (!now) return fail(std::move(now.error()));
        auto metadata = now->metadata;
        if (auto done = change(metadata); !done) return done;
        PutOptions condition;
        condition.only_if_absent = true;
        // What others gave the marker stays: its bytes, its headers.
        auto made = has_marker ? calls_.copy(marker, *now, marker, metadata)
                               : calls_.put_text(marker, "", metadata, condition);
        const bool is_raced = !made && (made.error().code == EEXIST || made.error().code == ESTALE);
        if (is_raced && attempt < kAttempts) continue;
        if (!made) return fail(std::move(made.error()));
        now->metadata = std::move(metadata);
        now->has_marker = true;
        known_.put(place(*node), std::move(*now));
        return {};
    }
}

/// There can be no object for it: what is set holds as long as the mount.
Result<void> PosixBucket::change_root(const Change& change) {
    auto now = root_facts();
    if (!now) return fail(std::move(now.error()));
    if (auto done = change(now->metadata); !done) return done;
    const MutexLock lock(mutex_);
    root_->facts = std::move(*now);
    return {};
}

Result<void> PosixBucket::change_file(const BucketNodePtr& node, const Change& change) {
    for (;;) {
        auto done = change_file_now(node, change);
        if (done || done.error().code != EINPROGRESS || !back_) return done;
        // What is on its way to the bucket has the old metadata.
        if (auto waited = wait_for_node(node); !waited) return waited;
    }
}

/// EINPROGRESS: see amend().
Result<void> PosixBucket::change_file_now(const BucketNodePtr& node, const Change& change) {
    const auto in_draft = [&](Draft& draft) { return change_draft(draft, change); };
    const auto path = path_of(*node);
    if (!path) {
        const MutexLock lock(mutex_);
        if (node->standing != BucketNode::Standing::unlinked) return fail(path.error());
        return node->draft ? in_draft(*node->draft) : Result<void>();  // nobody will ask for it
    }
    const PathLocks::Held held(locks_, {{*path, false}, change_of(*node)});
    if (draft_of(*node)) {
        const auto made = make_draft(node);  // of what is there
        if (!made) return fail(made.error());
        const auto& draft = *made;
        if (draft->is_frozen()) return amend(node, *draft, in_draft);
        // Who writes to it makes it last with what is written. The last close may be on its way, too.
        const bool is_written_to = draft->is_changed();
        if (auto done = in_draft(*draft); !done || is_written_to) return done;
        if (draft->is_passed_through()) return acknowledge(node, *path, false);
        return publish_locked(node, *path);
    }
    // What is copied is what is there, whatever was known of it: some servers (Ceph's gateway) do not look at
    // the condition of a copy of an object onto itself.
    for (int attempt = 0;; ++attempt) {
        auto now = head_of(node, *path);
        if (!now) return fail(std::move(now.error()));
        calls_.ask_tags(*path, *now);
        auto metadata = now->metadata;
        if (auto done = change(metadata); !done) return done;
        auto version = calls_.copy(*path, *now, *path, metadata);
        // What was known of it was out of date.
        if (!version && version.error().code == ESTALE && attempt == 0) continue;
        if (!version) return fail(std::move(version.error()));
        if (!calls_.is_sealed() && is_md5(now->version) && is_md5(*version) && *version != now->version) {
            // Another host's object came between the two requests, and was copied.
            known_.drop(place(*node));
            recent_->forget(*path);
            return {};
        }
        calls_.keep_tags(*path, metadata);
        now->metadata = std::move(metadata);
        recent_->copied(*path, now->version, *path, *version);
        now->version = std::move(*version);
        put_own(node, *now);
        return {};
    }
}

Result<void> PosixBucket::set_mode(const PosixNode& node, mode_t mode) {
    return change(node, [=](FileMetadata& metadata) -> Result<void> {
        metadata.mode = (metadata.mode & S_IFMT) | (mode & 07777U);
        return {};
    });
}

Result<void> PosixBucket::set_owner(const PosixNode& node, uid_t uid, gid_t gid) {
    return change(node, [=](FileMetadata& metadata) -> Result<void> {
        if (uid != static_cast<uid_t>(-1)) metadata.uid = uid;
        if (gid != static_cast<gid_t>(-1)) metadata.gid = gid;
        if (!S_ISREG(metadata.mode)) return {};
        metadata.mode &= ~static_cast<std::uint32_t>(S_ISUID);
        if ((metadata.mode & S_IXGRP) != 0) metadata.mode &= ~static_cast<std::uint32_t>(S_ISGID);
        return {};
    });
}

Result<void> PosixBucket::set_times(const PosixNode& node, const struct timespec& access,
                                    const struct timespec& modification) {
    return change(node, [=](FileMetadata& metadata) -> Result<void> {
        set_time(metadata.atime_ns, access);
        set_time(metadata.mtime_ns, modification);
        return {};
    });
}

Result<void> PosixBucket::resize(const PosixNode& node, std::uint64_t size) {
    auto file = open(node, O_WRONLY);
    if (!file) return fail(std::move(file.error()));
    if (auto done = (*file)->resize(size); !done) return done;
    bool is_alone = false;
    {
        const MutexLock lock(mutex_);
        is_alone = bucket_node(node)->writers == 1;
    }
    // Who else writes to it makes it last with what is written.
    return is_alone ? (*file)->flush() : Result<void>();
}

Result<std::size_t> PosixBucket::get_xattr(const PosixNode& node, const std::string& name,
                                           std::span<char> value) {
    if (auto good = check_name(name); !good) return fail(std::move(good.error()));
    const auto now = facts(bucket_node(node));
    if (!now) return fail(now.error());
    const auto found = now->metadata.xattrs.find(name);
    if (found == now->metadata.xattrs.end()) return fail(ENODATA, "no such attribute");
    if (value.empty()) return found->second.size();
    if (value.size() < found->second.size()) return fail(ERANGE, "the value is longer");
    std::copy(found->second.begin(), found->second.end(), value.begin());
    return found->second.size();
}

Result<std::size_t> PosixBucket::list_xattrs(const PosixNode& node, std::span<char> names) {
    const auto now = facts(bucket_node(node));
    if (!now) return fail(now.error());
    std::string all;
    for (const auto& [name, value] : now->metadata.xattrs) {
        if (name.starts_with("user.")) all.append(name).push_back('\0');
    }
    if (names.empty()) return all.size();
    if (names.size() < all.size()) return fail(ERANGE, "the names are longer");
    std::copy(all.begin(), all.end(), names.begin());
    return all.size();
}

Result<void> PosixBucket::set_xattr(const PosixNode& node, const std::string& name,
                                    std::span<const char> value, int flags) {
    if (auto good = check_name(name); !good) return good;
    return change(node, [&](FileMetadata& metadata) -> Result<void> {
        const bool is_there = metadata.xattrs.contains(name);
        if (is_there && (flags & XATTR_CREATE) != 0) return fail(EEXIST, "the attribute is there");
        if (!is_there && (flags & XATTR_REPLACE) != 0) return fail(ENODATA, "no such attribute");
        metadata.xattrs[name].assign(value.begin(), value.end());
        if (xattrs_text(metadata.xattrs).size() > kMostXattrBytes)
            return fail(ENOSPC, "an object has room for 1.5 KiB of attributes");
        return {};
    });
}

Result<void> PosixBucket::remove_xattr(const PosixNode& node, const std::string& name) {
    if (auto good = check_name(name); !good) return good;
    return change(node, [&](FileMetadata& metadata) -> Result<void> {
        if (metadata.xattrs.erase(name) == 0) return fail(ENODATA, "no such attribute");
        return {};
    });
}

}  // namespace tierfs::s3
