#include "backends/nfs/client.hpp"

#include <algorithm>

namespace tierfs::nfs {

Client::Client(const ConnectionOptions& options, unsigned connections, bool is_root)
    : is_root_(is_root), squash_([this](Call call) { send(std::move(call)); }) {
    for (unsigned i = 0; i < std::max(1U, connections); ++i)
        connections_.push_back(std::make_unique<Connection>(options, counters_));
}

void Client::set_addresses(const std::vector<Address>& addresses) {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
        auto its = addresses;
        std::rotate(its.begin(), its.begin() + static_cast<std::ptrdiff_t>(i % its.size()), its.end());
        connections_[i]->set_addresses(std::move(its));
    }
}

void Client::start(Call call) {
    if (is_root_ && call.credential.empty()) return squash_.start(std::move(call));
    send(std::move(call));
}

void Client::send(Call call) {
    // Among equals in turn, so that single calls do not all go the same way.
    const auto count = connections_.size();
    std::size_t best = turn_++ % count;
    for (std::size_t i = 1; i < count; ++i) {
        const auto other = (best + i) % count;
        if (connections_[other]->load() < connections_[best]->load()) best = other;
    }
    connections_[best]->start(std::move(call));
}

void Client::stop() {
    for (auto& connection : connections_) connection->stop();
}

}  // namespace tierfs::nfs
