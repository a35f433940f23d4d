#include "tiering/prefetch/dataset_fill.hpp"

#include <utility>

#include "config/base/log.hpp"

namespace tierfs {
namespace {

/// One file may be too large where others still fit.
constexpr unsigned kRefusals = 32;

}  // namespace

DatasetFill::~DatasetFill() {
    stop();
    if (thread_.joinable()) thread_.join();
}

void DatasetFill::join_if_ended() {
    if (ended_ && thread_.joinable()) thread_.join();
}

void DatasetFill::start(const Options& options, std::function<void()> done) {
    options_ = options;
    done_ = std::move(done);
    identity_ = listings_.origin().identity();
    listening_ = options.scope == Scope::recognised || options.recognises;
    if (options.scope == Scope::all) all_wanted_ = true;
    thread_ = std::thread([this] { run(); });
}

void DatasetFill::stop() {
    stopped_ = true;
    wake();
}

void DatasetFill::wake() {
    MutexLock lock(mutex_);
    wake_.notify_all();
}

bool DatasetFill::pause(std::chrono::milliseconds time) {
    MutexLock lock(mutex_);
    if (!stopped_) (void)lock.wait_for(wake_, time);
    return !stopped_;
}

void DatasetFill::walk_all() {
    all_wanted_ = true;
    wake();
}

void DatasetFill::run() {
    const auto goes_on = [this] { return options_.stays || all_wanted_ || (listening_ && !over_); };
    while (!stopping() && goes_on()) {
        if (all_wanted_.exchange(false)) {
            walking_all_ = true;
            run_all();
            settle();
            walking_all_ = false;
        } else if (listening_ && !over_) {
            run_recognised();
        } else {
            listening_ = false;
            MutexLock lock(mutex_);
            if (!stopped_ && !all_wanted_) lock.wait(wake_);
        }
    }
    listening_ = false;
    ended_ = true;
    done_();
}

void DatasetFill::run_all() {
    if (options_.begins) options_.begins();
    refused_ = 0;
    FileWalk walk(listings_, "", FileWalk::Below::with);
    std::vector<ListedFile> files;
    std::uint64_t number = 0;
    while (!walk.over()) {
        files.clear();
        const auto listed = walk.next(files);
        if (stopping()) return;
        if (!listed) {
            log::warning("filling the cache ends: " + listed.error().message);
            return;
        }
        for (const ListedFile& file : files) {
            if (number++ % options_.share.count == options_.share.index && offer(file) == Offered::full)
                return;
        }
    }
}

DatasetFill::Offered DatasetFill::offer(const ListedFile& file) {
    if (!file.fetchable) return stopping() ? Offered::full : Offered::passed;
    const Offered offered = offer_(object_of(identity_, file));
    if (stopping()) return Offered::full;
    if (offered == Offered::passed) return offered;
    refused_ = offered == Offered::full ? refused_ + 1 : 0;
    if (offered == Offered::taken) bytes_.fetch_add(file.size, std::memory_order_relaxed);
    return refused_ < kRefusals ? offered : Offered::full;
}

}  // namespace tierfs
