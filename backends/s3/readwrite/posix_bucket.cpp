#include "backends/s3/readwrite/posix_bucket.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "config/base/time.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::uint64_t kBlock = 512;
/// Between the kernel's look-up and the request that it was made for.
constexpr std::chrono::milliseconds kJustNow{2};

/// Of a file with a draft: what is here, and the version as long as that is what the bucket has.
Facts facts_of_draft(Draft& draft, const Facts& own) {
    Facts facts;
    facts.kind = Facts::Kind::file;
    facts.metadata = draft.metadata();
    facts.size = draft.size();
    if (!draft.is_changed()) facts.version = own.version;
    return facts;
}

}  // namespace

PosixBucket::PosixBucket(BucketCalls calls, LocalCopies copies, std::chrono::milliseconds ttl, bool exclusive)
    : calls_(std::move(calls)),
      copies_(std::move(copies)),
      exclusive_(exclusive),
      known_(ttl),
      root_(std::make_shared<BucketNode>(InodeNumbers::kRoot, S_IFDIR)),
      root_hold_(std::make_shared<HeldNode>(root_)) {
    const MutexLock lock(mutex_);
    nodes_.emplace(root_->inode, root_);
}

Result<std::string> PosixBucket::path_locked(const BucketNode& node) {
    std::vector<const std::string*> names;
    for (const auto* at = &node; at->parent; at = at->parent.get()) {
        if (at->is_unlinked) return fail(ESTALE, "the file is gone");
        names.push_back(&at->name);
    }
    std::string path;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
        if (!path.empty()) path += '/';
        path += **name;
    }
    return path;
}

Result<std::string> PosixBucket::path_of(const BucketNode& node) {
    const MutexLock lock(mutex_);
    return path_locked(node);
}

Place PosixBucket::place(const BucketNode& node) {
    const MutexLock lock(mutex_);
    return node.parent ? place_of(node.parent->inode, node.name) : InodeNumbers::kRoot;
}

Result<std::string> PosixBucket::path_in(const BucketNode& directory, const std::string& name) {
    if (name.size() > kLongestName) return fail(ENAMETOOLONG, "a name has 255 bytes at most");
    auto path = path_of(directory);
    if (!path) return path;
    *path = marker_of(*path) + name;
    // One more for the '/' of a directory.
    if (calls_.key(*path).size() + 1 > BucketCalls::kLongestKey)
        return fail(ENAMETOOLONG, "a key has 1024 bytes at most");
    return path;
}

BucketNodePtr PosixBucket::find_locked(std::uint64_t inode) {
    const auto found = nodes_.find(inode);
    return found == nodes_.end() ? nullptr : found->second.lock();
}

BucketNodePtr PosixBucket::find(std::uint64_t inode) {
    const MutexLock lock(mutex_);
    return find_locked(inode);
}

void PosixBucket::add_locked(const BucketNodePtr& node) {
    nodes_[node->inode] = node;
    if (nodes_.size() < sweep_at_) return;
    std::erase_if(nodes_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<std::size_t>(1024, nodes_.size() * 2);
}

BucketNodePtr PosixBucket::node_at(const BucketNodePtr& directory, const std::string& name,
                                   std::uint32_t type) {
    const auto inode = numbers_.number(place_of(directory->inode, name));
    const MutexLock lock(mutex_);
    auto node = find_locked(inode);
    if (node && node->type == type) return node;
    node = std::make_shared<BucketNode>(inode, type);
    node->parent = directory;
    node->name = name;
    add_locked(node);
    return node;
}

std::shared_ptr<Draft> PosixBucket::draft_of(const BucketNode& node) {
    const MutexLock lock(mutex_);
    return node.draft;
}

std::optional<Facts> PosixBucket::newer(const BucketNode& node, std::uint64_t& epoch) {
    const MutexLock lock(mutex_);
    if (node.epoch == epoch) return std::nullopt;
    epoch = node.epoch;
    return node.own;
}

std::vector<std::string> PosixBucket::unpublished_in(std::uint64_t directory) {
    std::vector<std::string> names;
    std::vector<BucketNodePtr> held;  // let go after the lock
    const MutexLock lock(mutex_);
    for (const auto& [inode, weak] : fresh_) {
        auto node = weak.lock();
        if (!node) continue;
        if (node->parent && node->parent->inode == directory && !node->is_unlinked)
            names.push_back(node->name);
        held.push_back(std::move(node));
    }
    return names;
}

Result<Facts> PosixBucket::ask(const std::string& path) {
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
    if (below && !below->objects.empty()) {
        if (below->objects.front().key == calls_.key(path + "/")) {
            auto marker = calls_.head(path + "/");
            if (marker || marker.error().code != ENOENT) return marker;
        }
        Facts directory;
        directory.kind = Facts::Kind::directory;
        directory.metadata.mode = S_IFDIR | calls_.ownership().directory_mode;
        directory.metadata.uid = calls_.ownership().uid;
        directory.metadata.gid = calls_.ownership().gid;
        return directory;
    }
    // Who may read but not list still gets files by name.
    if (file && (below || below.error().code == EACCES)) return file;
    if (!below) return fail(below.error());
    if (file.error().code == ENOENT) return Facts();
    return file;
}

Result<Facts> PosixBucket::root_facts() {
    if (auto facts = known_.get(InodeNumbers::kRoot)) return std::move(*facts);
    Facts facts;
    facts.kind = Facts::Kind::directory;
    facts.metadata.mode = S_IFDIR | calls_.ownership().directory_mode;
    facts.metadata.uid = calls_.ownership().uid;
    facts.metadata.gid = calls_.ownership().gid;
    const auto asked_at = known_.moment();
    if (calls_.has_prefix()) {
        auto marker = calls_.head("");
        if (marker) facts = std::move(*marker);
        if (!marker && marker.error().code != ENOENT) return marker;
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
        Facts own;
        {
            const MutexLock lock(mutex_);
            draft = node->draft;
            own = node->own;
        }
        if (draft) return facts_of_draft(*draft, own);
    }
    if (auto facts = asked == Asked::lately ? known_.get(place) : known_.get_younger(place, kJustNow))
        return std::move(*facts);
    const auto shown = asked == Asked::lately ? known_.shown(directory.inode, name) : std::nullopt;
    if (shown == ListedNames::Shown::absent) return Facts();
    const auto asked_at = known_.moment();
    auto facts = shown == ListedNames::Shown::key ? calls_.head(*path) : ask(*path);
    if (!facts && shown && facts.error().code == ENOENT) facts = ask(*path);  // it has changed since
    if (facts) known_.put_answer(place, *facts, asked_at);
    return facts;
}

Result<Facts> PosixBucket::facts(const BucketNodePtr& node) {
    BucketNodePtr parent;
    std::string name;
    std::shared_ptr<Draft> draft;
    Facts own;
    {
        const MutexLock lock(mutex_);
        if (!node->draft && node->is_unlinked) return node->last;
        parent = node->parent;
        name = node->name;
        draft = node->draft;
        own = node->own;
    }
    if (draft) return facts_of_draft(*draft, own);
    if (!parent) return root_facts();
    auto facts = facts_at(*parent, name);
    if (!facts) return facts;
    if (!facts->is_there() || (facts->metadata.mode & S_IFMT) != node->type)
        return fail(ESTALE, "the file is gone or another one has taken its place");
    return facts;
}

PosixAttributes PosixBucket::shown(const Facts& facts, std::uint64_t inode, bool is_unlinked) const {
    PosixAttributes attributes;
    auto& status = attributes.status;
    status.st_dev = 1;
    status.st_ino = inode;
    status.st_mode = facts.metadata.mode;
    status.st_nlink = is_unlinked ? 0 : (S_ISDIR(facts.metadata.mode) ? 2 : 1);
    status.st_uid = facts.metadata.uid;
    status.st_gid = facts.metadata.gid;
    status.st_size = static_cast<off_t>(facts.size);
    status.st_blksize = 4096;
    status.st_blocks = static_cast<blkcnt_t>((facts.size + kBlock - 1) / kBlock);
    status.st_atim = to_timespec(facts.metadata.atime_ns);
    status.st_mtim = to_timespec(facts.metadata.mtime_ns);
    status.st_ctim = to_timespec(facts.metadata.ctime_ns);
    if (S_ISREG(facts.metadata.mode) && !is_unlinked) attributes.version = facts.version;
    attributes.trust = attributes.version.empty()           ? PosixAttributes::Trust::none
                       : is_strong_etag(attributes.version) ? PosixAttributes::Trust::always
                                                            : PosixAttributes::Trust::by_time;
    return attributes;
}

Result<PosixAttributes> PosixBucket::look_up(const PosixNode& directory, const std::string& name) {
    const auto& parent = *bucket_node(directory);
    const auto found = facts_at(parent, name);
    if (!found) return fail(found.error());
    if (!found->is_there()) return fail(ENOENT, "no such name");
    return shown(*found, numbers_.number(place_of(parent.inode, name)), false);
}

Result<PosixNodePtr> PosixBucket::hold(const PosixNode& directory, const std::string& name) {
    const auto& parent = bucket_node(directory);
    const auto found = facts_at(*parent, name);
    if (!found) return fail(found.error());
    if (!found->is_there()) return fail(ENOENT, "no such name");
    return std::make_shared<HeldNode>(node_at(parent, name, found->metadata.mode & S_IFMT));
}

Result<PosixAttributes> PosixBucket::attributes_of(const BucketNodePtr& node) {
    const auto found = facts(node);
    if (!found) return fail(found.error());
    bool is_unlinked = false;
    {
        const MutexLock lock(mutex_);
        is_unlinked = node->is_unlinked;
    }
    return shown(*found, node->inode, is_unlinked);
}

Result<PosixAttributes> PosixBucket::attributes(const PosixNode& node) {
    return attributes_of(bucket_node(node));
}

Result<std::string> PosixBucket::read_link(const PosixNode& node) {
    const auto& link = bucket_node(node);
    const auto found = facts(link);
    if (!found) return fail(found.error());
    if (!S_ISLNK(found->metadata.mode)) return fail(EINVAL, "no symbolic link");
    if (found->size == 0 || found->size >= PATH_MAX)
        return fail(EIO, "the link's object has no fitting size");
    auto path = path_of(*link);
    if (!path) return path;
    std::string target(found->size, '\0');
    auto read = calls_.read(*path, found->version, 0, std::as_writable_bytes(std::span(target)));
    if (!read) return fail(std::move(read.error()));
    return target;
}

Result<struct statvfs> PosixBucket::statistics() {
    // A bucket has no end; programs compare what they want to write with what is free.
    struct statvfs found {};
    found.f_bsize = found.f_frsize = 4096;
    found.f_blocks = found.f_bfree = found.f_bavail = std::uint64_t{1} << 40U;
    found.f_files = found.f_ffree = found.f_favail = std::uint64_t{1} << 32U;
    found.f_namemax = kLongestName;
    return found;
}

PosixStats PosixBucket::stats() const {
    const auto sums = totals_.sums();
    PosixStats stats;
    stats.errors = sums.errors;
    stats.dirty_bytes = sums.dirty_bytes;
    stats.oldest_dirty_s = sums.oldest_s;
    return stats;
}

}  // namespace tierfs::s3
