#include "fs/metadata/directory_reader.hpp"

#include <utility>

namespace tierfs {
namespace {

constexpr std::uint64_t kDotCookie = 1;
constexpr std::uint64_t kDotDotCookie = 2;

}  // namespace

void DirectoryReader::read(NodeId directory, std::uint64_t after, std::size_t limit,
                           std::function<void(Result<Items>)> done) {
    if (after == 0 && !outage_.is_on()) beside_.read(directory);
    const auto listed = table_.listed(directory, freshness_.now());
    if (!listed) return done(fail(listed.error()));
    // Who goes on reading stays with the listing it began with, however old that has become.
    if (validity_.listing_left(directory, *listed) || (after != 0 && *listed != 0)) {
        if (auto page = ahead_.take({directory, after, limit}, moment())) return done(std::move(*page));
        return done(serve(directory, after, limit));
    }
    if (freshness_.servable(*listed) && outage_.is_on()) return done(serve(directory, after, limit));
    lister_.list(directory, [this, directory, after, limit, listed_ns = *listed,
                             done = std::move(done)](const Result<void>& result) {
        if (!result && !(is_unreachable(result.error()) && freshness_.servable(listed_ns))) {
            return done(fail(result.error()));
        }
        done(serve(directory, after, limit));
    });
}

void DirectoryReader::read_ahead(NodeId directory, std::uint64_t after, std::size_t limit) {
    ahead_.make({directory, after, limit}, moment(), [&] { return serve(directory, after, limit); });
}

Result<DirectoryItem> DirectoryReader::dot(NodeId node, const char* name, std::uint64_t cookie) {
    const auto record = table_.node(node);
    if (!record) return fail(record.error());
    if (!*record) return fail(ESTALE, "node " + std::to_string(node) + ": not known any more");
    auto view = asker_.view(node, **record);
    if (!view) return fail(view.error());
    return DirectoryItem{name, cookie, std::move(*view)};
}

Result<DirectoryReader::Items> DirectoryReader::serve(NodeId directory, std::uint64_t after,
                                                      std::size_t limit) {
    Items items;
    if (after < kDotCookie && items.size() < limit) {
        auto item = dot(directory, ".", kDotCookie);
        if (!item) return fail(item.error());
        items.push_back(std::move(*item));
    }
    if (after < kDotDotCookie && items.size() < limit) {
        const auto record = table_.node(directory);
        if (!record) return fail(record.error());
        const NodeId parent = *record && (*record)->parent != 0 ? (*record)->parent : kRootNode;
        auto item = dot(parent, "..", kDotDotCookie);
        if (!item) return fail(item.error());
        items.push_back(std::move(*item));
    }
    std::string name;
    if (after > kDotDotCookie) {
        const auto record = table_.node(after);
        if (!record) return fail(record.error());
        // No cookie of this directory: there is nothing after it.
        if (after < kFirstNode || !*record || (*record)->parent != directory) return items;
        name = (*record)->name;
    }
    if (items.size() < limit) {
        if (auto done = append_names(directory, name, limit, items); !done) return fail(done.error());
    }
    return items;
}

Result<void> DirectoryReader::append_names(NodeId directory, const std::string& after, std::size_t limit,
                                           Items& items) {
    const std::int64_t now = freshness_.now();
    const auto listed = table_.listed(directory, now);
    if (!listed) return fail(listed.error());
    const auto listing_left = validity_.listing_left(directory, *listed);
    std::vector<std::string> names;
    std::vector<NodeId> nodes;
    bool is_damaged = false;
    const std::size_t before = items.size();
    // Nothing would mean the end: names whose nodes are all lost are passed by.
    for (std::string from = after; items.size() == before; from = names.back()) {
        names.clear();
        nodes.clear();
        auto scanned = table_.index().for_each_name(directory, from,
                                                    [&](std::string_view name, const NameRecord& leads_to) {
                                                        names.emplace_back(name);
                                                        nodes.push_back(leads_to.node);
                                                        return names.size() < limit - before;
                                                    });
        if (!scanned) return scanned;
        if (names.empty()) break;
        const auto records = table_.nodes(nodes);
        if (!records) return fail(records.error());
        for (std::size_t i = 0; i < names.size(); ++i) {
            const NodePtr& record = (*records)[i];
            if (!record) {
                is_damaged = true;
                continue;
            }
            NodeView view{nodes[i], record->inode, record->attributes, {}};
            if (!asker_.is_distrusted(nodes[i], *record)) {
                const auto own =
                    validity_.left(*record, std::max(record->checked_ns, *listed)).value_or(view.valid_for);
                view.valid_for = std::max(own, listing_left.value_or(view.valid_for));
            }
            items.push_back({names[i], nodes[i], std::move(view)});
        }
    }
    if (is_damaged) {
        // A name whose node is lost: listed afresh next time.
        auto batch = table_.index().batch();
        batch->erase_listing(directory);
        (void)table_.index().commit(std::move(batch));
    }
    return {};
}

}  // namespace tierfs
