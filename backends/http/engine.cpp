#include "backends/http/engine.hpp"

#include <curl/curl.h>

#include <mutex>
#include <stdexcept>

#include "backends/http/retry.hpp"
#include "config/base/delivery.hpp"

namespace tierfs::http {
namespace {

void initialise_curl() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
            throw std::runtime_error("libcurl: cannot be initialised");
    });
}

}  // namespace

Engine::Engine(EngineOptions options) : queue_(options.connections) {
    initialise_curl();
    Dispatcher& dispatcher = *this;
    const unsigned threads = std::max(1U, options.threads);
    for (unsigned i = 0; i < threads; ++i)
        reactors_.push_back(std::make_unique<Reactor>(dispatcher, options.wire,
                                                      (options.connections + threads - 1) / threads));
}

Engine::~Engine() {
    stop();
}

void Engine::send(Request request, Completion done) {
    auto transfer = std::make_unique<Transfer>(std::move(request), std::move(done));
    if (transfer->request().skip_admission) {
        post(std::move(transfer));
        return;
    }
    TransferPtr refused;
    std::vector<TransferPtr> ready;
    bool first_waiting = false;
    {
        const MutexLock lock(mutex_);
        if (stopped_) {
            refused = std::move(transfer);
        } else {
            const auto lane = lane_of(transfer->request());
            queue_.push(lane, std::move(transfer));
            ready = admissible();
            first_waiting = ready.empty() && queue_.waiting() == 1;
        }
    }
    if (refused) {
        refused->fail(Failure::cancelled, "stopped");
        refused->complete();
    }
    for (auto& one : ready) post(std::move(one));
    // A reactor that sleeps long must look after the deadlines of the queue from now on.
    if (first_waiting) reactors_.front()->wake();
}

std::vector<TransferPtr> Engine::admissible() {
    std::vector<TransferPtr> ready;
    while (auto transfer = queue_.pop()) ready.push_back(std::move(*transfer));
    waiting_.store(queue_.waiting(), std::memory_order_relaxed);
    return ready;
}

void Engine::post(TransferPtr transfer) {
    const unsigned index = next_reactor_.fetch_add(1, std::memory_order_relaxed);
    if (auto refused = reactors_[index % reactors_.size()]->post(std::move(transfer))) {
        refused->fail(Failure::cancelled, "stopped");
        refused->complete();
    }
}

std::vector<TransferPtr> Engine::ended(const Transfer& transfer) {
    if (transfer.request().skip_admission) return {};
    const MutexLock lock(mutex_);
    queue_.finished();
    const auto& response = transfer.response();
    if (is_throttling(response.status)) {
        queue_.window().throttled(Clock::now());
    } else if (response.failure == Failure::none) {
        queue_.window().succeeded();
    }
    return admissible();
}

std::vector<TransferPtr> Engine::overdue(Clock::time_point now) {
    const MutexLock lock(mutex_);
    auto taken =
        queue_.take_if([&](const TransferPtr& transfer) { return now >= transfer->request().deadline; });
    waiting_.store(queue_.waiting(), std::memory_order_relaxed);
    return taken;
}

Response Engine::fetch(Request request) {
    struct Slot {
        Mutex mutex;
        std::condition_variable ready;
        std::optional<Response> response TIERFS_GUARDED_BY(mutex);
    };
    if (auto may = may_wait_for("an HTTP request"); !may) {
        Response refused;
        refused.failure = Failure::cancelled;
        refused.detail = std::move(may.error().message);
        return refused;
    }
    const auto slot = std::make_shared<Slot>();
    send(std::move(request), [slot](Response response) {
        const MutexLock lock(slot->mutex);
        slot->response = std::move(response);
        slot->ready.notify_all();
    });
    MutexLock lock(slot->mutex);
    while (!slot->response) lock.wait(slot->ready);
    return std::move(*slot->response);
}

void Engine::at(Clock::time_point when, Reactor::Timer timer) {
    if (!reactors_.front()->post_timer(when, timer)) timer(true);
}

unsigned Engine::window() {
    const MutexLock lock(mutex_);
    return queue_.window().size();
}

bool Engine::has_spare_connection(const Request& request) {
    const MutexLock lock(mutex_);
    return !stopped_ && queue_.window().is_largest() && queue_.waiting() == 0 &&
           queue_.running() < queue_.share(lane_of(request));
}

void Engine::stop() {
    std::vector<TransferPtr> waiting;
    {
        const MutexLock lock(mutex_);
        stopped_ = true;
        waiting = queue_.take_if([](const TransferPtr&) { return true; });
        waiting_.store(0, std::memory_order_relaxed);
    }
    for (auto& transfer : waiting) {
        transfer->fail(Failure::cancelled, "stopped");
        transfer->complete();
    }
    for (auto& reactor : reactors_) reactor->stop();
}

}  // namespace tierfs::http
