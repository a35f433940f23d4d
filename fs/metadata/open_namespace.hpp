// Namespace::open with what tests turn: the clock and the number of workers. Internal to fs/metadata.
#pragma once

#include <functional>
#include <memory>

#include "fs/metadata/namespace.hpp"

namespace tierfs {

struct NamespaceOptions {
    std::chrono::milliseconds ttl{60000};
    bool serves_stale = false;                         ///< see Freshness
    std::shared_ptr<const DatasetRules> rules;         ///< for `immutable`; null: none
    std::uint64_t memory = 16 << 20;                   ///< of all caches together, bytes
    unsigned workers = 8;                              ///< from the start
    unsigned most_workers = 256;                       ///< while questions wait for answers
    std::function<std::int64_t()> now;                 ///< CLOCK_REALTIME, nanoseconds; empty: the system's
    std::chrono::milliseconds origin_deadline{30000};  ///< for a question to wait for a worker
    std::function<std::int64_t()> waiting_clock;       ///< CLOCK_MONOTONIC likewise
    NodeId session = 0;                                ///< see Namespace::open; 0: a new one
};

Result<std::unique_ptr<Namespace>> open_namespace(const NamespaceOptions& options, Index& index,
                                                  Origin& origin, InvalidationSink& sink);

}  // namespace tierfs
