#include "fs/metadata/asker.hpp"

#include <algorithm>

#include "config/base/sync_point.hpp"

namespace tierfs {
namespace {

/// A listing answers about this many names with one request (a page of S3's ListObjectsV2).
constexpr std::uint64_t kNamesPerPage = 1000;
constexpr std::size_t kMostDirectoriesWatched = 4096;

Error absent(const std::string& name) {
    return Error{ENOENT, "\"" + name + "\": no such file or directory"};
}

}  // namespace

Result<NodeView> Asker::view(NodeId node, const NodeRecord& record) {
    NodeView view{node, record.inode, record.attributes, std::chrono::milliseconds(0)};
    if (is_distrusted(node, record)) return view;
    auto left = validity_.left(record, record.checked_ns);
    if (!left) {
        const auto confirmed = table_.confirmed(record, freshness_.now());
        if (!confirmed) return fail(confirmed.error());
        left = validity_.left(record, *confirmed);
    }
    if (left) view.valid_for = *left;
    return view;
}

Result<std::optional<Known>> Asker::recorded(NodeId parent, const std::string& name) {
    if (parent != 0) return table_.name(parent, name);
    const auto root = table_.node(kRootNode);
    if (!root) return fail(root.error());
    return std::optional<Known>(Known{kRootNode, *root});
}

std::optional<Asker::Answer> Asker::known(NodeId parent, const std::string& name) {
    const std::int64_t now = freshness_.now();
    const std::uint64_t before = doubts_committed_;
    const auto recorded_now = recorded(parent, name);
    if (!recorded_now) return fail(recorded_now.error());
    const std::optional<Known>& found = *recorded_now;
    TIERFS_SYNC_POINT("names.known.found");
    if (found) {
        if (is_distrusted(found->node, *found->record)) return std::nullopt;
        // The record may be one of before a doubt that is in the index, and no longer in the set, by now.
        if (doubts_committed_ != before) return known(parent, name);
        auto left = validity_.left(*found->record, found->record->checked_ns);
        if (!left) {
            const auto confirmed = table_.confirmed(*found->record, now);
            if (!confirmed) return fail(confirmed.error());
            left = validity_.left(*found->record, *confirmed);
        }
        if (!left) return std::nullopt;
        return NodeView{found->node, found->record->inode, found->record->attributes, *left};
    }
    if (table_.known_absent(parent, name, now)) return fail(absent(name));
    const auto listed = table_.listed(parent, now);
    if (!listed) return fail(listed.error());
    if (validity_.listing_left(parent, *listed)) return fail(absent(name));
    return std::nullopt;
}

void Asker::ask(NodeId parent, const std::string& name, std::function<void(const Answer&)> done) {
    NameKey key{parent, name};
    if (outage_.is_on()) {
        const auto known_once = stale(key, Patience::error());
        if (known_once || known_once.error().code == ENOENT) return done(known_once);
    }
    if (!flights_.board(key, std::move(done))) return;
    workers_.post([this, question = Question{std::move(key), patience_.now()}](bool canceled) {
        work(question, canceled);
    });
}

void Asker::work(const Question& question, bool canceled) {
    const NameKey& key = question.key;
    if (!canceled) {
        // It may have been answered between the caller's look and this.
        if (const auto answer = known(key.parent, key.name)) return flights_.land(key, *answer);
        if (key.parent != 0 && !patience_.is_over(question.asked) && is_listing_worth_it(key.parent)) {
            lister_->list_first_page(key.parent, [this, question](Result<bool> complete) {
                after_first_page(question, complete);
            });
            return;
        }
    }
    stat(question, canceled);
}

void Asker::after_first_page(const Question& question, const Result<bool>& complete) {
    const NameKey& key = question.key;
    if (!complete && (is_unreachable(complete.error()) || complete.error().code == ECANCELED)) {
        return flights_.land(key, stale(key, complete.error()));
    }
    if (const auto answer = known(key.parent, key.name)) return flights_.land(key, *answer);
    // On a worker of its own: others wait for the same page.
    workers_.post([this, question](bool canceled) { stat(question, canceled); });
}

void Asker::stat(const Question& question, bool canceled) {
    const NameKey& key = question.key;
    if (canceled) return flights_.land(key, fail(ECANCELED, "the mount is being stopped"));
    if (patience_.is_over(question.asked)) return flights_.land(key, stale(key, Patience::error()));
    flights_.land(key, ask_origin(key));
}

Asker::Answer Asker::ask_origin(const NameKey& key) {
    const std::int64_t started = freshness_.now();
    if (key.parent == 0) return take_in_root(origin_.stat(""), started);
    const auto path = table_.path(key.parent, key.name);
    if (!path) return fail(path.error());
    return take_in(key, *path, origin_.stat(*path), started);
}

Asker::Answer Asker::take_in_root(Result<Attributes> attributes, std::int64_t started) {
    if (!attributes) {
        return is_unreachable(attributes.error()) ? stale({0, ""}, attributes.error())
                                                  : Answer(fail(attributes.error()));
    }
    if (attributes->kind != ObjectKind::directory) return fail(ENOTDIR, "the source is no directory");
    NodeRecord root;
    root.inode = kRootNode;
    root.attributes = std::move(*attributes);
    root.checked_ns = started;
    Changes changes(table_.index());
    changes.put_node(kRootNode, root);
    {
        const Turns::Turn turn(turns_, 0);
        if (auto done = table_.commit(changes); !done) return fail(done.error());
    }
    return view(kRootNode, root);
}

Asker::Answer Asker::take_in(const NameKey& key, const std::string& path, Result<Attributes> attributes,
                             std::int64_t started) {
    const bool is_absent =
        !attributes && (attributes.error().code == ENOENT || attributes.error().code == ENOTDIR);
    if (!attributes && !is_absent) {
        return is_unreachable(attributes.error()) ? stale(key, attributes.error())
                                                  : Answer(fail(attributes.error()));
    }
    Changes changes(table_.index());
    Answer answer;
    {
        const Turns::Turn turn(turns_, key.parent);
        answer = is_absent ? take_in_absent(changes, key, started)
                           : take_in_present(changes, key, path, std::move(*attributes), started);
    }
    table_.announce(changes);
    return answer;
}

Asker::Answer Asker::take_in_present(Changes& changes, const NameKey& key, const std::string& path,
                                     Attributes attributes, std::int64_t started) {
    const auto existing = table_.name(key.parent, key.name);
    if (!existing) return fail(existing.error());
    const auto now_known =
        merger_.found(changes, key.parent, path, key.name, std::move(attributes), started, *existing);
    if (!now_known) return fail(now_known.error());
    if (auto done = table_.commit(changes); !done) return fail(done.error());
    return view(now_known->node, *now_known->record);
}

Asker::Answer Asker::take_in_absent(Changes& changes, const NameKey& key, std::int64_t started) {
    const auto existing = table_.name(key.parent, key.name);
    if (!existing) return fail(existing.error());
    if (*existing) {
        if (merger_.is_newer(*(*existing)->record, started)) {
            return view((*existing)->node, *(*existing)->record);
        }
        if (auto done = merger_.vanished(changes, **existing); !done) return fail(done.error());
        if (auto done = table_.commit(changes); !done) return fail(done.error());
    }
    const auto ttl = std::chrono::nanoseconds(freshness_.negative_ttl()).count();
    if (ttl > 0) table_.remember_absent(key.parent, key.name, started + ttl);
    return fail(absent(key.name));
}

Asker::Answer Asker::stale(const NameKey& key, const Error& error) {
    const std::int64_t now = freshness_.now();
    Result<std::optional<Known>> known = std::optional<Known>();
    if (key.parent == 0) {
        const auto root = table_.node(kRootNode);
        if (root) known = std::optional<Known>(Known{kRootNode, *root});
    } else {
        known = table_.name(key.parent, key.name);
    }
    if (error.code == ECANCELED || !known) return fail(error);
    if (*known) {
        const auto& [node, record] = **known;
        const auto confirmed = table_.confirmed(*record, now);
        if (!confirmed || is_distrusted(node, *record) || !freshness_.servable(*confirmed))
            return fail(error);
        return NodeView{node, record->inode, record->attributes, freshness_.stale_for()};
    }
    const auto listed = table_.listed(key.parent, now);
    return fail(listed && freshness_.servable(*listed) ? absent(key.name) : error);
}

std::chrono::milliseconds Asker::absent_for(NodeId parent, const std::string& name) {
    const std::int64_t now = freshness_.now();
    auto left = table_.absent_left(parent, name, now);
    if (const auto listed = table_.listed(parent, now)) {
        // Served stale: long enough not to ask a dead origin for each call.
        const auto stale_for = freshness_.servable(*listed) ? freshness_.stale_for() : left;
        left = std::max(left, validity_.listing_left(parent, *listed).value_or(stale_for));
    }
    return std::min(left, freshness_.negative_ttl());
}

bool Asker::is_listing_worth_it(NodeId directory) {
    const auto path = table_.path(directory);
    if (!path || freshness_.negative_ttl().count() == 0) return false;
    const std::uint64_t cost = origin_.stats_worth_listing(*path);
    if (cost == 0) return false;
    // Rent or buy: list when as many single questions have been paid for as the listing costs.
    std::uint64_t worth = std::max<std::uint64_t>(2, cost);
    if (const auto listing = table_.index().find_listing(directory); listing && *listing) {
        worth = std::max(worth, (*listing)->entries / kNamesPerPage);
    }
    const std::int64_t now = freshness_.now();
    MutexLock lock(mutex_);
    if (unanswered_.size() >= kMostDirectoriesWatched) unanswered_.clear();
    Unanswered& unanswered = unanswered_[directory];
    if (!freshness_.left(unanswered.since_ns)) unanswered = {now, 0};
    if (++unanswered.count < worth) return false;
    unanswered_.erase(directory);
    return true;
}

bool Asker::is_distrusted(NodeId node, const NodeRecord& record) {
    if (record.checked_ns == kDistrusted) return true;
    if (distrusted_count_ == 0) return false;
    MutexLock lock(mutex_);
    return distrusted_.contains(node);
}

void Asker::distrust(NodeId node) {
    {
        MutexLock lock(mutex_);
        if (!distrusted_.insert(node).second) return;
        distrusted_count_ = distrusted_.size();
    }
    table_.doubt();
    workers_.post([this, node](bool canceled) {
        if (!canceled) commit_distrust(node);
        MutexLock lock(mutex_);
        distrusted_.erase(node);
        ++doubts_committed_;  // before the count, which is_distrusted looks at without the mutex
        distrusted_count_ = distrusted_.size();
    });
}

void Asker::commit_distrust(NodeId node) {
    auto record = table_.node(node);
    if (!record || !*record || node == kRootNode) return;
    const NodeId parent = (*record)->parent;
    const std::string name = (*record)->name;
    {
        const Turns::Turn turn(turns_, parent);
        const auto known = table_.name(parent, name);
        if (!known || !*known || (*known)->node != node) return;
        Changes changes(table_.index());
        NodeRecord doubtful = *(*known)->record;
        doubtful.checked_ns = kDistrusted;
        changes.put_node(node, std::move(doubtful));
        if (!table_.commit(changes)) return;
    }
    sink_.entry_changed(parent, name);
}

Result<std::vector<NodeId>> Asker::commit_renewal(NodeId directory,
                                                  const std::vector<Namespace::Renewed>& names) {
    std::vector<NodeId> nodes(names.size());
    const Turns::Turn turn(turns_, directory);
    Changes changes(table_.index());
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto known = table_.name(directory, names[i].name);
        if (!known) return fail(known.error());
        if (!*known) continue;
        nodes[i] = (*known)->node;
        NodeRecord doubtful = *(*known)->record;
        doubtful.checked_ns = kDistrusted;
        changes.put_node(nodes[i], std::move(doubtful));
    }
    const auto listing = table_.index().find_listing(directory);
    if (!listing) return fail(listing.error());
    if (*listing) {
        auto never = **listing;
        never.listed_ns = 0;
        changes.batch().put_listing(directory, never);
    }
    if (auto done = table_.commit(changes); !done) return fail(done.error());
    return nodes;
}

void Asker::renew(NodeId directory, const std::vector<Namespace::Renewed>& names) {
    const auto nodes = commit_renewal(directory, names);
    for (std::size_t i = 0; i < names.size(); ++i) {
        table_.forget_absent(directory, names[i].name);
        const NodeId node = nodes ? (*nodes)[i] : 0;
        if (!names[i].same_object) {
            sink_.entry_changed(directory, names[i].name);
        } else if (node != 0) {
            sink_.node_changed(node);
        }
    }
    sink_.node_changed(directory);
}

}  // namespace tierfs
