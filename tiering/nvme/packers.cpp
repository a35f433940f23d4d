#include "tiering/nvme/packers.hpp"

#include <algorithm>
#include <array>

namespace tierfs {

template <typename Do>
void Packers::for_each(const Do& each) {
    for (Pair& pair : pairs_) {
        each(pair.small);
        if (pair.main) each(*pair.main);
    }
}

Packers::Pair* Packers::find(DatasetNumber dataset) {
    const auto found =
        std::find_if(pairs_.begin(), pairs_.end(), [&](const Pair& each) { return each.dataset == dataset; });
    return found == pairs_.end() ? nullptr : &*found;
}

Packers::Pair& Packers::pair_of(DatasetNumber dataset) {
    const auto found =
        std::find_if(pairs_.begin(), pairs_.end(), [&](const Pair& each) { return each.dataset == dataset; });
    if (found != pairs_.end()) {
        pairs_.splice(pairs_.begin(), pairs_, found);
        return pairs_.front();
    }
    if (pairs_.size() >= kMostDatasetsWritten) let_go(pairs_.back().dataset);
    return pairs_.emplace_front(core_, space_, next_number_, dataset);
}

void Packers::let_go(DatasetNumber dataset) {
    const auto found =
        std::find_if(pairs_.begin(), pairs_.end(), [&](const Pair& each) { return each.dataset == dataset; });
    if (found == pairs_.end()) return;
    found->small.seal();
    if (found->main) found->main->seal();
    pairs_.erase(found);
}

Packer& Packers::main_of(Pair& pair) {
    if (!pair.main) pair.main.emplace(core_, space_, next_number_, pair.dataset, true);
    return *pair.main;
}

void Packers::add(DatasetNumber dataset, const ContentId& id,
                  std::span<const std::span<const std::byte>> pieces, Codec codec) {
    std::uint64_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    const auto stored = compressor_.compress(dataset, codec, pieces);
    const std::array<std::span<const std::byte>, 1> compressed{stored.value_or(std::span<const std::byte>{})};
    const StoredAs as = stored ? StoredAs{codec, size} : StoredAs{};
    if (stored) pieces = compressed;
    Pair& pair = pair_of(dataset);
    const bool to_main = core_.catalog.shares().get(dataset) == Retention::goes && core_.came_back(id);
    (to_main ? main_of(pair) : pair.small).add(id, pieces, as);
}

Packer* Packers::for_moved(DatasetNumber dataset) {
    Pair* pair = find(dataset);
    if (pair == nullptr && pairs_.size() < kMostDatasetsWritten)
        pair = &pairs_.emplace_back(core_, space_, next_number_, dataset);
    return pair == nullptr ? nullptr : &main_of(*pair);
}

bool Packers::holds(const ContentId& id) const {
    return std::any_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) {
        return pair.small.holds(id) || (pair.main && pair.main->holds(id));
    });
}

std::optional<Health::Clock::time_point> Packers::deadline() const {
    std::optional<Health::Clock::time_point> first;
    const auto consider = [&](const Packer& packer) {
        const auto due = packer.deadline();
        if (due && (!first || *due < *first)) first = due;
    };
    for (const Pair& pair : pairs_) {
        consider(pair.small);
        if (pair.main) consider(*pair.main);
    }
    return first;
}

void Packers::flush() {
    for_each([](Packer& packer) { packer.flush(); });
}

void Packers::flush_due() {
    for_each([&](Packer& packer) {
        const auto due = packer.deadline();
        if (due && *due <= core_.now()) packer.flush();
    });
}

void Packers::flush_holding(const ContentId& id) {
    for_each([&](Packer& packer) {
        if (packer.holds(id)) packer.flush();
    });
}

void Packers::seal() {
    for_each([](Packer& packer) { packer.seal(); });
}

}  // namespace tierfs
