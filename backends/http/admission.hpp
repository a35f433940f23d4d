// Admission of requests: a window that adapts to what the server bears, and queues by priority.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "backends/http/request.hpp"

namespace tierfs::http {

/// Additive increase, multiplicative decrease of the number of requests in flight (Chiu and Jain 1989): a
/// throttled reply halves the window, but one burst of them only once; each good reply adds 1/window. Not
/// thread-safe.
class Window {
  public:
    explicit Window(unsigned largest) : largest_(std::max(1U, largest)), size_(largest_) {}

    [[nodiscard]] unsigned size() const { return static_cast<unsigned>(size_); }
    [[nodiscard]] bool is_largest() const { return size() == largest_; }

    void throttled(Clock::time_point now) {
        // Replies to requests sent before the last cut say nothing about the smaller window.
        if (now < next_cut_) return;
        size_ = std::max(1.0, size_ / 2);
        next_cut_ = now + kCutInterval;
    }

    void succeeded() { size_ = std::min(static_cast<double>(largest_), size_ + 1 / size_); }

    static constexpr std::chrono::milliseconds kCutInterval{500};

  private:
    unsigned largest_;
    double size_;
    Clock::time_point next_cut_{};
};

/// What a request waits in, the first one first.
enum class Lane : std::uint8_t { names, demand, prefetch, fill };

inline Lane lane_of(Priority priority) {
    if (priority == Priority::prefetch) return Lane::prefetch;
    return priority == Priority::fill ? Lane::fill : Lane::demand;
}
inline Lane lane_of(const Request& request) {
    return request.is_of_names && request.priority == Priority::demand ? Lane::names
                                                                       : lane_of(request.priority);
}

/// Queues of T by lane, first in first out, and the count of what runs. Prefetch and fill may not take
/// the whole window (7/8 of it), so that a reader who waits finds a connection free, and neither may reads and
/// uploads (15/16), so that names are answered while all of those stall. Not thread-safe.
template <typename T>
class AdmissionQueue {
  public:
    explicit AdmissionQueue(unsigned largest) : window_(largest) {}

    void push(Lane lane, T item) { queue(lane).push_back(std::move(item)); }

    /// The next item that may start; it counts as running until finished().
    std::optional<T> pop() {
        std::array<Lane, 4> order{Lane::names, Lane::demand, Lane::prefetch, Lane::fill};
        if (is_demands_turn_) std::swap(order[0], order[1]);
        for (auto lane : order) {
            auto& waiting = queue(lane);
            if (waiting.empty() || running_ >= share(lane)) continue;
            T item = std::move(waiting.front());
            waiting.pop_front();
            ++running_;
            is_demands_turn_ = lane == Lane::names;
            return item;
        }
        return std::nullopt;
    }

    void finished() { --running_; }

    /// Takes out the waiting items for which `unwanted` holds.
    template <typename Predicate>
    std::vector<T> take_if(Predicate unwanted) {
        std::vector<T> taken;
        for (auto& waiting : queues_) {
            for (auto item = waiting.begin(); item != waiting.end();) {
                if (unwanted(*item)) {
                    taken.push_back(std::move(*item));
                    item = waiting.erase(item);
                } else {
                    ++item;
                }
            }
        }
        return taken;
    }

    [[nodiscard]] std::size_t waiting() const {
        std::size_t sum = 0;
        for (const auto& queue : queues_) sum += queue.size();
        return sum;
    }
    [[nodiscard]] unsigned running() const { return running_; }
    Window& window() { return window_; }

    /// How many may run, all lanes together, for one of this lane to start.
    [[nodiscard]] unsigned share(Lane lane) const {
        const unsigned all = window_.size();
        if (lane == Lane::names) return all;
        return std::max(1U, all - all / (lane == Lane::demand ? 16 : 8));
    }

  private:
    std::deque<T>& queue(Lane lane) { return queues_.at(static_cast<std::size_t>(lane)); }

    Window window_;
    std::array<std::deque<T>, 4> queues_;
    unsigned running_ = 0;
    bool is_demands_turn_ = false;  ///< so that names, however many, do not keep all reads from their turn
};

}  // namespace tierfs::http
