// Pace of the fill: so many requests beside those that readers wait for, and so many files for those that were read.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "config/base/mutex.hpp"

namespace tierfs {

/// A fill that nobody asked for guesses. It may take what readers leave of the processors, the network and the
/// server, and nothing that they use: where a request travels for 20 ms, a hundred more beside it cost its
/// reader nothing; where the server is near and the processors are busy, one more makes each of four readers
/// wait a quarter longer.
///
/// Nobody can tell from here which of the two it is, but each answer to a reader shows it: a reader's wait beside
/// the fill is compared with his wait while the fill is still. The window of the fill (its requests under way)
/// grows while readers lose less than `kCost`, fourfold until it was too wide once, and shrinks when they lose
/// more, as LEDBAT (RFC 6817) does for transfers in the background. Loss is of files a second: where the fill
/// brought half of what readers ask for, each of the other half may take twice as long. Where readers lose, the
/// fill pauses now and then for a few answers, to measure quiet ones again.
///
/// Until `kFirst` files were read it brings at most `kAhead` files for each of them, and as many times their bytes:
/// somebody may only look at a few pictures.
///
/// Thread-safe. Decides only: times and counts are passed in.
class FillPace {
  public:
    using Clock = std::chrono::steady_clock;

    static constexpr double kCost = 1.25;
    static constexpr std::uint64_t kFirst = 64, kAhead = 4;
    static constexpr std::uint64_t kStart = 1;  ///< the window at first
    static constexpr std::size_t kQuiet = 32;   ///< quiet answers that are remembered
    static constexpr std::size_t kVerdict = 8;  ///< answers beside the fill that are judged together
    static constexpr std::size_t kProbe = 16;   ///< quiet answers that end a pause
    static constexpr std::uint64_t kUntilProbe =
        64;  ///< answers until the first pause; twice as many each time
    static constexpr std::uint64_t kMostUntilProbe = 4096;
    /// Readers who ask for nothing that is missing are not held up by anything.
    static constexpr std::chrono::milliseconds kIdle{50};

    struct Limits {
        std::uint64_t most = 0;   ///< requests under way
        bool all = false;         ///< as fast as it goes: no pace
        std::uint64_t times = 0;  ///< files for each that was read; 0: no limit
    };
    /// For people: where it stands.
    struct Status {
        std::uint64_t window = 0;  ///< requests under way, at most
        std::uint64_t asked_files = 0, sent_files = 0, found_files = 0;
        std::chrono::nanoseconds quiet{0}, beside{0};  ///< a reader's wait without the fill, and beside it
    };

    explicit FillPace(const Limits& limits) : limits_(limits) {}

    /// A small file of so many bytes was read that was not in RAM before.
    void asked(std::uint64_t bytes) TIERFS_EXCLUDES(mutex_);
    /// So many of them had been brought by the fill.
    void found(std::uint64_t files) TIERFS_EXCLUDES(mutex_);
    /// A reader's request for a small file, from when it is sent until it is answered.
    struct Request {
        Clock::time_point sent{};
        std::uint64_t fill = 0;    ///< requests of the fill under way then
        bool has_others = false;   ///< and of what was asked for in the background: it tells nothing
        std::uint64_t before = 0;  ///< files that the fill had sent for; set by waits()
    };
    void waits(Request& request) TIERFS_EXCLUDES(mutex_);
    /// Once for each waits(). `failed`: it tells nothing.
    void answered(const Request& request, Clock::time_point now, bool failed) TIERFS_EXCLUDES(mutex_);
    /// One more file may be fetched while so many requests of the fill are under way.
    bool may_send(std::uint64_t under_way, Clock::time_point now) TIERFS_EXCLUDES(mutex_);
    void sent(std::uint64_t files, std::uint64_t bytes) TIERFS_EXCLUDES(mutex_);

    [[nodiscard]] Status status() const TIERFS_EXCLUDES(mutex_);

  private:
    using Wait = std::chrono::nanoseconds;

    [[nodiscard]] Wait quiet_wait() const TIERFS_REQUIRES(mutex_);
    void judge(Clock::time_point now) TIERFS_REQUIRES(mutex_);
    void pause(Clock::time_point now) TIERFS_REQUIRES(mutex_);
    void grow(Clock::time_point now) TIERFS_REQUIRES(mutex_);
    void set_window(std::uint64_t window, Clock::time_point now) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] bool is_probing(Clock::time_point now) TIERFS_REQUIRES(mutex_);

    const Limits limits_;
    mutable Mutex mutex_;
    std::uint64_t window_ TIERFS_GUARDED_BY(mutex_) = kStart;
    bool leaps_ TIERFS_GUARDED_BY(mutex_) = true;  ///< until it was too wide once
    std::uint64_t asked_ TIERFS_GUARDED_BY(mutex_) = 0, sent_ TIERFS_GUARDED_BY(mutex_) = 0,
                         found_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t asked_bytes_ TIERFS_GUARDED_BY(mutex_) = 0, sent_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t asked_before_ TIERFS_GUARDED_BY(mutex_) = 0, found_before_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t waiting_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< requests of readers
    double share_found_ TIERFS_GUARDED_BY(mutex_) = 0;     ///< of what was asked for lately
    std::array<Wait, kQuiet> quiet_ TIERFS_GUARDED_BY(mutex_){};
    std::size_t quiet_count_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< ever
    std::array<Wait, kVerdict> beside_ TIERFS_GUARDED_BY(mutex_){};
    std::size_t beside_count_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< since the window changed
    Wait last_beside_ TIERFS_GUARDED_BY(mutex_){0};
    Clock::time_point changed_ TIERFS_GUARDED_BY(mutex_){};   ///< the window, or the last judgement
    Clock::time_point answered_ TIERFS_GUARDED_BY(mutex_){};  ///< the last time
    Clock::time_point grown_ TIERFS_GUARDED_BY(mutex_){};     ///< since nobody waited
    std::uint64_t until_probe_ TIERFS_GUARDED_BY(mutex_) = kUntilProbe, since_probe_
                                                                        TIERFS_GUARDED_BY(mutex_) = 0;
    std::size_t probe_left_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< quiet answers that the pause still waits for
    Clock::time_point probe_since_ TIERFS_GUARDED_BY(mutex_){};
};

}  // namespace tierfs
