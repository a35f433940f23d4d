#include "backends/http/hedge.hpp"

#include <algorithm>
#include <optional>

#include "backends/http/retry.hpp"

namespace tierfs::http {
namespace {

// An error document of a hedge is only kept when both fail: no need for the whole of a large one.
constexpr std::size_t kErrorBody = 64U << 10;

/// One win makes up for so many hedges in vain.
constexpr double kWorthIt = 4;
constexpr double kRemembered = 16;  ///< hedges, about

/// No other attempt can do better: the reply is good, or about the object.
bool is_final(const Response& response) {
    if (response.failure == Failure::cancelled) return true;
    return response.failure == Failure::none && !worth_repeating(response) && !is_throttling(response.status);
}

}  // namespace

void HedgeBudget::earned() {
    const MutexLock lock(mutex_);
    tokens_ = std::min(kBurst, tokens_ + share_ * std::clamp(wins_ * kWorthIt, kLeast, 1.0));
}

void HedgeBudget::ended(bool won) {
    const MutexLock lock(mutex_);
    wins_ += ((won ? 1 : 0) - wins_) / kRemembered;
}

bool HedgeBudget::take(double spare) {
    const MutexLock lock(mutex_);
    if (tokens_ < 1 + spare) return false;
    tokens_ -= 1;
    return true;
}

/// One GET and the at most two attempts at it. Kept alive by the attempts and by the timer.
class Race : public std::enable_shared_from_this<Race> {
  public:
    Race(Engine& engine, std::shared_ptr<Hedger::Shared> shared, RecentLatencies& latencies, Request request,
         Completion done)
        : engine_(engine),
          shared_(std::move(shared)),
          latencies_(latencies),
          hedge_spare_(request.priority == Priority::demand ? 0 : HedgeBudget::kBurst / 2),
          deadline_(request.deadline),
          request_(std::move(request)),
          done_(std::move(done)) {}

    void begin() {
        Request primary;
        {
            const MutexLock lock(mutex_);
            primary = *request_;
        }
        launch(std::move(primary), kPrimary);
    }

  private:
    enum Who : int { kNobody, kPrimary, kHedge };

    /// What an attempt asks, on a reactor's thread.
    class Watch final : public AttemptWatch {
      public:
        Watch(std::shared_ptr<Race> race, Who who) : race_(std::move(race)), who_(who) {}
        void started(Clock::time_point now) override {
            if (who_ == kPrimary) race_->primary_started(now);
        }
        bool takes_body() override { return race_->claim(who_); }
        [[nodiscard]] bool abandoned() const override {
            const int winner = race_->winner_.load(std::memory_order_acquire);
            return winner != kNobody && winner != who_;
        }

      private:
        const std::shared_ptr<Race> race_;
        const Who who_;
    };

    void launch(Request request, Who who) {
        auto self = shared_from_this();
        request.watch = std::make_shared<Watch>(self, who);
        engine_.send(std::move(request),
                     [self, who](Response response) { self->ended(who, std::move(response)); });
    }

    void primary_started(Clock::time_point now) {
        {
            const MutexLock lock(mutex_);
            started_ = now;
        }
        arm(now, 0);
    }

    /// Looks again after a wait twice as long when no hedge can be sent then: the slowest insist, but while a
    /// server is frozen they do not keep the reactor busy.
    void arm(Clock::time_point now, unsigned tries) {
        const auto usual = latencies_.high_quantile();
        if (!usual) return;
        const auto first = std::max<Clock::duration>(*usual + *usual / 2, Hedger::kShortestDelay);
        const auto delay = first * (1U << std::min(tries, 8U));
        if (delay >= deadline_ - now) return;  // would come too late to help
        engine_.at(now + delay, [self = shared_from_this(), tries](bool cancelled) {
            if (!cancelled) self->slow(tries);
        });
    }

    void slow(unsigned tries) {
        std::optional<Request> hedge;
        bool wait = false;
        {
            const MutexLock lock(mutex_);
            if (!request_ || winner_.load(std::memory_order_relaxed) != kNobody) return;
            wait = !engine_.has_spare_connection(*request_) || !shared_->budget.take(hedge_spare_);
            if (!wait) {
                hedge = std::move(request_);
                request_.reset();
                ++running_;
            }
        }
        if (wait) return arm(Clock::now(), tries + 1);
        ++shared_->sent;
        hedge->body_limit = std::min(hedge->body_limit, kErrorBody);
        launch(std::move(*hedge), kHedge);
    }

    /// Whose body comes first; from then on the other may not write, and is ended.
    bool claim(Who who) {
        int nobody = kNobody;
        if (!winner_.compare_exchange_strong(nobody, who, std::memory_order_acq_rel)) return nobody == who;
        note_claimed(who);
        return true;
    }

    /// When the hedge wins, the primary took at least this long: leaving that out would make slow ones look
    /// rare, and the next ones late.
    void note_claimed(Who who) {
        std::optional<Clock::time_point> started;
        bool hedged = false;
        {
            const MutexLock lock(mutex_);
            started = started_;
            started_.reset();
            hedged = !request_;
        }
        if (started) latencies_.add(Clock::now() - *started);
        if (hedged) shared_->budget.ended(who == kHedge);
        if (who == kHedge) ++shared_->won;
    }

    void ended(Who who, Response response) {
        if (response.failure == Failure::superseded) return;
        const bool decided = claim_at_end(who, response);
        Completion done;
        {
            const MutexLock lock(mutex_);
            --running_;
            if (!decided) {
                if (winner_.load(std::memory_order_relaxed) != kNobody) return;
                if (who == kPrimary || !failed_) failed_ = std::move(response);
                if (running_ > 0) return;
                response = std::move(*failed_);
            }
            request_.reset();
            done = std::move(done_);
            done_ = nullptr;
        }
        if (done) done(std::move(response));
    }

    /// Whether this attempt's end is that of the request.
    bool claim_at_end(Who who, const Response& response) {
        if (winner_.load(std::memory_order_acquire) == who) return true;
        return is_final(response) && claim(who);
    }

    Engine& engine_;
    const std::shared_ptr<Hedger::Shared> shared_;
    RecentLatencies& latencies_;  ///< within *shared_
    const double hedge_spare_;
    const Clock::time_point deadline_;
    std::atomic<int> winner_{kNobody};
    Mutex mutex_;
    unsigned running_ TIERFS_GUARDED_BY(mutex_) = 1;
    std::optional<Request> request_ TIERFS_GUARDED_BY(mutex_);  ///< for the hedge; gone once that is sent
    std::optional<Clock::time_point> started_ TIERFS_GUARDED_BY(mutex_);  ///< the primary, on the wire
    std::optional<Response> failed_ TIERFS_GUARDED_BY(mutex_);
    Completion done_ TIERFS_GUARDED_BY(mutex_);
};

Hedger::Hedger(Engine& engine, unsigned percent)
    : engine_(engine), enabled_(percent > 0), shared_(std::make_shared<Shared>(percent)) {}

void Hedger::send(Request request, Completion done) {
    if (!enabled_ || request.method != "GET" || request.destination.empty() ||
        request.priority == Priority::fill) {
        engine_.send(std::move(request), std::move(done));
        return;
    }
    std::size_t size_class = 0;
    while (request.destination.size() > kSizeClasses.at(size_class)) ++size_class;
    auto& latencies = shared_->latencies.at(size_class);
    shared_->budget.earned();
    std::make_shared<Race>(engine_, shared_, latencies, std::move(request), std::move(done))->begin();
}

HedgeStats Hedger::stats() const {
    return {shared_->sent, shared_->won};
}

}  // namespace tierfs::http
