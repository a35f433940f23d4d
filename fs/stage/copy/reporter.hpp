// Reports of a run: events as JSON lines, lines for people, progress, totals.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

#include "config/base/json_text.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs::stage {

/// What was done so far. Thread-safe; bytes.
struct Totals {
    std::atomic<std::uint64_t> files_planned = 0, bytes_planned = 0;
    std::atomic<std::uint64_t> files_staged = 0, bytes_staged = 0;  ///< have their final name and record
    std::atomic<std::uint64_t> bytes_done = 0;                      ///< written or found again; for progress
    std::atomic<std::uint64_t> bytes_from_source = 0;               ///< read from the source
    std::atomic<std::uint64_t> bytes_reused = 0;                    ///< of an interrupted run, verified
    std::atomic<std::uint64_t> files_kept = 0, bytes_kept = 0;      ///< were staged already
    std::atomic<std::uint64_t> files_removed = 0, files_failed = 0, files_changed = 0, warnings = 0;
};

/// Thread-safe. With `json` every event is a line on standard output and nothing else is written there;
/// otherwise warnings, errors and progress are lines on standard error. Lines hold no byte that is not
/// printable.
class Reporter {
  public:
    struct Options {
        bool json = false;
        bool quiet = false;                 ///< no progress
        std::chrono::seconds interval{10};  ///< of progress; 0: none
    };

    explicit Reporter(Options options);
    /// Ends the progress.
    ~Reporter();
    Reporter(const Reporter&) = delete;
    Reporter& operator=(const Reporter&) = delete;

    Totals& totals() { return totals_; }

    /// Begins to report progress.
    void start_progress();
    void end_progress();

    void event(const std::string& name, OrderedJson members);
    /// Whether an event would be seen: for who makes one for every file.
    [[nodiscard]] bool wants_events() const { return options_.json; }
    void warning(const std::string& text);
    /// A file that could not be staged; counted.
    void failed(const std::string& path, const Error& error);
    /// An error of the whole run.
    void error(const std::string& text);
    /// A line for people only.
    void say(const std::string& text);

    /// "12 % ... ETA 0:10": the progress now.
    std::string progress_line();
    OrderedJson totals_json();
    [[nodiscard]] double seconds() const;

  private:
    using Clock = std::chrono::steady_clock;
    void run();
    void report_progress();
    void line(std::FILE* to, const std::string& text);

    const Options options_;
    const Clock::time_point started_ = Clock::now();
    Totals totals_;
    Mutex mutex_;
    std::condition_variable changed_;
    bool ended_ TIERFS_GUARDED_BY(mutex_) = false;
    Clock::time_point copying_since_ = started_;  ///< set before the thread starts
    std::thread thread_;
};

}  // namespace tierfs::stage
