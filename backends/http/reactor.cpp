#include "backends/http/reactor.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <stdexcept>

#include "config/base/delivery.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs::http {
namespace {

constexpr std::chrono::milliseconds kScanInterval{50};
constexpr std::chrono::milliseconds kLongestPoll{10000};
constexpr std::size_t kIdleHandles = 16;

}  // namespace

Reactor::Reactor(Dispatcher& dispatcher, WireOptions options, unsigned idle_connections)
    : dispatcher_(dispatcher), options_(std::move(options)), multi_(curl_multi_init()) {
    if (multi_ == nullptr) throw std::runtime_error("libcurl: cannot make a multi handle");
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(std::max(1U, idle_connections)));
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    try {
        events_.emplace(multi_);
    } catch (...) {
        curl_multi_cleanup(multi_);
        throw;
    }
    thread_ = std::thread([this] { run(); });
}

Reactor::~Reactor() {
    stop();
    for (void* easy : idle_easy_) curl_easy_cleanup(easy);
    events_.reset();
    curl_multi_cleanup(multi_);
}

TransferPtr Reactor::post(TransferPtr transfer) {
    TIERFS_SYNC_POINT("http.reactor.posting");
    {
        const MutexLock lock(mutex_);
        if (stopping_) return transfer;
        inbox_.push_back(std::move(transfer));
    }
    wake();
    return nullptr;
}

bool Reactor::post_timer(Clock::time_point when, Timer& timer) {
    {
        const MutexLock lock(mutex_);
        if (stopping_) return false;
        new_timers_.emplace_back(when, std::move(timer));
    }
    wake();
    return true;
}

void Reactor::wake() {
    // The thread itself looks into its inbox before it sleeps.
    if (std::this_thread::get_id() != id_.load()) events_->wake();
}

void Reactor::stop() {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
    }
    TIERFS_SYNC_POINT("http.reactor.stopping");
    if (!thread_.joinable()) return;
    events_->wake();
    thread_.join();
}

void Reactor::run() {
    const Delivery delivery;
    id_.store(std::this_thread::get_id());
    while (take_inbox()) {
        events_->run_due();
        reap();
        if (Clock::now() >= next_scan_) {
            // What has come while this thread had no processor is no silence.
            events_->wait(std::chrono::milliseconds(0));
            reap();
            cut_overdue(Clock::now());
        }
        run_timers(Clock::now());
        events_->wait(longest_wait(Clock::now()));
        reap();
    }
    cancel_all();
}

bool Reactor::take_inbox() {
    std::vector<TransferPtr> transfers;
    {
        const MutexLock lock(mutex_);
        if (stopping_) return false;
        transfers.swap(inbox_);
        for (auto& [when, timer] : new_timers_) timers_.emplace(when, std::move(timer));
        new_timers_.clear();
    }
    for (auto& transfer : ready_) transfers.push_back(std::move(transfer));
    ready_.clear();
    for (auto& transfer : transfers) start(std::move(transfer));
    return true;
}

void* Reactor::take_easy() {
    if (idle_easy_.empty()) return curl_easy_init();
    void* easy = idle_easy_.back();
    idle_easy_.pop_back();
    return easy;
}

void Reactor::recycle_easy(void* easy) {
    if (idle_easy_.size() >= kIdleHandles) {
        curl_easy_cleanup(easy);
        return;
    }
    curl_easy_reset(easy);
    idle_easy_.push_back(easy);
}

void Reactor::start(TransferPtr transfer) {
    Transfer* key = transfer.get();
    active_.emplace(key, std::move(transfer));
    if (key->abandoned()) {  // in the queue meanwhile
        key->fail(Failure::superseded, "");
        end(key);
        return;
    }
    if (Clock::now() >= key->request().deadline) {
        key->fail(Failure::deadline,
                  "no answer in time: the deadline passed before the request could be sent");
        end(key);
        return;
    }
    if (const auto* bad = key->bad_header()) {
        key->fail(Failure::protocol, "the header " + *bad + " would hold a control character");
        end(key);
        return;
    }
    void* easy = take_easy();
    if (easy != nullptr) key->prepare(easy, options_);
    if (easy == nullptr || TIERFS_FAULT("http.send") != 0 ||
        curl_multi_add_handle(multi_, easy) != CURLM_OK) {
        key->fail(Failure::protocol, "libcurl refused the request");
        end(key);
    }
}

void Reactor::reap() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        Transfer* transfer = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        transfer->conclude(message->data.result);
        end(transfer);
    }
}

void Reactor::end(Transfer* key) {
    const auto found = active_.find(key);
    const TransferPtr transfer = std::move(found->second);
    active_.erase(found);
    if (void* easy = transfer->easy(); easy != nullptr) {
        curl_multi_remove_handle(multi_, easy);
        recycle_easy(easy);
    }
    // The freed place is filled first: the connection is warm, and the completion may take its time.
    for (auto& next : dispatcher_.ended(*transfer)) ready_.push_back(std::move(next));
    transfer->complete();
}

void Reactor::cut_overdue(Clock::time_point now) {
    next_scan_ = now + kScanInterval;
    std::vector<std::pair<Transfer*, Failure>> cut;
    const auto longest_silence = [&](const Transfer& transfer) {
        const auto own = transfer.request().stall;
        return own.count() != 0 ? own : options_.stall;
    };
    for (const auto& [key, transfer] : active_) {
        if (transfer->abandoned()) {
            cut.emplace_back(key, Failure::superseded);
        } else if (now >= transfer->request().deadline) {
            cut.emplace_back(key, Failure::deadline);
        } else if (now - transfer->last_progress() >= longest_silence(*transfer)) {
            cut.emplace_back(key, Failure::stalled);
        }
    }
    for (const auto& [key, failure] : cut) {
        const bool stalled = failure == Failure::stalled;
        key->fail(failure, stalled
                               ? "no byte came for " + std::to_string(longest_silence(*key).count()) + " ms"
                               : "no answer in time: the deadline passed");
        end(key);
    }
    if (!dispatcher_.has_waiting()) return;
    for (auto& transfer : dispatcher_.overdue(now)) {
        transfer->fail(Failure::deadline,
                       "no answer in time: the deadline passed while all connections were busy");
        transfer->complete();
    }
}

void Reactor::run_timers(Clock::time_point now) {
    while (!timers_.empty() && timers_.begin()->first <= now) {
        auto node = timers_.extract(timers_.begin());
        node.mapped()(false);
    }
}

std::chrono::milliseconds Reactor::longest_wait(Clock::time_point now) {
    constexpr std::chrono::milliseconds kNone{0};
    if (!ready_.empty()) return kNone;
    {
        const MutexLock lock(mutex_);
        if (!inbox_.empty() || !new_timers_.empty()) return kNone;
    }
    Clock::duration wait = kLongestPoll;
    if (!active_.empty() || dispatcher_.has_waiting())
        wait =
            std::min<Clock::duration>(wait, std::max<Clock::duration>(next_scan_ - now, kScanInterval / 10));
    if (!timers_.empty())
        wait = std::min(wait, std::max(timers_.begin()->first - now, Clock::duration::zero()));
    return std::chrono::ceil<std::chrono::milliseconds>(wait);
}

void Reactor::cancel_all() {
    std::vector<TransferPtr> transfers;
    {
        const MutexLock lock(mutex_);
        transfers.swap(inbox_);
        for (auto& [when, timer] : new_timers_) timers_.emplace(when, std::move(timer));
        new_timers_.clear();
    }
    for (auto& transfer : transfers) ready_.push_back(std::move(transfer));
    while (!active_.empty() || !ready_.empty()) {
        for (auto& transfer : ready_) {
            Transfer* key = transfer.get();
            active_.emplace(key, std::move(transfer));
        }
        ready_.clear();
        Transfer* key = active_.begin()->first;
        key->fail(Failure::cancelled, "stopped");
        end(key);
    }
    while (!timers_.empty()) {
        auto node = timers_.extract(timers_.begin());
        node.mapped()(true);
    }
}

}  // namespace tierfs::http
