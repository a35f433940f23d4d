#include "tiering/nvme/device_keeper.hpp"

#include <algorithm>
#include <utility>

#include "config/base/log.hpp"
#include "tiering/nvme/device_id.hpp"
#include "tiering/nvme/device_limits.hpp"
#include "tiering/nvme/probe.hpp"

namespace tierfs {

void add_counts(TierStats& sum, const TierStats& more) {
    sum.hits += more.hits;
    sum.misses += more.misses;
    sum.evicted_bytes += more.evicted_bytes;
    sum.written_bytes += more.written_bytes;
    sum.admitted_bytes += more.admitted_bytes;
    sum.reinserted_bytes += more.reinserted_bytes;
    sum.codec_saved_bytes += more.codec_saved_bytes;
    sum.unknown_codecs += more.unknown_codecs;
    sum.dropped += more.dropped;
    sum.bypassed += more.bypassed;
    sum.unwritten_bytes += more.unwritten_bytes;
}

DeviceKeeper::DeviceKeeper(NvmePlace place, Context context)
    : place_(std::move(place)), context_(std::move(context)) {}

DeviceKeeper::~DeviceKeeper() {
    stop(true);
}

Result<void> DeviceKeeper::open(NvmeFolder folder, std::uint64_t limit) {
    NvmeDeviceOptions options;
    options.directory = folder.path;
    options.limit = limit;
    options.keep_free = context_.options.keep_free;
    options.pack_max_object = context_.options.pack_max_object;
    options.stalled_queue = context_.options.stalled_queue / context_.options.devices.size();
    auto opened = NvmeDevice::open(std::move(folder), options, context_.hooks, context_.shared);
    if (!opened) return fail(opened.error());
    const DevicePtr device = std::move(*opened);
    folder_ = options.directory;
    id_ = device->id();
    limit_ = limit;
    MutexLock lock(mutex_);
    for (std::size_t number = 0; number < kMostDatasets; ++number)
        device->retain(static_cast<DatasetNumber>(number), retentions_[number]);
    device->retain(kUnknownDataset, retentions_.back());
    device_ = device;
    context_.shared.present[context_.number] = id_;
    return {};
}

void DeviceKeeper::leave_out(const Error& error) {
    log::error("NVMe tier: " + place_.name + " is left out: " + error.message);
    MutexLock lock(mutex_);
    reason_ = error.message;
}

void DeviceKeeper::watch() {
    if (context_.hooks.probe_interval.count() > 0) thread_ = std::thread([this] { run(); });
}

DevicePtr DeviceKeeper::get() const {
    MutexLock lock(mutex_);
    return device_;
}

void DeviceKeeper::retain(DatasetNumber dataset, Retention retention) {
    MutexLock lock(mutex_);
    (dataset < kMostDatasets ? retentions_[dataset] : retentions_.back()) = retention;
    if (device_) device_->retain(dataset, retention);
}

TierStats DeviceKeeper::stats() const {
    MutexLock lock(mutex_);
    TierStats sum = before_;
    if (device_) add_counts(sum, device_->stats());
    return sum;
}

std::uint64_t DeviceKeeper::checksum_errors() const {
    MutexLock lock(mutex_);
    return checksum_errors_before_ + (device_ ? device_->checksum_errors() : 0);
}

DeviceStats DeviceKeeper::device_stats() const {
    DeviceStats stats;
    stats.path = place_.name;
    MutexLock lock(mutex_);
    if (!device_) {
        stats.state = "down";
        stats.reason = reason_;
        return stats;
    }
    const TierStats of_device = device_->stats();
    stats.state = of_device.state;
    stats.reason = of_device.state == "full" ? "its file system has no room for what the limit allows"
                                             : device_->health().reason();
    stats.limit_bytes = of_device.limit_bytes;
    stats.used_bytes = of_device.used_bytes;
    return stats;
}

bool DeviceKeeper::wait_for_next() {
    MutexLock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + context_.hooks.probe_interval;
    while (!stop_) {
        const auto left = until - std::chrono::steady_clock::now();
        if (left.count() <= 0) break;
        (void)lock.wait_for(wake_, left);
    }
    return !stop_;
}

void DeviceKeeper::run() {
    while (wait_for_next()) {
        const DevicePtr device = get();
        if (!device) {
            reopen();
            continue;
        }
        device->look();
        device->give_way();
        if (!device->health().may_read()) {
            close_device(device);
        } else if (device->health().state() != Health::State::normal) {
            probe(*device);
        }
    }
}

bool DeviceKeeper::judge(bool good) {
    good_ = good ? good_ + 1 : 0;
    backoff_ = good ? 1 : std::min(2 * backoff_, kLongestBackoff);
    skip_ = good ? 0 : backoff_;
    if (good_ < kGoodProbes) return false;
    good_ = 0;
    return true;
}

void DeviceKeeper::probe(NvmeDevice& device) {
    if (device.health().is_pausing()) return;
    if (skip_ > 0) {
        --skip_;
        return;
    }
    const auto began = std::chrono::steady_clock::now();
    const auto done = probe_device(folder_);
    const bool slow = std::chrono::steady_clock::now() - began > ReadWatch::kStalled;
    if (judge(done && !slow)) device.recovered("probes succeeded");
    // What is full or read-only can still be read.
    if (done || done.error().code == ENOSPC || done.error().code == EDQUOT || done.error().code == EROFS) {
        bad_ = 0;
    } else if (++bad_ >= kBadProbes) {
        device.give_up(done.error().message);
    }
}

void DeviceKeeper::close_device(const DevicePtr& device) {
    {
        MutexLock lock(mutex_);
        reason_ = device->health().reason();
        device_.reset();
        context_.shared.present[context_.number] = 0;
    }
    good_ = bad_ = skip_ = 0;
    backoff_ = 1;
    device->abandon();  // waits for the writer: for as long as the device holds it
    MutexLock lock(mutex_);
    add_counts(before_, device->stats());
    before_.unwritten_bytes = 0;  // it is not written any more
    checksum_errors_before_ += device->checksum_errors();
    lock.unlock();
    log::warning("NVMe tier: " + place_.name + " is closed, and opened again when it answers");
}

void DeviceKeeper::reopen() {
    if (skip_ > 0) {
        --skip_;
        return;
    }
    // Nothing is made in what lies beneath a device that is not mounted.
    if (id_ != 0 && read_device_id(folder_) != id_) {
        (void)judge(false);
        return;
    }
    auto folder = place_.open();
    if (!folder || !probe_device(folder->path)) {
        (void)judge(false);
        return;
    }
    if (!judge(true)) return;
    std::uint64_t limit = limit_;
    if (limit == 0) {
        const auto capacity = capacity_of(folder->path);
        limit = capacity ? context_.late_limit(*capacity) : 0;
    }
    const auto opened = limit == 0 ? fail(EIO, "no space") : open(std::move(*folder), limit);
    if (!opened) {
        (void)judge(false);
        return;
    }
    log::info("NVMe tier: " + place_.name + " is normal: it was probed, and is open again");
}

void DeviceKeeper::stop(bool orderly) {
    {
        MutexLock lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    const auto device = get();
    if (!device) return;
    if (orderly) {
        device->close();
    } else {
        device->abandon();
    }
}

}  // namespace tierfs
