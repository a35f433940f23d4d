#include "tiering/policy/dataset_policy.hpp"

#include <algorithm>
#include <utility>

namespace tierfs {
namespace {

/// Chance alone does not turn so many hits into a quarter of them.
constexpr double kHitsDue = 64;

DatasetClass class_of(Pattern pattern) {
    switch (pattern) {
        case Pattern::epoch:
            return DatasetClass::epoch;
        case Pattern::hot:
            return DatasetClass::hot;
        case Pattern::stream:
            return DatasetClass::stream;
        case Pattern::once:
            break;
    }
    return DatasetClass::once;
}

std::string why(const PatternEvidence& evidence) {
    const auto count = [](std::uint64_t number, const char* what) {
        return std::to_string(number) + " " + what;
    };
    std::string text = "of " + count(evidence.visits, "visits ") + count(evidence.fresh, "of new files, ") +
                       count(evidence.repeats, "repeats");
    if (evidence.repeats > 0) text += " (" + count(evidence.short_gaps, "after short gaps)");
    text += ", " + count(evidence.ordered, "in order, ") + count(evidence.sequential, "in streams");
    return text;
}

}  // namespace

DatasetPolicy::DatasetPolicy(DatasetClass configured)
    : configured_(configured),
      current_(configured),
      reason_(configured == DatasetClass::automatic ? "too little was read yet" : "set by class") {}

void DatasetPolicy::configure(DatasetClass configured, Clock::time_point now) {
    MutexLock lock(mutex_);
    configured_.store(configured, std::memory_order_relaxed);
    current_.store(configured, std::memory_order_relaxed);
    reason_ = configured == DatasetClass::automatic ? "too little was read yet" : "set while mounted";
    decided_ = now;
    votes_ = 0;
}

bool DatasetPolicy::update_class(const PatternEvidence& evidence, Clock::time_point now) {
    if (is_configured()) return false;
    const Pattern pattern = PatternRecogniser::judge(evidence);
    if (pattern == candidate_) {
        votes_ += evidence.visits;
    } else if (votes_ < evidence.visits) {
        candidate_ = pattern;
        votes_ = evidence.visits;
    } else {
        votes_ -= evidence.visits;
    }
    // A new pattern need not outvote all that was seen of the one before.
    const std::uint64_t enough = std::max(2 * PatternRecogniser::kWindow, evidence.sample / 2);
    const bool confirmed =
        current() == DatasetClass::automatic || (candidate_ == pattern && votes_ >= enough);
    votes_ = std::min(votes_, class_of(candidate_) == current() ? 2 * PatternRecogniser::kWindow : enough);
    if (!confirmed || class_of(pattern) == current()) return false;
    current_.store(class_of(pattern), std::memory_order_relaxed);
    reason_ = why(evidence);
    decided_ = now;
    return true;
}

bool DatasetPolicy::is_unused(const PatternEvidence& evidence, const Traffic& traffic) {
    const bool was_known = std::exchange(known_, evidence.fresh * 10 < evidence.visits);
    if (!known_ || !was_known || current() != DatasetClass::epoch || !traffic.full) {
        since_ = traffic;
        visits_known_ = 0;
        return false;
    }
    visits_known_ += evidence.visits;
    const double due = std::min(1.0, static_cast<double>(traffic.resident) /
                                         static_cast<double>(std::max<std::uint64_t>(1, evidence.bytes)));
    if (visits_known_ < 2 * PatternRecogniser::kWindow ||
        static_cast<double>(visits_known_) * due < kHitsDue) {
        return false;
    }
    visits_known_ = 0;
    const auto read = static_cast<double>(traffic.read - since_.read);
    const auto fetched = static_cast<double>(traffic.from_origin - since_.from_origin);
    since_ = traffic;
    return read - fetched < read * due / 4;
}

DatasetPolicy::Step DatasetPolicy::decide(const Traffic& traffic, Clock::time_point now) {
    const PatternEvidence evidence = recogniser_.window();
    MutexLock lock(mutex_);
    Step step;
    step.changed = update_class(evidence, now);
    step.renew = is_unused(evidence, traffic);
    if (step.renew) {
        ++renewals_;
        known_ = false;
    }
    return step;
}

DatasetStatus DatasetPolicy::status() const {
    DatasetStatus status;
    status.configured = name_of(configured());
    status.current = current() == DatasetClass::automatic ? "undecided" : name_of(current());
    status.evidence = recogniser_.window();
    MutexLock lock(mutex_);
    status.reason = reason_;
    status.renewals = renewals_;
    status.decided_s = std::chrono::duration_cast<std::chrono::seconds>(decided_.time_since_epoch()).count();
    return status;
}

}  // namespace tierfs
