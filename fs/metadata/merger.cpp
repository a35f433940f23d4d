#include "fs/metadata/merger.hpp"

#include <algorithm>

namespace tierfs {
namespace {

bool same_object(const Attributes& known, const Attributes& found) {
    return known.kind == found.kind && (known.kind == ObjectKind::directory ||
                                        (known.version == found.version && known.size == found.size));
}

/// The number of a path's first node, kept over versions; of a file with several names that of all of them.
std::uint64_t inode_of(const Attributes& found, std::uint64_t known, NodeId node) {
    constexpr std::uint64_t kLeastLink = std::uint64_t{1} << 62U;
    if (found.link != 0) return found.link;
    return known < kLeastLink ? known : node;
}

}  // namespace

void HiddenTotals::add(const Counts& counts) {
    MutexLock lock(mutex_);
    for (const auto& [reason, count] : counts) counts_[reason] += count;
}

void HiddenTotals::subtract(const Counts& counts) {
    MutexLock lock(mutex_);
    for (const auto& [reason, count] : counts) {
        const auto found = counts_.find(reason);
        if (found == counts_.end()) continue;
        found->second -= std::min(found->second, count);
        if (found->second == 0) counts_.erase(found);
    }
}

HiddenTotals::Counts HiddenTotals::get() const {
    MutexLock lock(mutex_);
    return counts_;
}

bool Merger::is_same(const Attributes& a, const Attributes& b) {
    return a.kind == b.kind && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
           a.mode == b.mode && a.acl == b.acl && a.uid == b.uid && a.gid == b.gid && a.nlink == b.nlink &&
           a.archived == b.archived && a.version == b.version;
}

bool Merger::is_newer(const NodeRecord& known, std::int64_t started) const {
    return known.checked_ns > started && known.checked_ns <= freshness_.now();
}

Result<Known> Merger::found(Changes& changes, NodeId parent, const std::string& path, const std::string& name,
                            Attributes attributes, std::int64_t started,
                            const std::optional<Known>& existing) {
    if (existing && is_newer(*existing->record, started)) return *existing;
    NodeRecord record;
    record.parent = parent;
    record.name = name;
    record.checked_ns = started;
    record.attributes = std::move(attributes);
    if (existing && same_object(existing->record->attributes, record.attributes)) {
        record.inode = inode_of(record.attributes, existing->record->inode, existing->node);
        record.content = existing->record->content;
        if (existing->record->checked_ns == started && existing->record->inode == record.inode &&
            is_same(existing->record->attributes, record.attributes)) {
            return *existing;
        }
        changes.put_node(existing->node, record);
        return Known{existing->node, std::make_shared<const NodeRecord>(std::move(record))};
    }
    const auto node = table_.index().allocate_node();
    if (!node) return fail(node.error());
    record.inode = inode_of(record.attributes, existing ? existing->record->inode : *node, *node);
    if (record.attributes.kind == ObjectKind::file) {
        record.content = table_.content(path, record.attributes.version);
        table_.count_file(record);
    }
    if (existing) {
        if (auto done = retire(changes, *existing); !done) return fail(done.error());
    }
    changes.put_name(parent, name, *node, record.attributes.kind);
    changes.put_node(*node, record);
    return Known{*node, std::make_shared<const NodeRecord>(std::move(record))};
}

Result<void> Merger::vanished(Changes& changes, const Known& known) {
    changes.erase_name(known.record->parent, known.record->name);
    return retire(changes, known);
}

Result<void> Merger::retire(Changes& changes, const Known& known) {
    changes.orphan(session_, known.node, *known.record);
    if (known.record->attributes.kind != ObjectKind::directory) return {};
    const auto listing = table_.index().find_listing(known.node);
    if (!listing) return fail(listing.error());
    if (!*listing) return {};
    changes.batch().erase_listing(known.node);
    hidden_.subtract((*listing)->hidden);
    return {};
}

}  // namespace tierfs
