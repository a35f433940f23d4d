// Facts of names: what this mount made of them, what is known of them, and what the bucket says. See posix_bucket.hpp.
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "backends/s3/readwrite/posix_bucket.hpp"

namespace tierfs::s3 {

namespace {

/// Between the kernel's look-up and the request that it was made for.
constexpr std::chrono::milliseconds kJustNow{2};

}  // namespace

/// Of what has a draft: what is here, and the version as long as that is what the bucket has.
Facts PosixBucket::facts_of_draft(Draft& draft, const Facts& object, bool is_local) {
    Facts facts;
    facts.metadata = draft.metadata();
    facts.has_marker = S_ISDIR(facts.metadata.mode);
    facts.kind = facts.has_marker ? Facts::Kind::directory : Facts::Kind::file;
    facts.size = draft.size();
    if (!is_local) facts.version = object.version;
    return facts;
}

/// Of which nothing says whose it is.
Facts PosixBucket::bare_directory() const {
    Facts facts;
    facts.kind = Facts::Kind::directory;
    facts.metadata.mode = S_IFDIR | calls_.ownership().directory_mode;
    facts.metadata.uid = calls_.ownership().uid;
    facts.metadata.gid = calls_.ownership().gid;
    return facts;
}

Result<Facts> PosixBucket::ask(const std::string& path, bool was_directory) {
    // Both at once: S3 does not tell whether a name is a key, a prefix or both.
    Result<Facts> file;
    Together head(1);
    if (!head.begin()) return fail(head.wait().error());
    calls_.head(path, [&](Result<Facts> found) {
        file = std::move(found);
        head.end({});
    });
    const auto below = calls_.list(path + "/", "", 1, false);
    (void)head.wait();
    const bool is_listed = below && !below->objects.empty();
    // Listings of some servers (Ceph's gateway) come behind what was put: a marker is asked for itself.
    const bool may_have_marker = is_listed ? below->objects.front().key == calls_.key(path + "/")
                                           : below && was_directory && !file && file.error().code == ENOENT;
    if (may_have_marker) {
        auto marker = calls_.head(path + "/");
        if (marker || marker.error().code != ENOENT) return marker;
    }
    if (is_listed) return bare_directory();
    // Who may read but not list still gets files by name.
    if (file && (below || below.error().code == EACCES)) return file;
    if (!below) return fail(below.error());
    if (file.error().code == ENOENT) return Facts();
    return file;
}

Result<Facts> PosixBucket::root_facts() {
    {
        const MutexLock lock(mutex_);
        if (root_->facts.is_there()) return root_->facts;
    }
    if (auto facts = known_.get(InodeNumbers::kRoot)) return std::move(*facts);
    auto facts = bare_directory();
    const auto asked_at = known_.moment(InodeNumbers::kRoot);
    if (calls_.has_prefix()) {
        auto last = is_away() ? known_.last(InodeNumbers::kRoot) : std::nullopt;
        if (last) return std::move(*last);
        auto marker = calls_.head("");
        if (marker) facts = std::move(*marker);
        const bool is_told = marker || marker.error().code == ENOENT;
        if (!is_told && is_for_being_away(marker.error()))
            return known_.last(InodeNumbers::kRoot).value_or(facts);
        if (!is_told) return marker;
    }
    known_.put_answer(InodeNumbers::kRoot, facts, asked_at);
    return facts;
}

Result<Facts> PosixBucket::facts_at(const BucketNode& directory, const std::string& name, Asked asked) {
    const auto path = path_in(directory, name);
    if (!path) return fail(path.error());
    const auto place = place_of(directory.inode, name);
    if (const auto node = find(numbers_.number(place))) {
        std::shared_ptr<Draft> draft;
        Facts object;
        {
            const MutexLock lock(mutex_);
            if (node->is_local()) draft = node->draft;
            object = node->facts;
        }
        if (draft) return facts_of_draft(*draft, object, true);
    }
    if (is_removed(*path)) return Facts();
    if (auto facts = asked == Asked::lately ? known_.get(place) : known_.get_younger(place, kJustNow))
        return std::move(*facts);
    const bool is_lately = asked == Asked::lately;
    const auto shown = known_.shown(directory.inode, name);
    const bool has_key = is_lately && shown && *shown == ListedNames::Shown::key;
    if (is_lately && shown && *shown == ListedNames::Shown::absent) return Facts();
    if (auto last = is_away() ? known_last(directory, name) : std::nullopt) return std::move(*last);
    const auto asked_at = known_.moment(place);
    const bool was_directory = known_.was_directory(place);
    auto facts = has_key ? calls_.head(*path) : ask(*path, was_directory);
    if (!facts && has_key && facts.error().code == ENOENT)
        facts = ask(*path, was_directory);  // it has changed since
    if (facts) known_.put_answer(place, *facts, asked_at);
    if (facts || !is_for_being_away(facts.error())) return facts;
    if (auto last = known_last(directory, name)) return std::move(*last);
    return facts;
}

Result<Facts> PosixBucket::facts(const BucketNodePtr& node, Asked asked) {
    using Standing = BucketNode::Standing;
    constexpr int kMostMoves = 8;
    for (int move = 0; move < kMostMoves; ++move) {
        BucketNodePtr parent;
        std::string name;
        std::shared_ptr<Draft> draft;
        Facts object;
        bool is_local = false;
        {
            const MutexLock lock(mutex_);
            parent = node->parent;
            name = node->name;
            draft = node->draft;
            object = node->facts;
            const bool has_name = node->standing == Standing::named;
            if (!draft && !has_name && node->opens != 0) return object;
            if (!draft && !has_name) break;
            is_local = node->is_local();
            if (has_name && !is_local) draft.reset();
        }
        if (draft) return facts_of_draft(*draft, object, is_local);
        if (!parent) return root_facts();
        auto now = meet(*parent, name, asked);
        if (!now) return fail(std::move(now.error()));
        const MutexLock lock(mutex_);
        const bool is_here =
            node->standing == Standing::named && node->parent == parent && node->name == name;
        if (is_here && !is_of(*node, now->facts)) break;
        if (is_here && !node->is_local()) return std::move(now->facts);
    }
    return fail(ESTALE, "the file is gone or another one has taken its place");
}

}  // namespace tierfs::s3
