#include "tiering/fetch/flight_table.hpp"

#include <algorithm>

namespace tierfs {

BlockMask FlightTable::Shard::under_way(const UnitKey& key) const {
    const auto found = flights.find(key);
    if (found == flights.end()) return 0;
    BlockMask blocks = 0;
    for (const FlightPtr& flight : found->second) blocks |= flight->blocks;
    return blocks;
}

void FlightTable::Shard::add(const FlightPtr& flight) {
    flights[flight->key].push_back(flight);
}

void FlightTable::Shard::remove(const Flight& flight) {
    const auto found = flights.find(flight.key);
    if (found == flights.end()) return;
    std::erase_if(found->second, [&](const FlightPtr& other) { return other.get() == &flight; });
    if (found->second.empty()) flights.erase(found);
}

}  // namespace tierfs
