#include "tiering/prefetch/directory_runs.hpp"

#include <algorithm>
#include <numeric>

namespace tierfs {
namespace {

/// Steps apart that reads of one run may come: workers of a loader take turns by batches.
constexpr std::uint64_t kReach = 16, kReachOfRun = 64;
constexpr std::uint64_t kLongestStep = 64;
constexpr std::uint64_t kManyJumps = 8;

}  // namespace

bool DirectoryRuns::belongs(const Run& run, std::uint64_t place) {
    const std::uint64_t step = std::max<std::uint64_t>(run.step, 1);
    const std::uint64_t reach = run.step == 0 ? kLongestStep : step * (run.window > 0 ? kReachOfRun : kReach);
    if (place > run.last) return place - run.last <= reach;
    return place >= run.first || run.first - place <= reach;
}

void DirectoryRuns::take_in(Run& run, std::uint64_t place) {
    const std::uint64_t away = place > run.last ? place - run.last : run.last - place;
    run.step = std::gcd(run.step, away);
    run.first = std::min(run.first, place);
    run.last = std::max(run.last, place);
    ++run.count;
}

bool DirectoryRuns::is_dense(const Run& run) {
    return run.step > 0 && (run.last - run.first) / run.step + 1 <= 2 * run.count;
}

std::optional<DirectoryRuns::Wanted> DirectoryRuns::observe(std::uint64_t place, std::uint64_t most) {
    ++reads_;
    const auto run =
        std::find_if(runs_.begin(), runs_.end(), [&](const Run& one) { return belongs(one, place); });
    Run grown;
    if (run != runs_.end()) {
        grown = *run;
        if (place != run->last) take_in(grown, place);
    }
    if (run == runs_.end() || (grown.count >= 3 && !is_dense(grown))) {
        ++seeks_;
        Run fresh;
        fresh.first = fresh.last = place;
        fresh.next = place + 1;
        fresh.used = reads_;
        if (run != runs_.end() && run->window == 0) {
            *run = fresh;
            return std::nullopt;
        }
        if (runs_.size() >= kRuns) {
            runs_.erase(std::min_element(runs_.begin(), runs_.end(),
                                         [](const Run& a, const Run& b) { return a.used < b.used; }));
        }
        runs_.push_back(fresh);
        return std::nullopt;
    }
    const bool onward = grown.last > run->last;
    *run = grown;
    run->used = reads_;
    if (!onward) return std::nullopt;
    ++continued_;
    const std::uint64_t needed = seeks_ >= kManyJumps && seeks_ > continued_ ? 6 : 3;
    if (run->count < needed) return std::nullopt;
    run->window = std::clamp(run->window * 2, kFirstWindow, std::max(most, kFirstWindow));
    // As many of the run's own files as the window says, whatever others lie between them.
    const std::uint64_t begin = std::max(
        run->last + run->step,
        run->last + (std::max(run->next, run->last) - run->last + run->step - 1) / run->step * run->step);
    const std::uint64_t end = run->last + run->window * run->step + 1;
    if (begin >= end) return std::nullopt;
    run->next = end;
    return Wanted{begin, end, run->step};
}

void DirectoryRuns::put_back(const Wanted& wanted, std::uint64_t place) {
    for (Run& run : runs_) {
        if (run.next == wanted.end) run.next = place;
    }
}

void DirectoryRuns::renumber(std::uint64_t count) {
    std::erase_if(runs_, [&](const Run& run) { return run.last < count; });
    for (Run& run : runs_) {
        run.first -= std::min(run.first, count);
        run.last -= count;
        run.next -= std::min(run.next, count);
        run.count = std::min(run.count, run.step > 0 ? (run.last - run.first) / run.step + 1 : 1);
    }
}

std::uint64_t DirectoryRuns::horizon() const {
    std::uint64_t horizon = 0;
    for (const Run& run : runs_) {
        if (run.window > 0) horizon = std::max(horizon, run.last + 2 * run.window * run.step);
    }
    return horizon;
}

}  // namespace tierfs
