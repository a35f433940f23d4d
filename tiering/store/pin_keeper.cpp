#include "tiering/store/pin_keeper.hpp"

#include <algorithm>
#include <utility>

#include "config/base/log.hpp"

namespace tierfs {
namespace {

TreeJob::Action claiming(Store& store) {
    return [&store](const std::shared_ptr<const ObjectRef>& object, const TreeJob::Answer& answer,
                    const std::function<bool()>& /*stopped*/) {
        answer(TreeJob::Done{store.claim_pin(*object), false});
    };
}

}  // namespace

TreeJob::Action pinning(Store& store) {
    return [&store](const std::shared_ptr<const ObjectRef>& object, TreeJob::Answer answer,
                    const std::function<bool()>& stopped) {
        store.pin(
            object,
            [answer = std::move(answer)](const Result<Store::Warmed>& pinned) {
                if (!pinned) return answer(fail(pinned.error()));
                answer(TreeJob::Done{pinned->brought, pinned->unchanged});
            },
            stopped);
    };
}

void PinKeeper::tick(Clock::time_point now) {
    if (phase_ == Phase::idle) {
        const bool due = now >= again_ && pins_.totals().paths > 0;
        if ((wanted_ || due) && now >= not_before_) begin(now);
        return;
    }
    feed();
    const auto progress = job_->progress();
    if (phase_ == Phase::claiming) {
        // What files still answer does not matter to what is claimed.
        if (!progress.walking) claimed(progress, now);
        return;
    }
    if (progress.running) return;
    if (progress.failed > 0 && !progress.failures.empty()) {
        log::warning("pins: " + std::to_string(progress.failed) +
                     " files could not be brought; the first: /" + progress.failures.front().path + ": " +
                     progress.failures.front().message);
        // A tier that had no room for them may have some soon.
        again_ = now + patience_;
        patience_ = std::min<std::chrono::seconds>(patience_ * 2, kEvery);
    } else {
        patience_ = kRetry;
    }
    job_.reset();
    phase_ = Phase::idle;
}

void PinKeeper::begin(Clock::time_point now) {
    wanted_ = false;
    again_ = now + kEvery;
    if (pins_.generation() == 0) return;
    store_.begin_pin_round();
    start_job(Phase::claiming);
}

void PinKeeper::start_job(Phase phase) {
    phase_ = phase;
    paths_ = pins_.paths();
    next_ = 0;
    job_.reset();
    job_ = std::make_unique<TreeJob>(origin_, phase == Phase::claiming ? claiming(store_) : pinning(store_));
    feed();
}

void PinKeeper::feed() {
    if (next_ > paths_.size()) return;
    while (next_ < paths_.size() && job_->add(paths_[next_])) ++next_;
    if (next_ < paths_.size()) return;
    job_->seal();
    ++next_;
}

void PinKeeper::claimed(const TreeJob::Progress& progress, Clock::time_point now) {
    if (progress.unlisted > 0) {
        log::warning("pins: some of what is pinned cannot be listed, and all of it stays until it can: /" +
                     progress.failures.front().path + ": " + progress.failures.front().message);
        job_.reset();
        phase_ = Phase::idle;
        wanted_ = true;
        not_before_ = now + kRetry;
        return;
    }
    store_.end_pin_round();
    if (progress.brought > 0) return start_job(Phase::bringing);
    job_.reset();
    phase_ = Phase::idle;
}

}  // namespace tierfs
