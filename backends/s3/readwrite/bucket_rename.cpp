// Renames: copies by the server, and then the old names go. See posix_bucket.hpp.
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::size_t kAtOnce = 16;
constexpr std::size_t kMostObjects = 1'000'000;  // of a directory that is renamed: they are held in memory

/// A file that somebody has open below a directory that moves.
struct OpenBelow {
    BucketNodePtr node;
    std::shared_ptr<Draft> draft;  ///< null: nobody writes to it
    bool has_its_bytes = false;    ///< see Draft::rebase
};

bool is_directory(const Facts& facts) {
    return facts.kind == Facts::Kind::directory;
}

}  // namespace

Result<void> PosixBucket::check_move(const Move& move, unsigned flags) {
    if (!move.moved.is_there()) return fail(ENOENT, "no such name");
    if (is_directory(move.moved) && move.to.starts_with(move.from + "/"))
        return fail(EINVAL, "a directory cannot become one of its own");
    if (!move.replaced.is_there()) return {};
    if ((flags & RENAME_NOREPLACE) != 0) return fail(EEXIST, "the name is taken");
    if (is_directory(move.replaced) && !is_directory(move.moved)) return fail(EISDIR, "a directory");
    if (!is_directory(move.replaced) && is_directory(move.moved)) return fail(ENOTDIR, "no directory");
    return {};
}

Result<void> PosixBucket::rename(const PosixNode& from, const std::string& name, const PosixNode& to,
                                 const std::string& new_name, unsigned flags) {
    if ((flags & RENAME_EXCHANGE) != 0) return fail(EINVAL, "a bucket cannot exchange two names at once");
    Move move;
    move.from_directory = bucket_node(from);
    move.to_directory = bucket_node(to);
    move.from_name = name;
    move.to_name = new_name;
    auto from_path = path_in(*move.from_directory, name), to_path = path_in(*move.to_directory, new_name);
    if (!from_path || !to_path) return fail((from_path ? to_path : from_path).error());
    move.from = std::move(*from_path);
    move.to = std::move(*to_path);
    if (move.from == move.to) return {};
    move.from_place = place_of(move.from_directory->inode, name);
    move.to_place = place_of(move.to_directory->inode, new_name);
    if (!back_) return move_now(move, flags, std::nullopt);
    // What is queued is found by its number.
    if (numbers_.is_nearly_full()) {
        if (auto waited = wait_for_all(); !waited) return waited;
    }
    const auto deadline = WriteBack::Clock::now() + calls_.deadline();
    for (auto before = back_->last();;) {
        give_up_upload(move.from_place);
        Move here = move;
        auto done = move_now(here, flags, before);
        if (done || done.error().code != EINPROGRESS) return done;
        // The bucket moves what it has, after all that was acknowledged before.
        before = back_->hurry();
        if (auto waited = back_->wait_for(before, deadline); !waited) return waited;
    }
}

/// `before`, of a write-back mount: what was acknowledged up to then comes first. EINPROGRESS: something that the bucket is
/// still to get is in the way.
Result<void> PosixBucket::move_now(Move& move, unsigned flags, std::optional<std::uint64_t> before) {
    auto source = facts_at(*move.from_directory, move.from_name);
    if (!source) return fail(std::move(source.error()));
    const bool is_tree = is_directory(*source);
    const PathLocks::Held held(locks_, {{move.from, is_tree}, {move.to, is_tree}});
    auto target = facts_at(*move.to_directory, move.to_name, Asked::just_now);
    if (!target) return fail(std::move(target.error()));
    move.moved = std::move(*source);
    move.replaced = std::move(*target);
    if (auto good = check_move(move, flags); !good) return good;
    move.node = find(numbers_.number(move.from_place));
    if (move.replaced.is_there()) move.replaced_node = find(numbers_.number(move.to_place));
    if (before) {
        bool is_new = false;
        if (move.node && !is_tree) {
            const MutexLock lock(mutex_);
            is_new = move.node->is_local() && !move.node->has_object;
        }
        if (is_new) return move_here(move);
        const bool is_in_the_way = !back_->is_done_to(*before) || back_->is_queued_below(move.from) ||
                                   back_->is_queued_below(move.to);
        if (is_in_the_way)
            return fail(EINPROGRESS, "changes made before are still to be brought to the bucket");
    }
    return is_tree ? move_tree(move) : move_file(move);
}

/// What is known of names, after the objects have moved.
void PosixBucket::moved(const Move& move) {
    if (move.replaced.is_there())
        unlinked(move.replaced_node, *move.to_directory, move.to_name, move.replaced);
    const bool is_here = move.node && is_pending(*move.node);
    if (is_here) known_.forget(move.to_place);  // it is what is here, and listings stay right
    if (!is_here) known_.drop(move.to_place);
    numbers_.renamed(move.from_place, move.to_place);
    births_.left(move.from_place);
    births_.left(move.to_place);
    known_.put(move.from_directory->inode, move.from_name, Facts());
    if (!move.node) return;
    const MutexLock lock(mutex_);
    move.node->parent = move.to_directory;
    move.node->name = move.to_name;
}

Result<void> PosixBucket::move_file(Move& move) {
    if (move.node) {
        if (auto done = publish_locked(move.node, move.from); !done) return done;
    }
    keep_bytes(move.replaced_node);
    // What is copied is what is there, whatever was known of it.
    const auto draft = move.node ? draft_of(*move.node) : nullptr;
    bool has_its_bytes = false;
    std::string copied_version;
    for (int attempt = 0;; ++attempt) {
        auto now = calls_.head(move.from);
        if (!now && now.error().code == ENOENT) known_.drop(move.from_place);
        if (!now) return fail(std::move(now.error()));
        if (move.node && !has_stayed(*move.node, *now)) replaced(std::exchange(move.node, nullptr));
        calls_.ask_tags(move.from, *now);
        auto version = calls_.copy(move.from, *now, move.to, std::nullopt);
        if (!version && version.error().code == ESTALE && attempt == 0) continue;
        if (!version) return fail(std::move(version.error()));
        calls_.keep_tags(move.to, now->metadata);
        copied_version = now->version;
        has_its_bytes = draft && is_strong_etag(now->version) && now->version == draft->base_version();
        move.moved = std::move(*now);
        move.moved.version = std::move(*version);
        break;
    }
    TIERFS_SYNC_POINT("s3.renaming");
    auto gone = keep_parent(move.from_directory, move.from);
    bool is_ours = true;
    if (gone) {
        const auto removed = calls_.remove_version(move.from, copied_version);
        is_ours = !removed || *removed;
        if (!removed) gone = fail(removed.error());
    }
    if (!gone) {
        known_.drop(move.to_place);
        return gone;  // both are there
    }
    moved(move);
    if (!is_ours) known_.drop(move.from_place);  // what another host has put there meanwhile stays
    known_.put(move.to_place, move.moved);
    recent_->copied(move.from, copied_version, move.to, move.moved.version);
    if (!move.node) return {};
    if (draft) draft->rebase({move.to, move.moved}, has_its_bytes);
    put_own(move.node, move.moved);
    return {};
}

/// Their paths relative to the marker, and what a listing says of them.
Result<std::vector<std::pair<std::string, Facts>>> PosixBucket::objects_below(const std::string& marker) {
    std::vector<std::pair<std::string, Facts>> objects;
    const auto prefix = calls_.key(marker);
    std::string token;
    do {
        auto page = calls_.list(marker, token, 1000, false);
        if (!page) return fail(std::move(page.error()));
        for (const auto& object : page->objects) {
            if (!object.key.starts_with(prefix)) continue;
            Facts facts;
            facts.kind = Facts::Kind::file;
            facts.size = object.size;
            facts.version = make_version(object.etag, object.mtime_s, object.size);
            objects.emplace_back(object.key.substr(prefix.size()), std::move(facts));
        }
        if (objects.size() > kMostObjects)
            return fail(EMLINK, "a directory with more than a million objects is not renamed");
        token = page->next_token;
    } while (!token.empty());
    return objects;
}

/// Sets the versions of the copies.
Result<void> PosixBucket::copy_all(const Move& move, std::vector<std::pair<std::string, Facts>>& objects) {
    Together together(kAtOnce);
    for (auto& [rest, facts] : objects) {
        if (calls_.key(move.to).size() + 1 + rest.size() > BucketCalls::kLongestKey)
            return fail(ENAMETOOLONG, "a key below the directory would have more than 1024 bytes");
        if (!together.begin()) break;
        calls_.copy(move.from + "/" + rest, facts, move.to + "/" + rest,
                    [&together, copied = &facts](Result<std::string> version) {
                        if (version) copied->version = std::move(*version);
                        together.end(version ? Result<void>() : fail(version.error()));
                    });
    }
    return together.wait();
}

void PosixBucket::remove_all(const std::vector<std::pair<std::string, Facts>>& objects,
                             const std::string& marker, Together& together) {
    for (const auto& object : objects) {
        if (!together.begin()) return;
        calls_.remove(marker + object.first, [&](Result<void> result) { together.end(std::move(result)); });
    }
}

std::vector<BucketNodePtr> PosixBucket::open_below(const std::string& path) {
    std::vector<BucketNodePtr> open, held;
    const MutexLock lock(mutex_);
    for (const auto& [inode, weak] : nodes_) {
        auto node = weak.lock();
        if (!node) continue;
        held.push_back(node);
        if (node->opens == 0 || node->standing != BucketNode::Standing::named) continue;
        const auto its = path_locked(*node);
        if (its && its->starts_with(path + "/")) open.push_back(std::move(node));
    }
    return open;
}

Result<void> PosixBucket::move_tree(Move& move) {
    if (move.replaced.is_there()) {
        const auto inode = numbers_.number(move.to_place);
        if (auto empty = check_empty(inode, move.to); !empty) return empty;
    }
    // What is written below must not need what is copied away under it.
    const auto open = open_below(move.from);
    std::unordered_map<std::string, OpenBelow> by_rest;
    for (const auto& node : open) {
        const auto draft = draft_of(*node);
        if (draft) {
            if (auto done = draft->detach(); !done) return done;
        }
        if (const auto path = path_of(*node))
            by_rest[path->substr(move.from.size() + 1)] = {node, draft, false};
    }
    const auto from = marker_of(move.from), to = marker_of(move.to);
    auto objects = objects_below(from);
    if (!objects) return fail(std::move(objects.error()));
    for (const auto& [rest, facts] : *objects) {
        const auto below = by_rest.find(rest);
        if (below == by_rest.end() || !below->second.draft) continue;
        below->second.has_its_bytes =
            is_strong_etag(facts.version) && facts.version == below->second.draft->base_version();
    }
    if (auto copied = copy_all(move, *objects); !copied) {
        Together back(kAtOnce);
        remove_all(*objects, to, back);
        if (!back.wait()) log::warning("copies of a directory that could not be renamed are left: " + to);
        return copied;
    }
    TIERFS_SYNC_POINT("s3.renaming");
    Result<void> gone = keep_parent(move.from_directory, from);
    if (gone) {
        Together together(kAtOnce);
        remove_all(*objects, from, together);
        gone = together.wait();
    }
    known_.clear();
    recent_->clear();        // the copies of the server's have versions of their own
    if (!gone) return gone;  // what is left of the old names is there twice
    moved(move);
    for (auto& [rest, below] : by_rest) {
        auto facts = calls_.head(to + rest);
        if (!facts) continue;
        if (below.draft) below.draft->rebase({to + rest, *facts}, below.has_its_bytes);
        put_own(below.node, *facts);
    }
    return {};
}

}  // namespace tierfs::s3
