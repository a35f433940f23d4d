#include "fs/observe/trace/trace.hpp"

#include <algorithm>
#include <random>
#include <utility>

namespace tierfs {

std::string tier_of(const TraceEvent& event) {
    if (event.error != 0) return "error";
    if (event.kind == TraceEvent::Kind::passthrough) return event.origin_bytes != 0 ? "origin" : "nvme";
    if (event.nvme_bytes == 0 && event.origin_bytes == 0) return "ram";
    if (event.nvme_bytes == event.length) return "nvme";
    if (event.origin_bytes == event.length) return "origin";
    return "mixed";
}

void Trace::add(const TraceEvent& event) {
    const MutexLock lock(mutex_);
    for (Tracer& tracer : tracers_) {
        // What came after something was lost is lost too, until there is room for the count of it to be told.
        if (tracer.events.size() >= kMostEvents || tracer.dropped != 0) {
            ++tracer.dropped;
        } else {
            tracer.events.push_back(event);
        }
    }
}

Result<std::uint64_t> Trace::start(Clock::time_point now) {
    // Not counted up: another daemon of the mount must not take its tracers for its own.
    static_assert(sizeof(std::random_device::result_type) == 4);
    std::random_device random;
    const MutexLock lock(mutex_);
    if (tracers_.size() >= kMostTracers)
        return fail(EBUSY, std::to_string(kMostTracers) + " trace this mount already: try again later");
    const std::uint64_t number = (std::uint64_t{random()} << 20U) ^ random();
    tracers_.push_back({number, now, {}, 0});
    tracers_now_.store(static_cast<std::uint32_t>(tracers_.size()), std::memory_order_relaxed);
    return number;
}

Trace::Tracer* Trace::find(std::uint64_t number) {
    const auto found = std::find_if(tracers_.begin(), tracers_.end(),
                                    [&](const Tracer& tracer) { return tracer.number == number; });
    return found == tracers_.end() ? nullptr : &*found;
}

std::optional<Trace::Batch> Trace::take(std::uint64_t number, std::size_t most, Clock::time_point now) {
    const MutexLock lock(mutex_);
    Tracer* const tracer = find(number);
    if (tracer == nullptr) return std::nullopt;
    tracer->asked = now;
    Batch batch;
    const auto count = std::min(most, tracer->events.size());
    const auto end = tracer->events.begin() + static_cast<std::ptrdiff_t>(count);
    std::move(tracer->events.begin(), end, std::back_inserter(batch.events));
    tracer->events.erase(tracer->events.begin(), end);
    batch.more = !tracer->events.empty();
    if (!batch.more) batch.dropped = std::exchange(tracer->dropped, 0);
    return batch;
}

void Trace::stop(std::uint64_t number) {
    const MutexLock lock(mutex_);
    tracers_.remove_if([&](const Tracer& tracer) { return tracer.number == number; });
    tracers_now_.store(static_cast<std::uint32_t>(tracers_.size()), std::memory_order_relaxed);
}

std::size_t Trace::tick(Clock::time_point now) {
    if (!is_on()) return 0;
    const MutexLock lock(mutex_);
    const auto gone =
        tracers_.remove_if([&](const Tracer& tracer) { return now - tracer.asked > kPatience; });
    tracers_now_.store(static_cast<std::uint32_t>(tracers_.size()), std::memory_order_relaxed);
    return gone;
}

}  // namespace tierfs
