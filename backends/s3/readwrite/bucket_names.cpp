// What makes and removes names; see posix_bucket.hpp.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "backends/origin/upload_name.hpp"
#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {

Result<FileMetadata> PosixBucket::metadata_for(const BucketNodePtr& directory, mode_t mode,
                                               const Caller& caller) {
    const auto parent = facts(directory);
    if (!parent) return fail(parent.error());
    FileMetadata metadata;
    metadata.mode = mode & ~(caller.umask & 0777U);
    metadata.uid = caller.uid;
    metadata.gid = caller.gid;
    if ((parent->metadata.mode & S_ISGID) != 0) {
        metadata.gid = parent->metadata.gid;
        if (S_ISDIR(mode)) metadata.mode |= S_ISGID;
    }
    metadata.atime_ns = metadata.mtime_ns = metadata.ctime_ns = wall_clock_ns();
    return metadata;
}

/// Of a name that is to be made. EEXIST.
Result<std::string> PosixBucket::free_path(const BucketNodePtr& directory, const std::string& name,
                                           Asked asked) {
    const auto there = facts_at(*directory, name, asked);
    if (!there) return fail(there.error());
    if (there->is_there()) return fail(EEXIST, "the name is taken");
    return path_in(*directory, name);
}

Result<PosixCreated> PosixBucket::create(const PosixNode& directory, const std::string& name, int flags,
                                         mode_t mode, const Caller& caller) {
    const auto& parent = bucket_node(directory);
    if (claims_ && (flags & O_EXCL) != 0) return claim(parent, name, mode, caller);
    // Who cuts what is there to nothing anyway wins as whoever writes last.
    const bool replaces = (flags & O_TRUNC) != 0 && (flags & O_EXCL) == 0;
    const auto path = free_path(parent, name, replaces ? Asked::lately : Asked::just_now);
    // Nobody has checked whether the caller may open what is there: see PosixOrigin::create.
    if (!path)
        return fail(path.error().code == EEXIST && (flags & O_EXCL) == 0 ? ESTALE : path.error().code,
                    path.error().message);
    auto draft = new_draft(parent, mode, caller);
    if (!draft) return fail(std::move(draft.error()));
    (*draft)->set_path(*path);
    const auto node = new_file(parent, name, flags, std::move(*draft));
    {
        const MutexLock lock(mutex_);
        node->is_unasked = is_away();
        add_locked(node);
        fresh_[node->inode] = node;
    }
    known_.forget(place_of(parent->inode, name));
    list_ahead(parent);
    return created(node, flags);
}

Result<PosixCreated> PosixBucket::created(const BucketNodePtr& node, int flags) {
    auto attributes = attributes_of(node);
    if (!attributes) return fail(std::move(attributes.error()));
    return PosixCreated{make_bucket_file(*this, node, flags & (O_ACCMODE | O_DSYNC), true),
                        std::move(*attributes), std::make_shared<HeldNode>(node)};
}

// O_EXCL is how programs take locks and commit, so that it must be the open that says whose the file is: an empty
// object is made, where there is none, and the file is that from then on.
Result<PosixCreated> PosixBucket::claim(const BucketNodePtr& directory, const std::string& name, mode_t mode,
                                        const Caller& caller) {
    const auto metadata = metadata_for(directory, S_IFREG | (mode & 07777U), caller);
    if (!metadata) return fail(metadata.error());
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    auto object = make_object(directory, name, "", "", *metadata);
    if (!object) return fail(std::move(object.error()));
    const Facts facts = object->facts;
    const auto node =
        new_file(directory, name, 0,
                 std::make_shared<Draft>(calls_, totals_, std::move(*copy), *metadata, std::move(*object)));
    put_own(node, facts);
    {
        const MutexLock lock(mutex_);
        add_locked(node);
    }
    return PosixCreated{make_bucket_file(*this, node, O_RDWR, true),
                        shown(facts, *node, BucketNode::Standing::named), std::make_shared<HeldNode>(node)};
}

Result<std::shared_ptr<Draft>> PosixBucket::new_draft(const BucketNodePtr& directory, mode_t mode,
                                                      const Caller& caller) {
    auto metadata = metadata_for(directory, S_IFREG | (mode & 07777U), caller);
    if (!metadata) return fail(std::move(metadata.error()));
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    return std::make_shared<Draft>(calls_, totals_, std::move(*copy), std::move(*metadata), std::nullopt);
}

BucketNodePtr PosixBucket::new_file(const BucketNodePtr& directory, const std::string& name, int flags,
                                    std::shared_ptr<Draft> draft) {
    const auto inode = numbers_.number(place_of(directory->inode, name));
    auto node = std::make_shared<BucketNode>(inode, S_IFREG, births_.made());
    node->parent = directory;
    node->name = name;
    node->has_object = false;
    node->is_exclusive = (flags & O_EXCL) != 0;
    node->opens = 1;
    node->writers = 1;  // also of who only reads: closing it is what puts the empty object there
    node->draft = std::move(draft);
    if (back_) node->changed_after = back_->last();
    return node;
}

/// A file that has been unlinked, from the beginning. Its bytes stay here until it gets a name: the draft has no path.
Result<PosixCreated> PosixBucket::make_nameless(const PosixNode& directory, int flags, mode_t mode,
                                                const Caller& caller) {
    const auto& parent = bucket_node(directory);
    if (!links_) return fail(EOPNOTSUPP, "no link could name it: writes.link=false");
    auto draft = new_draft(parent, mode, caller);
    if (!draft) return fail(std::move(draft.error()));
    const auto node = new_file(parent, new_upload_name(""), flags | O_EXCL, std::move(*draft));
    node->standing = BucketNode::Standing::unlinked;
    numbers_.keep(node->inode);
    return created(node, flags);
}

/// What was made without a name gets its first one, by an upload that the server refuses where the name is taken. It has
/// the name before it is there, so that whoever closes it meanwhile waits for the upload: the path is locked. False: it has
/// got another one meanwhile.
Result<bool> PosixBucket::name_nameless(const BucketNodePtr& node, const BucketNodePtr& directory,
                                        const std::string& name, const std::string& to) {
    using Standing = BucketNode::Standing;
    // No path begins so: of those who name the same file one comes after the other.
    const PathLocks::Held locked(locks_, {{to, false}, {"//nameless/" + std::to_string(node->inode), false}});
    const auto place = place_of(directory->inode, name);
    std::shared_ptr<Draft> draft;
    {
        const MutexLock lock(mutex_);
        if (node->standing != Standing::unlinked || node->has_object) return false;
        draft = node->draft;
        if (!draft) return fail(ENOENT, "the file has been closed");
        node->parent = directory;
        node->name = name;
        node->standing = Standing::named;
        add_locked(node);
    }
    numbers_.give_back(node->inode);
    numbers_.renamed(node->inode, place);
    if (draft->has_base()) draft->publish_again();  // under a name for which it said that it had failed
    PutOptions condition;
    condition.only_if_absent = true;
    auto made = draft->publish(to, condition);
    drop_known(place);
    if (made) {
        put_own(node, *made);
        return true;
    }
    numbers_.removed(place);
    numbers_.keep(node->inode);
    {
        const MutexLock lock(mutex_);
        node->standing = Standing::unlinked;
        forget_locked(node);
    }
    draft->give_up_path();
    return fail(made.error().within(to));
}

Result<Draft::Base> PosixBucket::make_object(const BucketNodePtr& directory, const std::string& name,
                                             const char* suffix, const std::string& body,
                                             const FileMetadata& metadata) {
    auto path = free_path(directory, name, Asked::just_now);
    if (!path) return fail(path.error());
    if (is_away()) return fail(ETIMEDOUT, "the bucket does not answer");
    if (auto waited = wait_for_path(*path); !waited) return fail(std::move(waited.error()));
    const PathLocks::Held held(locks_, {{*path, false}});
    PutOptions condition;
    condition.only_if_absent = true;
    auto version = calls_.put_text(*path + suffix, body, metadata, condition);
    if (!version) {
        // What was known of the name is out of date. What took it may be missing from listings for a moment
        // (Ceph's gateway), and a directory is looked for in them.
        const auto place = place_of(directory->inode, name);
        auto there = version.error().code == EEXIST ? calls_.head(*path + suffix) : Result<Facts>(Facts());
        if (there && there->is_there() && !there->may_be_begun()) {
            known_.put(place, std::move(*there));
        } else {
            drop_known(place);
        }
        return fail(std::move(version.error()));
    }
    Facts facts;
    facts.kind = S_ISDIR(metadata.mode) ? Facts::Kind::directory : Facts::Kind::file;
    facts.has_marker = S_ISDIR(metadata.mode);
    facts.metadata = metadata;
    facts.size = body.size();
    facts.version = std::move(*version);
    known_.put(directory->inode, name, facts);
    return Draft::Base{std::move(*path), std::move(facts)};
}

Result<void> PosixBucket::make_directory(const PosixNode& directory, const std::string& name, mode_t mode,
                                         const Caller& caller) {
    const auto& parent = bucket_node(directory);
    const auto metadata = metadata_for(parent, S_IFDIR | (mode & 01777U), caller);
    if (!metadata) return fail(metadata.error());
    if (!is_away()) {
        ListedNames none{{}, KnownNames::Clock::now(), known_.drops()};
        auto made = make_object(parent, name, "/", "", *metadata);
        if (made && back_)
            known_.put_listing(numbers_.number(place_of(parent->inode, name)), std::move(none));
        if (made) list_ahead(parent);
        if (made || !is_for_being_away(made.error())) return made.map([](const auto&) {});
    }
    return make_directory_later(parent, name, *metadata);
}

Result<void> PosixBucket::make_node(const PosixNode& directory, const std::string& name, mode_t mode,
                                    dev_t /*device*/, const Caller& caller) {
    if (!S_ISREG(mode)) return fail(EPERM, "a bucket holds files, directories and symbolic links only");
    const auto metadata = metadata_for(bucket_node(directory), S_IFREG | (mode & 07777U), caller);
    if (!metadata) return fail(metadata.error());
    return make_object(bucket_node(directory), name, "", "", *metadata).map([](const auto&) {});
}

Result<void> PosixBucket::make_link(const PosixNode& directory, const std::string& name,
                                    const std::string& target, const Caller& caller) {
    const auto metadata = metadata_for(bucket_node(directory), S_IFLNK | 0777U, {caller.uid, caller.gid, 0});
    if (!metadata) return fail(metadata.error());
    return make_object(bucket_node(directory), name, "", target, *metadata).map([](const auto&) {});
}

// link(2) is how Delta Lake, Lance and others publish: it must fail where the name is taken. A bucket has no
// second name for an object, but a second object that is made only where there is none does for them.
Result<void> PosixBucket::add_name(const PosixNode& held, const PosixNode& directory,
                                   const std::string& name) {
    const auto& node = bucket_node(held);
    const auto& parent = bucket_node(directory);
    if (!links_ || !S_ISREG(node->type)) return fail(EPERM, "a bucket has no hard links");
    // Whoever commits by a link does so after all that he has written.
    if (auto waited = wait_for_all(); !waited) return waited;
    const auto to = free_path(parent, name, Asked::just_now);
    if (!to) return fail(to.error());
    bool is_nameless = false;
    {
        const MutexLock lock(mutex_);
        is_nameless = node->standing == BucketNode::Standing::unlinked && !node->has_object;
    }
    if (is_nameless) {
        const auto named = name_nameless(node, parent, name, *to);
        if (!named) return fail(named.error());
        if (*named) return {};
    }
    for (;;) {
        if (auto waited = wait_for_node(node); !waited) return waited;
        const auto from = path_of(*node);
        if (!from) return fail(ENOENT, from.error().message);
        const PathLocks::Held locked(locks_, {{*from, false}, {*to, false}});
        if (const auto now = path_of(*node); !now || *now != *from) continue;  // renamed meanwhile
        if (is_pending(*node)) continue;                                       // synced meanwhile
        return copy_to_new(node, *from, place_of(parent->inode, name), *to);
    }
}

Result<void> PosixBucket::copy_to_new(const BucketNodePtr& node, const std::string& from, Place place,
                                      const std::string& to) {
    if (auto done = publish_locked(node, from); !done) return done;
    auto now = head_of(node, from);
    if (!now) return fail(std::move(now.error()));
    if (now->archived) return fail(EACCES, "an archived object must be restored before it is copied");
    calls_.ask_tags(from, *now);
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    auto metadata = now->metadata;
    Draft draft(calls_, totals_, std::move(*copy), std::move(metadata), Draft::Base{from, std::move(*now)});
    draft.publish_again();
    PutOptions condition;
    condition.only_if_absent = true;
    auto made = draft.publish(to, condition);
    drop_known(place);
    if (!made) return fail(made.error().within(to));
    known_.put(place, std::move(*made));
    return {};
}

/// A directory whose last key is about to leave would be gone: it gets a marker before.
Result<void> PosixBucket::keep_parent(const BucketNodePtr& directory, const std::string& leaving) {
    const auto path = path_of(*directory);
    if (!path) return fail(path.error());
    if (path->empty() && !calls_.has_prefix()) return {};
    const auto own_place = place(*directory);
    if (const auto known = known_.get(own_place); known && known->has_marker) return {};
    const auto marker = marker_of(*path);
    const auto keys = calls_.list(marker, "", 3, false);
    if (!keys) return fail(keys.error());
    for (const auto& object : keys->objects) {
        if (object.key == calls_.key(marker)) known_.set_marker(own_place);
        if (object.key != calls_.key(leaving)) return {};
    }
    const auto own = facts(directory);
    if (!own) return fail(own.error());
    PutOptions condition;
    condition.only_if_absent = true;
    auto put = calls_.put_text(marker, "", own->metadata, condition);
    if (!put && put.error().code != EEXIST) return fail(std::move(put.error()));
    known_.set_marker(own_place);
    return {};
}

Result<void> PosixBucket::check_empty(std::uint64_t inode, const std::string& path) {
    if (!unpublished_in(inode).empty()) return fail(ENOTEMPTY, "the directory is not empty");
    const auto keys = calls_.list(path + "/", "", 2, false);
    if (!keys) return fail(keys.error());
    for (const auto& object : keys->objects) {
        if (object.key != calls_.key(path + "/")) return fail(ENOTEMPTY, "the directory is not empty");
        if (object.size != 0)
            return fail(ENOTEMPTY, "the directory's own object holds bytes that others put");
    }
    return {};
}

/// Who has it open goes on reading; what cannot be kept for want of room is gone for them, too.
void PosixBucket::keep_bytes(const BucketNodePtr& node) {
    if (!node || node->type != S_IFREG) return;
    {
        const MutexLock lock(mutex_);
        if (node->opens == 0 || (node->draft && node->draft->is_frozen())) return;
    }
    auto draft = make_draft(node);
    if (!draft && draft.error().code == ESTALE) return;  // another host has put another object in its place
    auto kept = draft ? (*draft)->detach() : fail(draft.error());
    if (!kept)
        log::warning("a file that is open is being removed, and its bytes cannot be kept: " +
                     kept.error().message);
}

void PosixBucket::unlinked(const BucketNodePtr& node, const BucketNode& directory, const std::string& name,
                           const Facts& last) {
    const auto place = place_of(directory.inode, name);
    numbers_.removed(place);
    births_.left(place);
    known_.put(directory.inode, name, Facts());
    if (!node) return;
    const MutexLock lock(mutex_);
    if (node->standing == BucketNode::Standing::named) node->standing = BucketNode::Standing::unlinked;
    if (!node->facts.is_there()) node->facts = last;
    if (node->opens != 0) numbers_.keep(node->inode);
    forget_locked(node);
}

Result<void> PosixBucket::remove(const PosixNode& directory, const std::string& name, bool is_directory) {
    const auto& parent = bucket_node(directory);
    const auto there = facts_at(*parent, name);
    if (!there) return fail(there.error());
    if (!there->is_there()) return fail(ENOENT, "no such name");
    if (is_directory && there->kind != Facts::Kind::directory) return fail(ENOTDIR, "no directory");
    if (!is_directory && there->kind == Facts::Kind::directory) return fail(EISDIR, "a directory");
    const auto path = path_in(*parent, name);
    if (!path) return fail(path.error());
    const auto place = place_of(parent->inode, name);
    const auto inode = numbers_.number(place);
    if (is_directory) {
        if (auto waited = wait_for_all(); !waited) return waited;
    } else {
        give_up_upload(place);
    }
    const PathLocks::Held held(locks_, {{*path, is_directory}});
    TIERFS_SYNC_POINT("s3.removing");
    const auto node = find(inode);
    if (back_ && !is_directory) return remove_later(parent, node, name, *path, *there);
    bool has_object = true;
    if (is_directory) {
        if (auto empty = check_empty(inode, *path); !empty) return empty;
    } else if (node) {
        keep_bytes(node);
        const MutexLock lock(mutex_);
        has_object = node->has_object;
    }
    if (has_object) {
        const auto key = is_directory ? *path + "/" : *path;
        if (auto kept = keep_parent(parent, key); !kept) return kept;
        if (auto removed = calls_.remove(key); !removed) return removed;
    }
    recent_->forget(*path);
    unlinked(node, *parent, name, *there);
    return {};
}

}  // namespace tierfs::s3
