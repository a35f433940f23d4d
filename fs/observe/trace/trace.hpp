// fs/observe/trace/: who reads what, told while somebody asks. fs/readonly adds events, fs/daemon hands them
// out over the control socket, fs/commands shows them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// Who reads. Plain value.
struct TraceReader {
    pid_t pid = 0;  ///< the process; 0: of another PID name space
    std::uint32_t uid = 0;
    std::string command;  ///< as comm in proc(5): any bytes; empty: not known
};

/// One read of the kernel, or one file that it reads by itself from now on. Plain value.
struct TraceEvent {
    enum class Kind : std::uint8_t { read, passthrough };
    Kind kind = Kind::read;
    int error = 0;                                 ///< of a read that failed: errno
    std::chrono::system_clock::time_point time{};  ///< when it began
    std::chrono::microseconds took{0};
    TraceReader reader;
    std::shared_ptr<const ObjectRef> object;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;  ///< bytes that were read; of a file that is passed through, its size
    /// Of these, as StoreStats counts them; the rest is RAM's.
    std::uint64_t nvme_bytes = 0, origin_bytes = 0;
};

/// "ram", "nvme", "origin", "mixed"; "error" for a read that failed. Of a file that is passed through where
/// it lies: one with `origin_bytes` at the origin.
std::string tier_of(const TraceEvent& event);

/// Keeps events for those who trace, each of whom gets all that came since it began, up to kMostEvents that
/// it has not fetched: the rest is counted and lost. Costs one relaxed load an operation while nobody traces.
/// Who does not fetch for kPatience is forgotten. Thread-safe; no call blocks but for a short lock.
class Trace {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t kMostTracers = 4;
    static constexpr std::size_t kMostEvents = 8192;  ///< some 300 bytes each
    static constexpr std::chrono::seconds kPatience{10};

    [[nodiscard]] bool is_on() const { return tracers_now_.load(std::memory_order_relaxed) != 0; }
    void add(const TraceEvent& event);

    /// The number of a new tracer. EBUSY: there are kMostTracers.
    Result<std::uint64_t> start(Clock::time_point now);

    struct Batch {
        std::vector<TraceEvent> events;  ///< oldest first
        std::uint64_t dropped = 0;       ///< after these, before what comes next
        bool more = false;               ///< fetch again without a pause
    };
    /// Takes up to so many events of a tracer. Nothing: there is no such one (any more).
    std::optional<Batch> take(std::uint64_t number, std::size_t most, Clock::time_point now);
    void stop(std::uint64_t number);

    /// Forgets tracers that have gone; how many. To be called about once a second.
    std::size_t tick(Clock::time_point now);

  private:
    struct Tracer {
        std::uint64_t number = 0;
        Clock::time_point asked;
        std::deque<TraceEvent> events;
        std::uint64_t dropped = 0;  ///< since the last event that is kept
    };
    Tracer* find(std::uint64_t number) TIERFS_REQUIRES(mutex_);

    std::atomic<std::uint32_t> tracers_now_{0};
    Mutex mutex_;
    std::list<Tracer> tracers_ TIERFS_GUARDED_BY(mutex_);
};

/// A read that is traced, from its coming to its answer: shared by who answers. Null while nobody traces.
class TracedRead {
  public:
    /// Looks the reader up in /proc, which waits for nothing. `asker`: the thread that waits, 0 when not
    /// known.
    static std::shared_ptr<TracedRead> begin(Trace& trace, std::shared_ptr<const ObjectRef> object,
                                             pid_t asker, std::uint32_t uid, std::uint64_t offset);
    void answered(const Result<ReadReply>& reply);

  private:
    explicit TracedRead(Trace& trace) : trace_(trace) {}
    Trace& trace_;
    TraceEvent event_;
    Trace::Clock::time_point since_ = Trace::Clock::now();
};

/// The process and the name of a thread, of the text of /proc/TID/status: "Name:" and "Tgid:". Pure.
TraceReader parse_reader(std::string_view status);
/// Of a thread that waits for us, so that it is there.
TraceReader look_up_reader(pid_t thread, std::uint32_t uid);

}  // namespace tierfs
