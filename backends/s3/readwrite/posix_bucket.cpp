#include "backends/s3/readwrite/posix_bucket.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "config/base/time.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::uint64_t kBlock = 512;

}  // namespace

PosixBucket::PosixBucket(BucketCalls calls, LocalCopies copies, const Rules& rules,
                         std::unique_ptr<Journal> journal)
    : calls_(std::move(calls)),
      copies_(std::move(copies)),
      exclusive_(rules.exclusive || journal),
      links_(rules.links),
      claims_(rules.claims && !journal),
      known_(rules.ttl),
      listings_(rules.memory_limit),
      root_(std::make_shared<BucketNode>(InodeNumbers::kRoot, S_IFDIR, 0)),
      root_hold_(std::make_shared<HeldNode>(root_)),
      journal_limit_(rules.journal_limit) {
    {
        const MutexLock lock(mutex_);
        nodes_.emplace(root_->inode, root_);
    }
    if (!journal) return;
    totals_.sends_early = false;
    back_ = std::make_unique<WriteBack>(
        std::move(journal), [this](const WriteBack::Entry& entry) { return bring(entry); },
        [this](const WriteBack::Entry& entry) { settled(entry); }, [this] { return calls_.is_away(); });
    recover();
}

Result<std::string> PosixBucket::path_locked(const BucketNode& node, bool also_replaced) {
    std::vector<const std::string*> names;
    for (const auto* at = &node; at->parent; at = at->parent.get()) {
        const bool is_gone =
            at->standing == BucketNode::Standing::replaced && (at != &node || !also_replaced);
        if (is_gone || at->standing == BucketNode::Standing::unlinked)
            return fail(ESTALE, "the file is gone, or another host has put another one in its place");
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

void PosixBucket::know(const BucketNode& node, Facts facts) {
    std::uint64_t directory = 0;
    std::string name;
    {
        const MutexLock lock(mutex_);
        if (!node.parent) return;
        directory = node.parent->inode;
        name = node.name;
    }
    known_.put(directory, name, std::move(facts));
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

BucketNodePtr PosixBucket::node_at(const BucketNodePtr& directory, const std::string& name, const Met& met) {
    const auto type = met.facts.metadata.mode & S_IFMT;
    const auto inode = numbers_.number(place_of(directory->inode, name));
    const MutexLock lock(mutex_);
    auto node = find_locked(inode);
    if (node && node->type == type && node->birth == met.birth) return node;
    node = std::make_shared<BucketNode>(inode, type, met.birth);
    node->parent = directory;
    node->name = name;
    node->facts = met.facts;
    add_locked(node);
    return node;
}

/// Whether what was found at the name of a node is that node still.
bool PosixBucket::is_of(const BucketNode& node, const Facts& facts) {
    if (node.is_local()) return true;  // it becomes what is made of it here
    if (!facts.is_there() || (facts.metadata.mode & S_IFMT) != node.type) return false;
    if (S_ISDIR(node.type)) return true;
    const auto &known = node.facts.version, &now = facts.version;
    return known == now || !tells_version(known) || !tells_version(now);
}

bool PosixBucket::has_stayed(const BucketNode& node, const Facts& now) {
    const MutexLock lock(mutex_);
    return is_of(node, now);
}

/// Nothing: the node that is held there is of another object.
std::optional<PosixBucket::Met> PosixBucket::met(Place place, const Facts& facts) {
    const auto inode = numbers_.number(place);
    const MutexLock lock(mutex_);
    auto node = find_locked(inode);
    // A directory is its path: it is there again when keys are.
    if (node && S_ISDIR(node->type) && !is_of(*node, facts)) node = nullptr;
    if (node && !is_of(*node, facts)) return std::nullopt;
    const bool is_object = facts.kind == Facts::Kind::file;
    const auto birth = node ? node->birth : is_object ? births_.at(place, facts.version) : 0;
    auto shown = facts;
    if (node && node->is_local()) {
        shown = facts_of_draft(*node->draft, node->facts, true);
    } else if (node && is_object) {
        node->facts = facts;
        if (node->draft) node->draft->renew_metadata(facts.metadata);
    }
    return Met{std::move(shown), std::move(node), birth};
}

// An answer of the bucket may be older than a change of this mount's own that ended meanwhile, or tell of one
// that is under way. Those hold the path: who has it and finds another object has found another host's.
Result<PosixBucket::Met> PosixBucket::meet(const BucketNode& directory, const std::string& name,
                                           Asked asked) {
    auto facts = facts_at(directory, name, asked);
    if (!facts) return fail(std::move(facts.error()));
    const auto place = place_of(directory.inode, name);
    if (auto as_known = met(place, *facts)) return std::move(*as_known);
    const auto path = path_in(directory, name);
    if (!path) return fail(path.error());
    const PathLocks::Held held(locks_, {{*path, false}});
    for (;;) {
        facts = facts_at(directory, name);
        if (!facts) return fail(std::move(facts.error()));
        if (auto as_known = met(place, *facts)) return std::move(*as_known);
        replaced(find(numbers_.number(place)));
    }
}

void PosixBucket::replaced(const BucketNodePtr& node) {
    if (!node) return;
    births_.left(place(*node));
    const MutexLock lock(mutex_);
    if (node->standing == BucketNode::Standing::named) node->standing = BucketNode::Standing::replaced;
    forget_locked(node);
}

/// Another file of the same number may have come to its name.
void PosixBucket::forget_locked(const BucketNodePtr& node) {
    for (auto* const by_inode : {&nodes_, &fresh_}) {
        const auto found = by_inode->find(node->inode);
        if (found == by_inode->end()) continue;
        const auto& known = found->second;
        if (!known.owner_before(node) && !node.owner_before(known)) by_inode->erase(found);
    }
}

Result<Facts> PosixBucket::head_of(const BucketNodePtr& node, const std::string& path) {
    const auto place = this->place(*node);
    const auto asked_at = known_.moment(place);
    auto now = calls_.head(path);
    if (!now && now.error().code != ENOENT) return now;
    if (!now) {
        known_.drop(place);
        replaced(node);
        return fail(ESTALE, now.error().message);
    }
    known_.put_answer(place, *now, asked_at);
    if (has_stayed(*node, *now)) return now;
    replaced(node);
    return fail(ESTALE, "another host has put another object in its place");
}

std::shared_ptr<Draft> PosixBucket::draft_of(const BucketNode& node) {
    const MutexLock lock(mutex_);
    return node.draft;
}

Result<PosixBucket::Object> PosixBucket::object_of(const BucketNode& node) {
    const MutexLock lock(mutex_);
    auto path = path_locked(node, true);
    if (!path) return fail(std::move(path.error()));
    return Object{std::move(*path), node.facts};
}

void PosixBucket::doubt(const BucketNode& node) {
    known_.drop(place(node));
}

Result<PosixFile::Renewal> PosixBucket::renew_node(const BucketNodePtr& node, std::uint64_t asked) {
    const auto object = object_of(*node);
    if (!object) return fail(object.error());
    const PathLocks::Held held(locks_, {{object->path, false}});
    const auto place = this->place(*node);
    const auto asked_at = known_.moment(place);
    auto now = calls_.head(object->path);
    if (!now) return fail(now.error().code == ENOENT ? ESTALE : now.error().code, now.error().message);
    if ((now->metadata.mode & S_IFMT) != node->type) return fail(ESTALE, "it is no regular file any more");
    known_.put_answer(place, *now, asked_at);
    const MutexLock lock(mutex_);
    const auto path = path_locked(*node, true);
    if (!path || *path != object->path) return fail(ESTALE, "the file has got another name");
    if (node->draft) return PosixFile::Renewal{0, 0, false};
    const PosixFile::Renewal renewal{node->facts.size, now->size, true};
    // For good: it is no other version to whoever asks once more.
    node->is_never_renewed |= renewal.size < renewal.old_size && asked < renewal.old_size;
    if (node->is_never_renewed) return fail(ESTALE, "another host has put a shorter one in its place");
    if (node->standing == BucketNode::Standing::named) births_.changed(place, now->version, node->birth);
    node->facts = std::move(*now);
    return renewal;
}

Result<PosixFile::Renewal> PosixBucket::renew(const PosixNode& node, std::uint64_t asked) {
    return renew_node(bucket_node(node), asked);
}

std::map<std::string, unsigned char> PosixBucket::unpublished_in(std::uint64_t directory) {
    std::map<std::string, unsigned char> names;
    std::vector<BucketNodePtr> held;  // let go after the lock
    const MutexLock lock(mutex_);
    for (const auto& [inode, weak] : fresh_) {
        auto node = weak.lock();
        if (!node) continue;
        if (node->parent && node->parent->inode == directory && node->standing == BucketNode::Standing::named)
            names.emplace(node->name, static_cast<unsigned char>(IFTODT(node->type)));
        held.push_back(std::move(node));
    }
    return names;
}

PosixAttributes PosixBucket::shown(const Facts& facts, const BucketNode& node,
                                   BucketNode::Standing standing) {
    return shown(facts, node.inode, node.birth, standing);
}

PosixAttributes PosixBucket::shown(const Facts& facts, std::uint64_t inode, std::uint64_t birth,
                                   BucketNode::Standing standing) {
    PosixAttributes attributes;
    attributes.born_ns = static_cast<std::int64_t>(birth);
    auto& status = attributes.status;
    status.st_dev = 1;
    status.st_ino = inode;
    status.st_mode = facts.metadata.mode;
    const bool has_name = standing == BucketNode::Standing::named;
    status.st_nlink = !has_name ? 0 : (S_ISDIR(facts.metadata.mode) ? 2 : 1);
    status.st_uid = facts.metadata.uid;
    status.st_gid = facts.metadata.gid;
    status.st_size = static_cast<off_t>(facts.size);
    status.st_blksize = 4096;
    status.st_blocks = static_cast<blkcnt_t>((facts.size + kBlock - 1) / kBlock);
    const auto time_of = [&facts](std::int64_t kept) {
        return to_timespec(S_ISDIR(facts.metadata.mode) ? directory_time_ns(kept) : kept);
    };
    status.st_atim = time_of(facts.metadata.atime_ns);
    status.st_mtim = time_of(facts.metadata.mtime_ns);
    status.st_ctim = time_of(facts.metadata.ctime_ns);
    // The bytes of what was unlinked are in its draft alone.
    if (S_ISREG(facts.metadata.mode) && standing != BucketNode::Standing::unlinked)
        attributes.version = facts.version;
    if (facts.may_be_begun()) attributes.age_s = std::numeric_limits<double>::infinity();
    attributes.trust = attributes.version.empty()           ? PosixAttributes::Trust::none
                       : is_strong_etag(attributes.version) ? PosixAttributes::Trust::always
                                                            : PosixAttributes::Trust::by_time;
    return attributes;
}

Result<PosixAttributes> PosixBucket::look_up(const PosixNode& directory, const std::string& name) {
    const auto& parent = *bucket_node(directory);
    const auto found = meet(parent, name);
    if (!found) return fail(found.error());
    if (!found->facts.is_there()) return fail(ENOENT, "no such name");
    return shown(found->facts, numbers_.number(place_of(parent.inode, name)), found->birth,
                 BucketNode::Standing::named);
}

Result<PosixNodePtr> PosixBucket::hold(const PosixNode& directory, const std::string& name) {
    const auto& parent = bucket_node(directory);
    auto found = meet(*parent, name);
    if (!found) return fail(std::move(found.error()));
    if (!found->facts.is_there()) return fail(ENOENT, "no such name");
    return std::make_shared<HeldNode>(found->node ? std::move(found->node) : node_at(parent, name, *found));
}

Result<PosixAttributes> PosixBucket::attributes_of(const BucketNodePtr& node) {
    const auto found = facts(node);
    if (!found) return fail(found.error());
    auto standing = BucketNode::Standing::named;
    {
        const MutexLock lock(mutex_);
        standing = node->standing;
    }
    return shown(*found, *node, standing);
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
    if (!read && (read.error().code == ENOENT || read.error().code == ESTALE)) {
        doubt(*link);
        return fail(ESTALE, read.error().message);
    }
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
    stats.hidden = hidden_.sums();
    if (back_) stats.queue = back_->figures();
    if (back_) stats.queue->room = room();
    return stats;
}

}  // namespace tierfs::s3
