#include "fs/metadata/node_table.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "config/base/sync_point.hpp"

namespace tierfs {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;
constexpr milliseconds kLongestNegative{5000};
constexpr milliseconds kStaleFor{1000};

std::size_t cost(const NodeRecord& record) {
    return sizeof(NodeRecord) + 32 + record.name.capacity() + record.attributes.version.capacity();
}

std::size_t cost(const NameKey& key) {
    return 2 * key.name.capacity();
}

NodePtr unknown_root() {
    NodeRecord root;
    root.inode = kRootNode;
    root.attributes.kind = ObjectKind::directory;
    root.attributes.mode = 0555;
    root.attributes.nlink = 2;
    root.checked_ns = kDistrusted;
    return std::make_shared<const NodeRecord>(std::move(root));
}

Error gone(NodeId node) {
    return Error{ESTALE, "node " + std::to_string(node) + ": not known any more"};
}

}  // namespace

std::string orphan_name(NodeId session, NodeId node) {
    std::array<char, 33> text{};
    std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(session),
                  static_cast<unsigned long long>(node));
    return std::string(text.data(), 32);
}

bool is_unreachable(const Error& error) {
    switch (error.code) {
        case ETIMEDOUT:
        case EIO:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ECONNREFUSED:
            return true;
        default:
            return false;
    }
}

Freshness::Freshness(milliseconds ttl, bool serves_stale, std::function<std::int64_t()> now)
    : ttl_(std::max(ttl, milliseconds(0))),
      serves_stale_(serves_stale),
      // What would overflow nanoseconds is as good as forever.
      forever_(ttl >= milliseconds(std::int64_t{1} << 42)),
      now_(std::move(now)) {}

std::optional<milliseconds> Freshness::left(std::int64_t confirmed_ns) const {
    if (confirmed_ns <= 0) return std::nullopt;
    if (forever_) return kForever;
    const std::int64_t age = now_() - confirmed_ns;
    const std::int64_t ttl = ttl_.count() * kNanosecondsPerMillisecond;
    if (age < 0 || age >= ttl) return std::nullopt;
    return milliseconds((ttl - age) / kNanosecondsPerMillisecond);
}

bool Freshness::differs(std::int64_t earlier_ns, std::int64_t later_ns) const {
    constexpr int kParts = 4;
    if (forever_) return false;
    const auto part = std::chrono::duration_cast<std::chrono::nanoseconds>(ttl_).count() / kParts;
    return part > 0 && later_ns - earlier_ns > part;
}

bool Freshness::servable(std::int64_t confirmed_ns) const {
    if (confirmed_ns <= 0) return false;
    if (forever_ || (serves_stale_ && ttl_.count() > 0)) return true;
    const std::int64_t age = now_() - confirmed_ns;
    return age >= 0 && age / 2 < ttl_.count() * kNanosecondsPerMillisecond;
}

milliseconds Freshness::stale_for() const {
    return std::min(ttl_, kStaleFor);
}

milliseconds Freshness::negative_ttl() const {
    return std::min(ttl_, kLongestNegative);
}

void Changes::put_node(NodeId node, NodeRecord record) {
    nodes_.emplace_back(node, std::make_shared<const NodeRecord>(std::move(record)));
}

void Changes::put_name(NodeId parent, const std::string& name, NodeId node, ObjectKind kind) {
    names_.emplace_back(NameKey{parent, name}, NameRecord{node, kind});
}

void Changes::erase_name(NodeId parent, const std::string& name) {
    names_.emplace_back(NameKey{parent, name}, NameRecord{});
}

void Changes::orphan(NodeId session, NodeId old, const NodeRecord& record) {
    batch_->put_name(kOrphans, orphan_name(session, old), {old, record.attributes.kind});
    events_.push_back({record.parent, record.name, old});
}

NodeTable::NodeTable(Index& index, std::uint64_t memory, std::string identity, InvalidationSink& sink,
                     std::shared_ptr<const DatasetRules> rules)
    : index_(index),
      identity_(std::move(identity)),
      sink_(sink),
      nodes_(memory / 16 * 9),
      names_(memory / 16 * 4),
      objects_(memory / 16 * 2),
      absent_(memory / 16),
      rules_(rules && rules->count() > 1 ? std::move(rules) : nullptr),
      by_rule_(rules_ ? rules_->count() : 0) {}

std::vector<std::uint64_t> NodeTable::files_by_rule() const {
    return {by_rule_.begin(), by_rule_.end()};
}

void NodeTable::count_file(const NodeRecord& record) {
    sizes_.add(record.attributes.size);
    if (!rules_) return;
    const auto path = this->path(record.parent, record.name);
    if (!path) return;
    FileFacts facts;
    facts.size = record.attributes.size;
    by_rule_[rules_->find(*path, facts)].fetch_add(1, std::memory_order_relaxed);
}

Result<NodePtr> NodeTable::node(NodeId node) {
    if (auto cached = nodes_.get(node)) return *cached;
    const auto generation = nodes_.generation(node);
    auto found = index_.find_node(node);
    if (!found) return fail(std::move(found.error()));
    if (!*found) return node == kRootNode ? unknown_root() : nullptr;
    auto record = std::make_shared<const NodeRecord>(std::move(**found));
    nodes_.add(node, record, cost(*record), generation);
    if (record->attributes.kind == ObjectKind::file) count_file(*record);
    return record;
}

Result<std::vector<NodePtr>> NodeTable::nodes(std::span<const NodeId> nodes) {
    struct Missing {
        NodeId node;
        std::size_t place;
        std::uint64_t generation;
    };
    std::vector<NodePtr> records(nodes.size());
    std::vector<Missing> missing;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (auto cached = nodes_.get(nodes[i])) {
            records[i] = std::move(*cached);
        } else {
            missing.push_back({nodes[i], i, nodes_.generation(nodes[i])});
        }
    }
    std::sort(missing.begin(), missing.end(), [](auto& a, auto& b) { return a.node < b.node; });
    std::vector<NodeId> ids;
    ids.reserve(missing.size());
    for (const auto& one : missing) ids.push_back(one.node);
    auto next = missing.begin();
    auto found = index_.find_nodes(ids, [&](NodeId id, NodeRecord&& found_record) {
        while (next->node != id) ++next;
        auto record = std::make_shared<const NodeRecord>(std::move(found_record));
        nodes_.add(id, record, cost(*record), next->generation);
        if (record->attributes.kind == ObjectKind::file) sizes_.add(record->attributes.size);
        records[next->place] = std::move(record);
        ++next;
    });
    if (!found) return fail(std::move(found.error()));
    return records;
}

Result<std::optional<NodeId>> NodeTable::leads_to(NodeId parent, const std::string& name) {
    const NameKey key{parent, name};
    if (auto cached = names_.get(key)) return cached;
    const auto generation = names_.generation(key);
    auto found = index_.find_name(parent, name);
    TIERFS_SYNC_POINT("names.lookup.indexed");
    if (!found) return fail(std::move(found.error()));
    if (!*found) return std::optional<NodeId>();
    names_.add(key, (*found)->node, cost(key), generation);
    return std::optional<NodeId>((*found)->node);
}

Result<std::optional<Known>> NodeTable::name(NodeId parent, const std::string& name) {
    const auto id = leads_to(parent, name);
    if (!id) return fail(id.error());
    if (!*id) return std::optional<Known>();
    return leading_to(**id, parent, name);
}

Result<std::optional<Known>> NodeTable::leading_to(NodeId id, NodeId parent, const std::string& name) {
    auto record = node(id);
    if (!record) return fail(std::move(record.error()));
    if (!*record || (*record)->parent != parent || (*record)->name != name) return std::optional<Known>();
    return std::optional<Known>(Known{id, *record});
}

Result<bool> NodeTable::is_current(NodeId node, const NodeRecord& record) {
    if (node == kRootNode) return true;
    const auto id = leads_to(record.parent, record.name);
    if (!id) return fail(id.error());
    return *id == node;
}

Result<std::string> NodeTable::path(NodeId id) {
    std::vector<NodePtr> steps;
    std::size_t length = 0;
    while (id != kRootNode) {
        auto record = node(id);
        if (!record) return fail(std::move(record.error()));
        if (!*record) return fail(gone(id));
        length += (*record)->name.size() + 1;
        if (steps.size() >= kDeepestPath || length > kLongestPath) {
            return fail(ENAMETOOLONG, "node " + std::to_string(id) + ": its path is too long or too deep");
        }
        id = (*record)->parent;
        steps.push_back(std::move(*record));
    }
    std::string path;
    path.reserve(length);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
        if (!path.empty()) path += '/';
        path += (*step)->name;
    }
    return path;
}

Result<std::string> NodeTable::path(NodeId parent, const std::string& name) {
    auto path = this->path(parent);
    if (!path) return path;
    if (!path->empty()) *path += '/';
    *path += name;
    if (path->size() > kLongestPath) return fail(ENAMETOOLONG, "the path of a name is too long");
    return path;
}

ContentId NodeTable::content(const std::string& path, const std::string& version) const {
    return content_id(identity_, path, version);
}

Result<std::shared_ptr<const ObjectRef>> NodeTable::object(NodeId id) {
    if (auto cached = objects_.get(id)) return *cached;
    const auto generation = objects_.generation(id);
    const auto record = node(id);
    if (!record) return fail(record.error());
    if (!*record) return fail(gone(id));
    const Attributes& attributes = (*record)->attributes;
    if (attributes.kind == ObjectKind::directory) {
        return fail(EISDIR, "node " + std::to_string(id) + ": is a directory");
    }
    if (attributes.kind != ObjectKind::file)
        return fail(EINVAL, "node " + std::to_string(id) + ": is no file");
    auto path = this->path(id);
    if (!path) return fail(std::move(path.error()));
    const std::size_t bytes = sizeof(ObjectRef) + path->capacity() + attributes.version.capacity() + 32;
    auto object = std::make_shared<const ObjectRef>(ObjectRef{(*record)->content, std::move(*path),
                                                              attributes.version, attributes.size,
                                                              attributes.archived, attributes.mtime_ns});
    objects_.add(id, object, bytes, generation);
    return object;
}

std::optional<NodeId> NodeTable::node_of(const std::string& path) {
    NodeId node = kRootNode;
    for (std::size_t begin = 0; begin < path.size();) {
        const auto end = std::min(path.find('/', begin), path.size());
        const auto known = name(node, path.substr(begin, end - begin));
        if (!known || !*known) return std::nullopt;
        node = (*known)->node;
        begin = end + 1;
    }
    return node;
}

Result<std::int64_t> NodeTable::listed(NodeId directory, std::int64_t now) {
    const auto listing = index_.find_listing(directory);
    if (!listing) return fail(listing.error());
    return *listing && (*listing)->listed_ns <= now ? (*listing)->listed_ns : 0;
}

Result<std::int64_t> NodeTable::confirmed(const NodeRecord& record, std::int64_t now) {
    if (record.checked_ns == kDistrusted || record.parent == 0) return record.checked_ns;
    auto directory = listed(record.parent, now);
    if (!directory) return directory;
    return std::max(record.checked_ns <= now ? record.checked_ns : 0, *directory);
}

Result<void> NodeTable::commit(Changes& changes) {
    for (const auto& [key, record] : changes.names_) {
        if (record.node == 0) {
            changes.batch_->erase_name(key.parent, key.name);
        } else {
            changes.batch_->put_name(key.parent, key.name, record);
        }
    }
    for (const auto& [id, record] : changes.nodes_) changes.batch_->put_node(id, *record);
    if (auto done = index_.commit(std::move(changes.batch_)); !done) return done;
    TIERFS_SYNC_POINT("names.commit.indexed");
    for (auto& [id, record] : changes.nodes_) {
        const std::size_t bytes = cost(*record);
        nodes_.put(id, std::move(record), bytes);
        objects_.erase(id);
    }
    for (const auto& [key, record] : changes.names_) {
        if (record.node == 0) {
            names_.erase(key);
            continue;
        }
        names_.put(key, record.node, cost(key));
        absent_.erase(key);
    }
    ++changes_;
    return {};
}

void NodeTable::announce(const Changes& changes) {
    TIERFS_SYNC_POINT("names.announce");
    for (const auto& event : changes.events_) {
        sink_.entry_changed(event.parent, event.name);
        sink_.node_changed(event.old);
    }
}

bool NodeTable::known_absent(NodeId parent, const std::string& name, std::int64_t now) {
    const auto until = absent_.get({parent, name});
    // Further away than any was ever set: the clock went back.
    return until && now < *until && *until - now <= kLongestNegative.count() * kNanosecondsPerMillisecond;
}

milliseconds NodeTable::absent_left(NodeId parent, const std::string& name, std::int64_t now) {
    const auto until = absent_.get({parent, name});
    const std::int64_t left = until ? (*until - now) / kNanosecondsPerMillisecond : 0;
    return milliseconds(left > 0 && left <= kLongestNegative.count() ? left : 0);
}

void NodeTable::remember_absent(NodeId parent, const std::string& name, std::int64_t until) {
    const NameKey key{parent, name};
    absent_.put(key, until, cost(key));
}

}  // namespace tierfs
