#include "fs/metadata/directories_ahead.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tierfs {

void DirectoriesAhead::read(NodeId directory) {
    if (lister_.usual_time() < kWorthIt || freshness_.negative_ttl() < kBelieved) return;
    const auto record = table_.node(directory);
    if (directory == kRootNode || !record || !*record) return;
    std::vector<NodeId> wanted;
    {
        const MutexLock lock(mutex_);
        Order& order = order_of((*record)->parent, (*record)->name);
        if (!goes_on(order, (*record)->name) || order.in_order < kInOrder) return;
        const auto count = std::min<std::size_t>(kMost, std::size_t{1} << (order.in_order - kInOrder + 1));
        look(order, count);
        for (; order.listed < std::min(count, order.next.size()); ++order.listed)
            wanted.push_back(order.next[order.listed].node);
    }
    for (const NodeId node : wanted) lister_.list(node, [](const Result<void>&) {});
}

DirectoriesAhead::Order& DirectoriesAhead::order_of(NodeId parent, const std::string& name) {
    const auto found = std::find_if(orders_.begin(), orders_.end(),
                                    [parent](const Order& order) { return order.parent == parent; });
    if (found != orders_.end()) {
        orders_.splice(orders_.begin(), orders_, found);
    } else {
        Order order;
        order.parent = parent;
        order.last = order.looked_at = name;
        order.in_order = 1;
        orders_.push_front(std::move(order));
        if (orders_.size() > kMostOrders) orders_.pop_back();
    }
    return orders_.front();
}

/// Whether the name is the next one, or one of the next few.
bool DirectoriesAhead::goes_on(Order& order, const std::string& name) {
    if (name == order.last) return false;
    if (name > order.last) {
        look(order, kMayLeaveOut + 1);
        const auto may_be = std::max(order.listed, kMayLeaveOut + 1);
        for (std::size_t at = 0; at < std::min(may_be, order.next.size()); ++at) {
            if (order.next[at].name != name) continue;
            order.next.erase(order.next.begin(), order.next.begin() + static_cast<std::ptrdiff_t>(at) + 1);
            order.listed -= std::min(order.listed, at + 1);
            order.last = name;
            order.in_order = std::min(order.in_order + 1, 16U);
            return true;
        }
    }
    order.last = order.looked_at = name;
    order.next.clear();
    order.listed = 0;
    order.is_over = false;
    order.in_order = 1;
    return false;
}

/// Looks for so many directories that come next.
void DirectoriesAhead::look(Order& order, std::size_t count) {
    if (order.is_over || order.next.size() >= count) return;
    std::size_t names = 0;
    const auto scanned = table_.index().for_each_name(
        order.parent, std::string(order.looked_at), [&](std::string_view name, const NameRecord& leads_to) {
            order.looked_at = name;
            if (leads_to.kind == ObjectKind::directory)
                order.next.push_back({std::string(name), leads_to.node});
            return ++names < kMostNames;
        });
    order.is_over = !scanned || names < kMostNames;
}

}  // namespace tierfs
