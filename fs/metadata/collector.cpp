#include "fs/metadata/collector.hpp"

#include "config/base/log.hpp"

namespace tierfs {
namespace {

constexpr std::size_t kOrphansPerStep = 200;
constexpr std::size_t kChangesPerStep = 1000;

}  // namespace

void Collector::start() {
    workers_.post([this](bool canceled) {
        if (!canceled) step();
    });
}

Result<std::vector<Collector::Orphan>> Collector::next() {
    const std::string end = orphan_name(session_, 0);
    std::vector<Orphan> orphans;
    auto scanned = index_.for_each_name(kOrphans, "", [&](std::string_view name, const NameRecord& record) {
        if (name >= end) return false;
        orphans.push_back({std::string(name), record});
        return orphans.size() < kOrphansPerStep;
    });
    if (!scanned) return fail(scanned.error());
    return orphans;
}

void Collector::step() {
    const auto orphans = next();
    if (!orphans) return log::warning("names: cannot collect old nodes: " + orphans.error().message);
    if (orphans->empty()) return;
    auto batch = index_.batch();
    std::size_t changes = 0;
    for (const Orphan& orphan : *orphans) {
        if (const auto done = collect(*batch, orphan, changes); !done) {
            return log::warning("names: cannot collect old nodes: " + done.error().message);
        }
        if (changes >= kChangesPerStep) break;
    }
    if (const auto done = index_.commit(std::move(batch)); !done) {
        return log::warning("names: cannot collect old nodes: " + done.error().message);
    }
    start();
}

Result<bool> Collector::collect(IndexBatch& batch, const Orphan& orphan, std::size_t& changes) {
    const NodeId node = orphan.record.node;
    if (orphan.record.kind == ObjectKind::directory) {
        bool is_cut_short = false;
        const auto scanned =
            index_.for_each_name(node, "", [&](std::string_view name, const NameRecord& child) {
                if (changes >= kChangesPerStep) {
                    is_cut_short = true;
                    return false;
                }
                batch.erase_name(node, name);
                batch.put_name(kOrphans, orphan_name(0, child.node), child);
                ++changes;
                return true;
            });
        if (!scanned) return fail(scanned.error());
        if (is_cut_short) return false;
        const auto listing = index_.find_listing(node);
        if (!listing) return fail(listing.error());
        if (*listing) {
            batch.erase_listing(node);
            hidden_.subtract((*listing)->hidden);
        }
    }
    batch.erase_node(node);
    batch.erase_name(kOrphans, orphan.name);
    ++changes;
    return true;
}

}  // namespace tierfs
