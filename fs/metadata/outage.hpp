// The outage of an origin: while it is known not to answer, what was known before is the answer at once. Internal to
// fs/metadata.
#pragma once

#include <atomic>

#include "backends/origin/origin.hpp"
#include "config/base/worker_pool.hpp"

namespace tierfs {

/// Thread-safe.
class Outage {
  public:
    Outage(Origin& origin, WorkerPool& workers) : origin_(origin), workers_(workers) {}

    /// Whether the origin does not answer just now. Answers that do without it never find out that it is back: so
    /// one question is kept under way meanwhile, on a worker.
    bool is_on();

  private:
    Origin& origin_;
    WorkerPool& workers_;
    std::atomic<bool> is_asking_{false};
};

}  // namespace tierfs
