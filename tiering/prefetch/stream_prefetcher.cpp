#include "tiering/prefetch/stream_prefetcher.hpp"

#include <algorithm>
#include <bit>

namespace tierfs {

namespace {
/// From so many seeks without as many continued reads on, an object counts as read at random.
constexpr std::uint32_t kManySeeks = 4;
constexpr std::chrono::seconds kSweepEvery{1};
/// How far apart reads of one stream may arrive: the kernel has at most some megabytes under way.
constexpr std::uint64_t kReorder = 8 << 20;
}  // namespace

StreamPrefetcher::StreamPrefetcher(const PrefetchLimits& limits) : limits_(limits) {}

std::uint64_t StreamPrefetcher::window_limit() const {
    const std::uint64_t share = limits_.all_streams / std::max(1U, active_.load(std::memory_order_relaxed));
    return std::max(limits_.part, std::min(limits_.window, share));
}

std::uint64_t StreamPrefetcher::part_length(std::uint64_t window) const {
    return std::bit_floor(std::clamp(window / 4, limits_.part, limits_.unit));
}

PrefetchAdvice StreamPrefetcher::advice(const Stream& stream, const Cursor& cursor, std::uint64_t begin,
                                        std::uint64_t end) const {
    if (cursor.window == 0) return {false, stream.stride.gap != 0, 0, 0};
    if (cursor.backward) return {false, true, 0, 0};
    const std::uint64_t length = part_length(cursor.window);
    const std::uint64_t last = cursor.cap == 0 ? stream.size : std::max(end, cursor.cap);
    return {true, true, std::max(cursor.begin, begin / length * length),
            std::min(last, ((end - 1) / length + 1) * length)};
}

void StreamPrefetcher::set_window(Cursor& cursor, std::uint64_t window) {
    if ((cursor.window > 0) != (window > 0)) {
        if (window > 0) {
            active_.fetch_add(1, std::memory_order_relaxed);
        } else {
            active_.fetch_sub(1, std::memory_order_relaxed);
        }
    }
    cursor.window = window;
}

StreamPrefetcher::Stream& StreamPrefetcher::stream_of(Shard& shard, const ObjectRef& object) {
    const auto found = shard.streams.find(object.content);
    if (found != shard.streams.end()) {
        shard.recent.splice(shard.recent.begin(), shard.recent, found->second);
        return *found->second;
    }
    if (shard.streams.size() >= kObjects / shards_.size()) {
        // One that is being issued has its issuer's promise to look again; the next older will do.
        for (auto victim = std::prev(shard.recent.end()); victim != shard.recent.begin(); --victim) {
            if (victim->issuing) continue;
            for (Cursor& cursor : victim->cursors) set_window(cursor, 0);
            shard.streams.erase(victim->id);
            shard.recent.erase(victim);
            break;
        }
    }
    shard.recent.emplace_front();
    Stream& stream = shard.recent.front();
    stream.id = object.content;
    stream.size = object.size;
    shard.streams.emplace(object.content, shard.recent.begin());
    return stream;
}

void StreamPrefetcher::sweep(Shard& shard, Clock::time_point now) {
    if (now - shard.swept < kSweepEvery) return;
    shard.swept = now;
    for (Stream& stream : shard.recent) {
        std::erase_if(stream.cursors, [&](Cursor& cursor) {
            if (now - cursor.last_read < limits_.idle) return false;
            set_window(cursor, 0);
            return true;
        });
        if (!stream.cursors.empty()) continue;
        stream.stride = {};
        stream.runs.clear();
        stream.oldest_run = 0;
    }
}

bool StreamPrefetcher::belongs(const Cursor& cursor, std::uint64_t begin, std::uint64_t end) const {
    if (cursor.backward) return end <= cursor.position && end + limits_.part >= cursor.begin;
    const std::uint64_t reach = std::max(std::min(cursor.window, kReorder), limits_.part);
    if (begin + reach < cursor.position) return false;                 // from the past: another pass
    if (begin <= cursor.position && end >= cursor.begin) return true;  // touches what was read
    if (cursor.window == 0 || begin < cursor.begin) return false;
    // A gap is filled by reads on their way to us, if this is a stream: most of the run has been read.
    return begin - cursor.position <= reach && 2 * (cursor.consumed + end - begin) >= end - cursor.dense_from;
}

void StreamPrefetcher::take_in(Cursor& cursor, std::uint64_t begin, std::uint64_t end) const {
    if (begin < cursor.begin) {
        cursor.begin = begin;
        cursor.dense_from = std::min(cursor.dense_from, begin);
        if (cursor.window == 0) cursor.next = begin / limits_.part * limits_.part;
    }
    cursor.position = std::max(cursor.position, end);
    const std::uint64_t span = cursor.position - cursor.dense_from;
    cursor.consumed = std::min(cursor.consumed + end - begin, span);
    if (span > 2 * kReorder) {  // what was read long ago does not make today's reads dense
        cursor.dense_from += span / 2;
        cursor.consumed /= 2;
    }
}

PrefetchAdvice StreamPrefetcher::advance(Stream& stream, Cursor& cursor, std::uint64_t begin,
                                         std::uint64_t end) {
    if (cursor.backward || (cursor.window == 0 && end == cursor.begin && begin != 0))
        return retreat(stream, cursor, begin, end);
    const bool onward = end > cursor.position;
    if (onward) cursor.down = 0;
    take_in(cursor, begin, end);
    note_run(stream, cursor.begin, cursor.position);
    if (cursor.position > cursor.cap) cursor.cap = 0;
    if (onward) {
        ++cursor.run;
        ++stream.continued;
    }
    const unsigned needed = stream.seeks >= kManySeeks && stream.seeks > stream.continued ? 2 : 1;
    if (onward && (cursor.window > 0 || cursor.run >= needed)) {
        set_window(cursor, std::clamp(cursor.window * 2, limits_.part, window_limit()));
    } else if (begin == 0 && cursor.window == 0) {
        set_window(cursor, limits_.part);
    }
    cursor.next = std::max(cursor.next, cursor.position / limits_.part * limits_.part);
    const PrefetchAdvice advised = advice(stream, cursor, begin, end);
    if (cursor.position >= stream.size && cursor.next >= stream.size) {
        set_window(cursor, 0);
        std::erase_if(stream.cursors, [&](const Cursor& other) { return &other == &cursor; });
    }
    return advised;
}

PrefetchAdvice StreamPrefetcher::open(Stream& stream, std::uint64_t begin, std::uint64_t end,
                                      Clock::time_point now) {
    if (begin != 0) ++stream.seeks;
    const std::uint64_t cap = find_stride(stream, begin);
    note_run(stream, begin, end);
    if (stream.cursors.size() >= kCursors) {
        const auto oldest =
            std::min_element(stream.cursors.begin(), stream.cursors.end(),
                             [](const Cursor& a, const Cursor& b) { return a.last_used < b.last_used; });
        set_window(*oldest, 0);
        stream.cursors.erase(oldest);
    }
    Cursor cursor;
    cursor.begin = begin;
    cursor.position = end;
    cursor.dense_from = begin;
    cursor.cap = cap > end ? cap : 0;
    cursor.consumed = end - begin;
    cursor.last_used = stream.reads;
    cursor.last_read = now;
    cursor.next = begin / limits_.part * limits_.part;
    if (begin == 0) set_window(cursor, std::min(limits_.part, window_limit()));
    stream.cursors.push_back(cursor);
    return advice(stream, cursor, begin, end);
}

PrefetchAdvice StreamPrefetcher::observe(const ObjectRef& object, std::uint64_t begin, std::uint64_t end,
                                         Clock::time_point now) {
    if (limits_.window == 0) return {};
    Shard& shard = shard_of(object.content);
    MutexLock lock(shard.mutex);
    sweep(shard, now);
    Stream& stream = stream_of(shard, object);
    ++stream.reads;
    for (Cursor& cursor : stream.cursors) {
        if (!belongs(cursor, begin, end)) continue;
        cursor.last_used = stream.reads;
        cursor.last_read = now;
        return advance(stream, cursor, begin, end);
    }
    return open(stream, begin, end, now);
}

bool StreamPrefetcher::begin_issue(const ContentId& id) {
    Shard& shard = shard_of(id);
    MutexLock lock(shard.mutex);
    const auto found = shard.streams.find(id);
    if (found == shard.streams.end()) return false;
    Stream& stream = *found->second;
    if (stream.issuing) {
        stream.again = true;
        return false;
    }
    stream.issuing = true;
    stream.again = false;
    return true;
}

std::optional<PrefetchPart> StreamPrefetcher::next(const ContentId& id) {
    Shard& shard = shard_of(id);
    MutexLock lock(shard.mutex);
    const auto found = shard.streams.find(id);
    if (found == shard.streams.end()) return std::nullopt;
    Stream& stream = *found->second;
    const auto streams = std::count_if(stream.cursors.begin(), stream.cursors.end(),
                                       [](const Cursor& cursor) { return cursor.window > 0; });
    for (Cursor& cursor : stream.cursors) {
        if (cursor.window == 0) continue;
        // Reads went elsewhere: the rest of the window waits until this run is read again.
        if (stream.reads - cursor.last_used > 2 * static_cast<std::uint64_t>(streams)) continue;
        if (cursor.backward) {
            if (auto part = next_backward(cursor)) return part;
            continue;
        }
        const std::uint64_t window = std::min(cursor.window, window_limit());
        const std::uint64_t begin = cursor.next;
        const std::uint64_t size = cursor.cap == 0 ? stream.size : std::min(stream.size, cursor.cap);
        if (begin >= size || begin >= cursor.position + window) continue;
        // Ends are multiples of the part's length, so that parts line up whatever came before.
        const std::uint64_t length = part_length(window);
        cursor.next = std::min(size, (begin / length + 1) * length);
        return PrefetchPart{begin, cursor.next, cursor.begin};
    }
    return next_piece(stream);
}

void StreamPrefetcher::put_back(const ContentId& id, const PrefetchPart& part) {
    Shard& shard = shard_of(id);
    MutexLock lock(shard.mutex);
    const auto found = shard.streams.find(id);
    if (found == shard.streams.end()) return;
    Stream& stream = *found->second;
    for (Cursor& cursor : stream.cursors) {
        if (cursor.window == 0) continue;
        if (cursor.backward) {
            if (cursor.next == part.stream_begin) cursor.next = part.end;
        } else if (cursor.next == part.end) {
            cursor.next = part.begin;
        }
    }
}

bool StreamPrefetcher::end_issue(const ContentId& id) {
    Shard& shard = shard_of(id);
    MutexLock lock(shard.mutex);
    const auto found = shard.streams.find(id);
    if (found == shard.streams.end()) return false;
    Stream& stream = *found->second;
    if (stream.again) {
        stream.again = false;
        return true;
    }
    stream.issuing = false;
    return false;
}

void StreamPrefetcher::forget(const ContentId& id) {
    Shard& shard = shard_of(id);
    MutexLock lock(shard.mutex);
    const auto found = shard.streams.find(id);
    if (found == shard.streams.end()) return;
    for (Cursor& cursor : found->second->cursors) set_window(cursor, 0);
    found->second->cursors.clear();
    found->second->stride = {};
}

}  // namespace tierfs
