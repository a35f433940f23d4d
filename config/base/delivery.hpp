// Delivery: marks the threads that bring an origin's answers, which must never wait for one.
#pragma once

#include <string_view>

#include "config/base/result.hpp"

namespace tierfs {

/// While one lives, its thread delivers answers of an origin: it runs what waits for them. If that waited for
/// another answer, perhaps nobody would be left to bring it, and the thread would wait for itself. Scopes may
/// be nested.
class Delivery {
  public:
    Delivery() { ++depth_; }
    ~Delivery() { --depth_; }
    Delivery(const Delivery&) = delete;
    Delivery& operator=(const Delivery&) = delete;

    /// Whether the calling thread delivers answers now.
    [[nodiscard]] static bool is_under_way() { return depth_ != 0; }

  private:
    static inline thread_local unsigned depth_ = 0;
};

/// Every wait for an answer of an origin asks this before it sends the request. On a thread that delivers
/// answers, programs with test points abort; others log an error and get EDEADLK, and the call fails instead
/// of the mount.
Result<void> may_wait_for(std::string_view what);

}  // namespace tierfs
