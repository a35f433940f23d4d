#include "fs/readwrite/live_nodes.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace tierfs {

namespace {

constexpr unsigned kDeepest = 65536;
constexpr std::size_t kMostRestless = 32;
constexpr std::size_t kCostOfHeld = 144;  // with ShardedLru's own, 256 bytes

Error stale(const char* what) {
    return Error{ESTALE, what};
}

}  // namespace

LiveNodes::LiveNodes(PosixOrigin& origin, const PosixAttributes& root, std::size_t held, LiveRecord* record)
    : origin_(origin), record_(record), held_(held * (kCostOfHeld + 112)) {
    auto node = std::make_shared<LiveNode>(kRootNode, root.identity(), S_IFDIR);
    node->kept = origin.root();
    const MutexLock lock(mutex_);
    by_identity_.emplace(node->identity, node);
    nodes_.emplace(kRootNode, std::move(node));
    if (record_ != nullptr) restore();
}

/// What the kernel knows of an earlier daemon. Names that lead elsewhere by now are found out when they are used.
void LiveNodes::restore() {
    auto all = record_->nodes();
    for (const auto& known : all) {
        auto node = std::make_shared<LiveNode>(known.id, known.identity, known.type);
        node->lookups = known.lookups;
        node->place = known.place;
        by_identity_[known.identity] = node;
        nodes_[known.id] = std::move(node);
    }
    for (auto& known : all) {
        const auto& node = nodes_.at(known.id);
        for (auto& [parent, name] : known.names) {
            const auto found = nodes_.find(parent);
            if (found == nodes_.end()) continue;
            if (node->names.size() >= kMostNames) node->names.pop_back();
            node->names.insert(node->names.begin(), {found->second, std::move(name)});
        }
    }
    next_ = record_->next_node();
}

/// Before the kernel is told, so that what is recorded is never too low.
void LiveNodes::count_lookups(LiveNode& node, std::uint64_t lookups) {
    node.lookups = lookups;
    if (record_ != nullptr) record_->set_lookups(node.place, lookups);
}

void LiveNodes::rewrite_record() {
    record_->begin_rewrite();
    for (const auto& [id, node] : nodes_) {
        if (id == kRootNode) continue;
        node->place = record_->add_node(id, node->identity, node->type, node->lookups);
        for (auto name = node->names.rbegin(); name != node->names.rend(); ++name)
            record_->add_name(id, name->parent->id, name->name);
    }
    record_->end_rewrite();
}

LiveNodes::~LiveNodes() {
    // Names hold their parents; some that are out of date may hold each other.
    const MutexLock lock(mutex_);
    for (auto& [id, node] : nodes_) node->names.clear();
}

Result<LiveNodePtr> LiveNodes::find(NodeId id) {
    const MutexLock lock(mutex_);
    const auto found = nodes_.find(id);
    if (found == nodes_.end()) return fail(stale("the node is not known"));
    return found->second;
}

LiveNode::~LiveNode() {
    // One after the other: trees are deeper than stacks.
    std::vector<Name> left = std::move(names);
    while (!left.empty()) {
        const LiveNodePtr parent = std::move(left.back().parent);
        left.pop_back();
        if (parent.use_count() != 1) continue;
        std::move(parent->names.begin(), parent->names.end(), std::back_inserter(left));
        parent->names.clear();
    }
}

Result<PosixNodePtr> LiveNodes::hold(const LiveNodePtr& node) {
    // Each turn forgets a name that leads nowhere.
    for (;;) {
        auto way = way_to(node);
        if (!way) return fail(std::move(way.error()));
        auto held = follow(*way);
        const int code = held ? 0 : held.error().code;
        if (code != ENOENT && code != ENOTDIR && code != ESTALE) return held;
    }
}

Result<LiveNodes::Way> LiveNodes::way_to(const LiveNodePtr& node) {
    Way way;
    std::unordered_set<const LiveNode*> passed;
    std::vector<LiveNode::Name> out_of_date;  // let go after the lock
    LiveNodePtr at = node;
    const MutexLock lock(mutex_);
    for (;;) {
        way.from = at->kept;
        if (!way.from) way.from = held_.get(at->id).value_or(nullptr);
        if (!way.from && at->names.empty()) way.from = at->nameless;
        if (way.from) return way;
        if (!at->names.empty() && passed.insert(at.get()).second) {
            if (way.steps.size() >= kDeepest) return fail(ENAMETOOLONG, "a path is too deep");
            way.steps.push_back({at, at->names.front()});
            at = way.steps.back().name.parent;
            continue;
        }
        // No name leads here, or names that are out of date lead round in a circle.
        if (way.steps.empty()) return fail(stale("the file is gone or has been moved at the origin"));
        Step last = std::move(way.steps.back());
        way.steps.pop_back();
        std::erase(last.node->names, last.name);
        out_of_date.push_back(std::move(last.name));
        passed.erase(last.node.get());
        at = std::move(last.node);
    }
}

Result<PosixNodePtr> LiveNodes::follow(const Way& way) {
    PosixNodePtr held = way.from;
    for (auto step = way.steps.rbegin(); step != way.steps.rend(); ++step) {
        auto next = hold_by_name(*step->node, *held, step->name.name);
        if (!next) {
            const int code = next.error().code;
            if (code == ENOENT || code == ENOTDIR || code == ESTALE) forget_name(*step->node, step->name);
            return next;
        }
        held = std::move(*next);
        held_.put(step->node->id, held, kCostOfHeld);
    }
    return held;
}

Result<PosixNodePtr> LiveNodes::hold_by_name(const LiveNode& node, const PosixNode& directory,
                                             const std::string& name) {
    auto held = origin_.hold(directory, name);
    if (!held) return held;
    const auto found = origin_.attributes(**held);
    if (!found) return fail(found.error());
    if (found->identity() != node.identity) return fail(stale("another file has taken its place"));
    return held;
}

void LiveNodes::forget_name(LiveNode& node, const LiveNode::Name& name) {
    const MutexLock lock(mutex_);
    std::erase(node.names, name);
    add_restless(name.parent->id, name.name);
}

bool LiveNodes::add_restless(NodeId parent, const std::string& name) {
    std::pair restless(parent, name);
    const bool was_restless = std::erase(restless_, restless) != 0;
    if (restless_.size() == kMostRestless) restless_.erase(restless_.begin());
    restless_.push_back(std::move(restless));
    return was_restless;
}

bool LiveNodes::is_restless(NodeId parent, const std::string& name) {
    const MutexLock lock(mutex_);
    return std::any_of(restless_.begin(), restless_.end(),
                       [&](const auto& one) { return one.first == parent && one.second == name; });
}

// The kernel looks a name up and asks for what it found in a second request. When that is another file by then it
// gets ESTALE and looks up once more, and whoever asked for the file gets the next ESTALE.
Result<LiveNodes::Found> LiveNodes::look_up(const LiveNodePtr& parent, const PosixNode& directory,
                                            const std::string& name) {
    if (origin_.holds_for_nothing() || !is_restless(parent->id, name)) {
        auto found = origin_.look_up(directory, name);
        return found ? Result<Found>(Found{std::move(*found), nullptr}) : fail(std::move(found.error()));
    }
    auto held = origin_.hold(directory, name);
    if (!held) return fail(std::move(held.error()));
    auto found = origin_.attributes(**held);
    if (!found) return fail(std::move(found.error()));
    return Found{std::move(*found), std::move(*held)};
}

void LiveNodes::add_name(LiveNode& node, const LiveNodePtr& parent, const std::string& name) {
    LiveNode::Name one{parent, name};
    if (!node.names.empty() && node.names.front() == one) return;
    std::erase(node.names, one);
    if (node.names.size() >= kMostNames) node.names.pop_back();
    node.names.insert(node.names.begin(), std::move(one));
    if (record_ == nullptr) return;
    if (record_->is_to_be_rewritten()) {
        rewrite_record();
    } else {
        record_->add_name(node.id, parent->id, name);
    }
}

LiveNodePtr LiveNodes::met(const LiveNodePtr& parent, const std::string& name,
                           const PosixAttributes& attributes, PosixNodePtr held) {
    const MutexLock lock(mutex_);
    auto node = met_locked(attributes, std::move(held));
    if (node->id != kRootNode) add_name(*node, parent, name);
    return node;
}

LiveNodePtr LiveNodes::met_nameless(const PosixAttributes& attributes, PosixNodePtr held) {
    const MutexLock lock(mutex_);
    auto node = met_locked(attributes, std::move(held));
    node->is_let_go = true;
    return node;
}

LiveNodePtr LiveNodes::met_locked(const PosixAttributes& attributes, PosixNodePtr held) {
    const auto identity = attributes.identity();
    const mode_t type = attributes.status.st_mode & S_IFMT;
    auto& node = by_identity_[identity];
    if (!node || node->type != type) {  // a number that is used again without a time of birth
        if (record_ != nullptr && record_->is_to_be_rewritten()) rewrite_record();
        node = std::make_shared<LiveNode>(next_++, identity, type);
        nodes_.emplace(node->id, node);
        if (record_ != nullptr) node->place = record_->add_node(node->id, identity, type, 0);
    }
    count_lookups(*node, node->lookups + 1);
    if (!node->nameless) node->nameless = attributes.node;
    if (held) held_.put(node->id, std::move(held), kCostOfHeld);
    return node;
}

void LiveNodes::forget(NodeId id, std::uint64_t lookups) {
    LiveNodePtr gone;
    const MutexLock lock(mutex_);
    const auto found = nodes_.find(id);
    if (found == nodes_.end() || id == kRootNode) return;
    auto& node = *found->second;
    count_lookups(node, node.lookups - std::min(node.lookups, lookups));
    if (node.lookups != 0) return;
    gone = std::move(found->second);
    nodes_.erase(found);
    const auto same = by_identity_.find(gone->identity);
    if (same != by_identity_.end() && same->second == gone) by_identity_.erase(same);
    held_.erase(id);
}

LiveNodes::Leaving LiveNodes::leaving(const PosixNode& directory, const LiveNodePtr& parent,
                                      const std::string& name) {
    const auto found = origin_.look_up(directory, name);
    if (!found) return {};
    Leaving leaving;
    leaving.identity = found->identity();
    {
        const MutexLock lock(mutex_);
        const auto same = by_identity_.find(found->identity());
        if (same == by_identity_.end() || same->second->id == kRootNode) return leaving;
        leaving.node = same->second;
        add_name(*leaving.node, parent, name);
    }
    if (auto held = hold(leaving.node)) leaving.held = std::move(*held);
    return leaving;
}

void LiveNodes::left(Leaving leaving, const LiveNodePtr& parent, const std::string& name, Lost how) {
    if (!leaving.node) return;
    bool is_gone = true;
    if (leaving.held) {
        const auto now = origin_.attributes(*leaving.held);
        is_gone = !now || now->status.st_nlink == 0;
    }
    auto& node = *leaving.node;
    PosixNodePtr given_up;  // closed after the lock
    const MutexLock lock(mutex_);
    std::erase(node.names, LiveNode::Name{parent, name});
    const auto known = nodes_.find(node.id);
    if (known == nodes_.end() || known->second != leaving.node) return;  // forgotten meanwhile
    // One with other names, all of which are unknown here, would be lost, too.
    // Of opens of anything but regular files nobody hears.
    const bool is_wanted = node.opens != 0 || node.type != S_IFREG || !is_gone;
    if ((is_gone || node.names.empty()) && is_wanted) node.kept = leaving.held;
    if (!is_gone) return;
    if (how == Lost::removed || !add_restless(parent->id, name)) {
        node.is_let_go = true;
        if (!is_wanted) held_.erase(node.id);
    }
    const auto same = by_identity_.find(node.identity);
    if (same != by_identity_.end() && same->second == leaving.node) by_identity_.erase(same);
    given_up = std::move(leaving.held);
}

void LiveNodes::opened(const LiveNodePtr& node, const PosixNodePtr& held) {
    const MutexLock lock(mutex_);
    ++node->opens;
    if (!node->kept) node->kept = held;
}

void LiveNodes::closed(const LiveNodePtr& node) {
    PosixNodePtr given_up;
    const MutexLock lock(mutex_);
    if (--node->opens != 0) return;
    given_up = std::move(node->kept);
    if (node->is_let_go) held_.erase(node->id);
}

bool LiveNodes::is_open(NodeId id) {
    const MutexLock lock(mutex_);
    const auto found = nodes_.find(id);
    return found != nodes_.end() && found->second->opens != 0;
}

void LiveNodes::named(const LiveNodePtr& node, const LiveNodePtr& parent, const std::string& name) {
    if (!node) return;
    const MutexLock lock(mutex_);
    if (node->id != kRootNode) add_name(*node, parent, name);
}

Result<std::string> LiveNodes::path(const LiveNodePtr& node) {
    std::vector<std::string> names;
    const MutexLock lock(mutex_);
    for (const LiveNode* at = node.get(); at->id != kRootNode; at = at->names.front().parent.get()) {
        if (at->names.empty()) return fail(stale("no name leads to the file"));
        if (names.size() >= kDeepest) return fail(ENAMETOOLONG, "a path is too deep");
        names.push_back(at->names.front().name);
    }
    std::string path;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
        if (!path.empty()) path += '/';
        path += *name;
    }
    return path;
}

std::uint64_t LiveNodes::known() {
    const MutexLock lock(mutex_);
    return nodes_.size();
}

}  // namespace tierfs
