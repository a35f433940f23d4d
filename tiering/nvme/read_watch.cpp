#include "tiering/nvme/read_watch.hpp"

#include <algorithm>

namespace tierfs {
namespace {

constexpr std::uint64_t kUnitBytes = 256 * 1024;
constexpr std::uint64_t kSmoothing = 16;

std::int64_t nanoseconds(ReadWatch::Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string milliseconds_text(std::uint64_t ns) {
    return std::to_string(ns / 1'000'000) + "." + std::to_string(ns / 100'000 % 10) + " ms";
}

}  // namespace

bool ReadWatch::begin(Clock::time_point now, bool few) {
    const unsigned waiting = under_way_.fetch_add(1);
    const std::int64_t time = nanoseconds(now);
    if (waiting == 0) progress_ns_ = time;
    const bool hesitates = time - progress_ns_.load() > std::chrono::nanoseconds(kHesitates).count();
    if (waiting < kFewReaders || (!few && !hesitates)) return true;
    --under_way_;
    return false;
}

void ReadWatch::end(Clock::time_point began, Clock::time_point now, std::uint64_t bytes) {
    progress_ns_ = nanoseconds(now);
    --under_way_;
    units_ += (bytes + kUnitBytes - 1) / kUnitBytes;
    unit_ns_ += static_cast<std::uint64_t>(std::max<std::int64_t>(0, nanoseconds(now) - nanoseconds(began)));
}

ReadWatch::Look ReadWatch::look(Clock::time_point now) {
    Look result;
    if (under_way_.load() > 0) {
        result.stalled = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::nanoseconds(std::max<std::int64_t>(0, nanoseconds(now) - progress_ns_.load())));
    }
    const std::uint64_t units = units_.exchange(0);
    const std::uint64_t total = unit_ns_.exchange(0);
    if (units < kLeast) return result;
    const std::uint64_t mean = total / units;
    const std::uint64_t floor = std::chrono::nanoseconds(kFloor).count();
    if (mean > std::max(floor, kFactor * usual_ns_) && usual_ns_ != 0) {
        if (++slow_windows_ >= kWindows) {
            result.slow =
                "reads take " + milliseconds_text(mean) + ", usually " + milliseconds_text(usual_ns_);
            slow_windows_ = 0;
        }
        return result;
    }
    slow_windows_ = 0;
    usual_ns_ = usual_ns_ == 0 ? std::max<std::uint64_t>(mean, 1)
                               : (usual_ns_ * (kSmoothing - 1) + mean) / kSmoothing;
    return result;
}

}  // namespace tierfs
