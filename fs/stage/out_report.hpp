// Reports of `tierfs-stage out` while it works.
#pragma once

#include <chrono>
#include <thread>

#include "config/base/mutex.hpp"
#include "fs/stage/copy/out.hpp"

namespace tierfs::stage {

enum class OutForm : std::uint8_t {
    people,  ///< failures and a summary; a progress bar on a terminal, a line every 10 s elsewhere
    quiet,   ///< failures and a summary
    json,    ///< JSON lines on standard output, nothing else there
};

/// Thread-safe. A thread of its own tells of the progress. Texts for people go to standard error but for the
/// summary and what a dry run would do.
class OutReport final : public OutObserver {
  public:
    OutReport(OutForm form, bool verbose);
    ~OutReport() override;
    OutReport(const OutReport&) = delete;
    OutReport& operator=(const OutReport&) = delete;

    void planned(std::uint64_t files, std::uint64_t bytes) override TIERFS_EXCLUDES(mutex_);
    void remark(const std::string& text) override TIERFS_EXCLUDES(mutex_);
    void file(const OutEvent& event) override TIERFS_EXCLUDES(mutex_);
    void progress(std::uint64_t bytes) override TIERFS_EXCLUDES(mutex_);

    /// The last words. `status`: the exit status.
    void end(int status, const OutSummary& summary, bool dry_run) TIERFS_EXCLUDES(mutex_);
    void end(int status, const std::string& error) TIERFS_EXCLUDES(mutex_);

  private:
    using Clock = std::chrono::steady_clock;
    void run() TIERFS_EXCLUDES(mutex_);
    void stop() TIERFS_EXCLUDES(mutex_);
    void tell_progress() TIERFS_REQUIRES(mutex_);
    void clear_bar() TIERFS_REQUIRES(mutex_);

    const OutForm form_;
    const bool verbose_, terminal_;
    const Clock::time_point start_ = Clock::now();
    Mutex mutex_;
    std::condition_variable wake_;
    bool ended_ TIERFS_GUARDED_BY(mutex_) = false, bar_ TIERFS_GUARDED_BY(mutex_) = false;
    std::uint64_t done_ TIERFS_GUARDED_BY(mutex_) = 0, total_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::thread thread_;
};

}  // namespace tierfs::stage
