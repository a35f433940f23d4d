// Prefetch of streams: sees every read of a large object, says what will be wanted next. Decides only; Store
// fetches.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

struct PrefetchLimits {
    std::uint64_t unit = 1 << 20;           ///< bytes; no part crosses a multiple of it
    std::uint64_t part = 1 << 20;           ///< the smallest part, a divisor of unit; windows start with one
    std::uint64_t window = 64 << 20;        ///< the largest window of one stream; 0: no readahead at all
    std::uint64_t all_streams = 1 << 30;    ///< windows of all active streams together
    std::chrono::milliseconds idle{10000};  ///< a stream not read for so long is over
};

struct PrefetchAdvice {
    bool sequential = false;           ///< part of a run without gaps, forwards
    bool ahead = false;                ///< something may be wanted now: see `next`
    std::uint64_t begin = 0, end = 0;  ///< a stream's read that has to be fetched brings these bytes along
};

/// Bytes [begin, end) of an object, to be asked for in one request.
struct PrefetchPart {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t stream_begin = 0;
};

/// Recognises sequential runs, several per object, in reads that may arrive out of order (the kernel's
/// readahead sends many at a time, served by several threads).
///
/// A read at offset 0 opens a stream with a window of one part. Elsewhere a run counts as a stream from its
/// second adjacent read on, or from its third where the object was mostly read at random, since in a small
/// object chance alone makes neighbours. Each further read of a stream doubles its window up to the limits.
/// Parts grow with the window, a quarter of it each: the first bytes come soon, and a long stream makes few
/// requests, which cost the server about as much as a megabyte does.
/// Backwards, a run counts from its third adjacent read on; its window lies before it. Where four runs of an
/// object, forwards or backwards, begin at the same distance from one another, they are pieces of a strided
/// run: only the pieces to come are wanted, twice as many with each that is read. (Four, since among the
/// latest runs of reads at random in a small object three stand like that by chance now and then.)
///
/// A read that belongs nowhere starts a new cursor, and the least recently used of kCursors goes, with
/// whatever it had not asked for yet.
///
/// Thread-safe; memory is bounded by kObjects objects of kCursors cursors. Time is passed in.
class StreamPrefetcher {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t kCursors = 24;
    static constexpr std::size_t kObjects = 2048;
    static constexpr std::size_t kRuns = 16;

    explicit StreamPrefetcher(const PrefetchLimits& limits);

    /// Takes note of a read of `object` (end at most its size).
    PrefetchAdvice observe(const ObjectRef& object, std::uint64_t begin, std::uint64_t end,
                           Clock::time_point now);

    /// Only one thread at a time asks for parts of one object, so that they are requested in order and a
    /// completion that comes at once does not recurse. False: somebody does already, and will look again.
    bool begin_issue(const ContentId& id);
    /// The next part to fetch: where a stream's window goes on. Only between begin_ and end_issue.
    std::optional<PrefetchPart> next(const ContentId& id);
    /// `part` could not be fetched now (memory); it is offered again later.
    void put_back(const ContentId& id, const PrefetchPart& part);
    /// True: something changed meanwhile, ask again (the issue goes on).
    bool end_issue(const ContentId& id);

    /// Ends all streams of an object: its reads fail.
    void forget(const ContentId& id);

    [[nodiscard]] unsigned active_streams() const { return active_.load(std::memory_order_relaxed); }

  private:
    struct Cursor {
        std::uint64_t begin = 0;                     ///< start of the run
        std::uint64_t position = 0;                  ///< furthest byte read
        std::uint64_t dense_from = 0, consumed = 0;  ///< bytes read since dense_from
        std::uint64_t window = 0;                    ///< 0: not a stream yet
        std::uint64_t next = 0;  ///< where the next part begins: a multiple of limits.part, or the size
        std::uint64_t cap = 0;   ///< piece of a strided run: it ends here; 0: nobody knows
        unsigned run = 0;        ///< adjacent reads after the first
        bool backward = false;   ///< the window lies before `begin`; next: end of the next part
        unsigned down = 0;       ///< adjacent reads, each before the other
        std::uint64_t last_used = 0;
        Clock::time_point last_read;
    };
    /// Where a run began, and how far it got.
    struct Run {
        std::uint64_t begin = 0, end = 0;
    };
    struct Stride {
        std::int64_t gap = 0;      ///< between the beginnings of pieces; 0: no strided run
        std::uint64_t length = 0;  ///< of a piece
        std::uint64_t last = 0;    ///< where the latest piece began
        std::uint64_t pieces = 0;  ///< wanted ahead of it
        std::uint64_t wanted = 0;  ///< of these, asked for
        std::uint64_t done = 0;    ///< bytes of the next one that were asked for
        unsigned strangers = 0;    ///< runs in a row that are no pieces
    };
    struct Stream {
        ContentId id;
        std::uint64_t size = 0;
        std::vector<Cursor> cursors;
        std::uint64_t reads = 0;  ///< also the clock of last_used
        std::uint32_t seeks = 0, continued = 0;
        std::vector<Run> runs;  ///< the latest, a ring of kRuns
        std::size_t oldest_run = 0;
        Stride stride;
        bool issuing = false, again = false;
    };
    struct Shard {
        Mutex mutex;
        std::list<Stream> recent TIERFS_GUARDED_BY(mutex);  ///< most recently used first
        std::unordered_map<ContentId, std::list<Stream>::iterator> streams TIERFS_GUARDED_BY(mutex);
        Clock::time_point swept TIERFS_GUARDED_BY(mutex){};
    };

    Shard& shard_of(const ContentId& id) { return shards_[id.low % shards_.size()]; }
    Stream& stream_of(Shard& shard, const ObjectRef& object) TIERFS_REQUIRES(shard.mutex);
    void sweep(Shard& shard, Clock::time_point now) TIERFS_REQUIRES(shard.mutex);
    [[nodiscard]] bool belongs(const Cursor& cursor, std::uint64_t begin, std::uint64_t end) const;
    PrefetchAdvice advance(Stream& stream, Cursor& cursor, std::uint64_t begin, std::uint64_t end);
    void take_in(Cursor& cursor, std::uint64_t begin, std::uint64_t end) const;
    PrefetchAdvice open(Stream& stream, std::uint64_t begin, std::uint64_t end, Clock::time_point now);
    PrefetchAdvice retreat(Stream& stream, Cursor& cursor, std::uint64_t begin, std::uint64_t end);
    static void note_run(Stream& stream, std::uint64_t begin, std::uint64_t end);
    /// A run begins: the end of its piece where it is one of a strided run, else 0.
    std::uint64_t find_stride(Stream& stream, std::uint64_t begin) const;
    bool continues(Stride& stride, std::uint64_t begin) const;
    std::optional<PrefetchPart> next_backward(Cursor& cursor) const;
    std::optional<PrefetchPart> next_piece(Stream& stream) const;
    void set_window(Cursor& cursor, std::uint64_t window);
    [[nodiscard]] std::uint64_t window_limit() const;
    [[nodiscard]] std::uint64_t part_length(std::uint64_t window) const;
    [[nodiscard]] PrefetchAdvice advice(const Stream& stream, const Cursor& cursor, std::uint64_t begin,
                                        std::uint64_t end) const;

    const PrefetchLimits limits_;
    std::array<Shard, 8> shards_;
    std::atomic<unsigned> active_{0};
};

}  // namespace tierfs
