// Watches over one device of the tier: closes it when it is down, probes it, opens it anew. Internal to
// tiering/nvme.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tiering/nvme/nvme_device.hpp"

namespace tierfs {

using DevicePtr = std::shared_ptr<NvmeDevice>;

/// What is counted, without what is the case now.
void add_counts(TierStats& sum, const TierStats& more);

/// One place of nvme.path and the device that serves there, if any. Thread-safe; but for `open_first` and
/// `stop` no call waits for the device. What does wait happens on a thread of this device alone: every
/// NvmeHooks::probe_interval it looks whether reads and writes come back. A device that is unstable for more
/// than a pause, or down, is probed (longer and longer apart while that fails); after `kGoodProbes` in a row
/// it is normal. One whose reads are off is closed first, so that its file system can be unmounted, and is
/// opened anew, as at a start, when the same device, by its id, is there again. One that was not there at the
/// start is opened as soon as it is.
class DeviceKeeper {
  public:
    static constexpr unsigned kGoodProbes = 3;
    static constexpr unsigned kBadProbes = 5;        ///< in a row make an unstable device down
    static constexpr unsigned kLongestBackoff = 16;  ///< probe intervals

    struct Context {
        const NvmeOptions& options;
        const NvmeHooks& hooks;
        NvmeShared& shared;
        std::size_t number = 0;  ///< of the place
        /// The limit of a device that comes late and has so much space. Called without a lock.
        std::function<std::uint64_t(std::uint64_t capacity)> late_limit;
    };

    DeviceKeeper(NvmePlace place, Context context);
    ~DeviceKeeper();
    DeviceKeeper(const DeviceKeeper&) = delete;
    DeviceKeeper& operator=(const DeviceKeeper&) = delete;

    Result<NvmeFolder> open_folder() const { return place_.open(); }
    /// The first opening, on the caller's thread.
    Result<void> open_first(NvmeFolder folder, std::uint64_t limit) { return open(std::move(folder), limit); }
    void leave_out(const Error& error);
    /// Starts the thread.
    void watch();

    [[nodiscard]] DevicePtr get() const;
    [[nodiscard]] const std::string& name() const { return place_.name; }
    /// Of all times that a device served here.
    [[nodiscard]] TierStats stats() const;
    [[nodiscard]] std::uint64_t checksum_errors() const;
    [[nodiscard]] DeviceStats device_stats() const;
    /// Also for a device that comes later.
    void retain(DatasetNumber dataset, Retention retention);

    /// Ends the thread, then the device: with what is queued written, or at once.
    void stop(bool orderly);

  private:
    Result<void> open(NvmeFolder folder, std::uint64_t limit);
    void run();
    void probe(NvmeDevice& device);
    void close_device(const DevicePtr& device);
    void reopen();
    /// Counts a probe; true: enough of them were good.
    bool judge(bool good);
    bool wait_for_next();

    const NvmePlace place_;
    const Context context_;
    // Of the thread alone, after the first opening:
    std::filesystem::path folder_;  ///< empty until a device served here
    std::uint64_t id_ = 0;
    std::uint64_t limit_ = 0;
    unsigned good_ = 0, bad_ = 0;
    unsigned skip_ = 0, backoff_ = 1;  ///< probe intervals

    mutable Mutex mutex_;
    std::condition_variable wake_;
    DevicePtr device_ TIERFS_GUARDED_BY(mutex_);
    std::string reason_ TIERFS_GUARDED_BY(mutex_);  ///< why there is none
    TierStats before_ TIERFS_GUARDED_BY(mutex_);    ///< of devices that served here before
    std::uint64_t checksum_errors_before_ TIERFS_GUARDED_BY(mutex_) = 0;
    /// By number; the last is that of kUnknownDataset.
    std::array<Retention, kMostDatasets + 1> retentions_ TIERFS_GUARDED_BY(mutex_){};
    bool stop_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace tierfs
