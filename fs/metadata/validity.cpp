#include "fs/metadata/validity.hpp"

namespace tierfs {

using std::chrono::milliseconds;

bool Validity::never_changes(const NodeRecord& record) const {
    if (!rules_ || record.parent == 0) return false;
    const auto path = table_.path(record.parent, record.name);
    if (!path) return false;
    if (record.attributes.kind == ObjectKind::directory) return rules_->is_immutable_inside(*path);
    FileFacts facts;
    facts.size = record.attributes.size;
    facts.age = milliseconds((freshness_.now() - record.attributes.mtime_ns) / std::int64_t{1'000'000});
    return rules_->is_immutable(*path, facts);
}

bool Validity::keeps_listing(NodeId directory) const {
    if (!rules_) return false;
    const auto path = table_.path(directory);
    return path && rules_->is_immutable_inside(*path);
}

std::optional<milliseconds> Validity::left(const NodeRecord& record, std::int64_t confirmed_ns) const {
    if (confirmed_ns > 0 && never_changes(record)) return kForever;
    return freshness_.left(confirmed_ns);
}

std::optional<milliseconds> Validity::listing_left(NodeId directory, std::int64_t listed_ns) const {
    if (listed_ns > 0 && keeps_listing(directory)) return kForever;
    return freshness_.left(listed_ns);
}

}  // namespace tierfs
