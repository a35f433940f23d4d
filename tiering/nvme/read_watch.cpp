#include "tiering/nvme/read_watch.hpp"

#include <algorithm>

namespace tierfs {
namespace {

constexpr std::uint64_t kUnitBytes = 256 * 1024;
constexpr std::uint64_t kSmoothing = 16;

std::int64_t nanoseconds(ReadWatch::Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint64_t milliseconds(ReadWatch::Clock::time_point time) {
    return static_cast<std::uint64_t>(nanoseconds(time) / 1'000'000);
}

std::string milliseconds_text(std::uint64_t ns) {
    return std::to_string(ns / 1'000'000) + "." + std::to_string(ns / 100'000 % 10) + " ms";
}

}  // namespace

std::chrono::milliseconds ReadWatch::Waiting::silent_for(Clock::time_point now) const {
    const std::uint64_t time = milliseconds(now);
    return std::chrono::milliseconds(time > progress_ms ? time - progress_ms : 0);
}

bool ReadWatch::begin(Clock::time_point now, bool few) {
    std::uint64_t word = waiting_;
    for (;;) {
        Waiting waiting = Waiting::of(word);
        // Nobody waits for an idle device, however long ago its last read was.
        if (waiting.readers == 0) waiting.progress_ms = std::max(waiting.progress_ms, milliseconds(now));
        if (waiting.readers >= kFewReaders && (few || waiting.silent_for(now) > kHesitates)) return false;
        ++waiting.readers;
        if (waiting_.compare_exchange_weak(word, waiting.word())) return true;
    }
}

void ReadWatch::end(Clock::time_point began, Clock::time_point now, std::uint64_t bytes) {
    std::uint64_t word = waiting_;
    Waiting waiting;
    do {
        waiting = Waiting::of(word);
        --waiting.readers;
        waiting.progress_ms = std::max(waiting.progress_ms, milliseconds(now));
    } while (!waiting_.compare_exchange_weak(word, waiting.word()));
    units_ += (bytes + kUnitBytes - 1) / kUnitBytes;
    unit_ns_ += static_cast<std::uint64_t>(std::max<std::int64_t>(0, nanoseconds(now) - nanoseconds(began)));
}

ReadWatch::Look ReadWatch::look(Clock::time_point now) {
    Look result;
    const Waiting waiting = Waiting::of(waiting_);
    if (waiting.readers > 0) result.stalled = waiting.silent_for(now);
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
