// StreamPrefetcher: runs backwards, and strided ones.
#include <algorithm>
#include <cstdlib>

#include "tiering/prefetch/stream_prefetcher.hpp"

namespace tierfs {
namespace {

/// Pieces of a strided run that may be skipped, or be read a little out of order.
constexpr std::int64_t kSkipped = 16;
/// So many runs in a row that are no pieces end a strided run.
constexpr unsigned kStrangers = 8;

}  // namespace

PrefetchAdvice StreamPrefetcher::retreat(Stream& stream, Cursor& cursor, std::uint64_t begin,
                                         std::uint64_t end) {
    if (begin < cursor.begin) {
        ++cursor.down;
        ++stream.continued;
        cursor.begin = begin;
        cursor.dense_from = std::min(cursor.dense_from, begin);
        const bool many = stream.seeks > stream.continued;
        if (!cursor.backward && cursor.down >= (many ? 4U : 2U)) {
            cursor.backward = true;
            cursor.next = begin;
        }
        if (cursor.backward) {
            set_window(cursor, std::clamp(cursor.window * 2, limits_.part, window_limit()));
            // The parts of one read may come in any order.
            cursor.position = end + limits_.part;
        }
    }
    const PrefetchAdvice advised = advice(stream, cursor, begin, end);
    if (cursor.backward && cursor.begin == 0) {
        set_window(cursor, 0);
        std::erase_if(stream.cursors, [&](const Cursor& other) { return &other == &cursor; });
    }
    return advised;
}

std::optional<PrefetchPart> StreamPrefetcher::next_backward(Cursor& cursor) const {
    const std::uint64_t window = std::min(cursor.window, window_limit());
    const std::uint64_t low = cursor.begin > window ? cursor.begin - window : 0;
    cursor.next = std::min(cursor.next, cursor.begin);
    if (cursor.next <= low) return std::nullopt;
    const std::uint64_t length = part_length(window), end = cursor.next;
    cursor.next = (end - 1) / length * length;
    return PrefetchPart{cursor.next, end, cursor.next};
}

void StreamPrefetcher::note_run(Stream& stream, std::uint64_t begin, std::uint64_t end) {
    for (Run& run : stream.runs) {
        if (run.begin != begin) continue;
        run.end = std::max(run.end, end);
        return;
    }
    if (stream.runs.size() < kRuns) {
        stream.runs.push_back({begin, end});
        return;
    }
    stream.runs[stream.oldest_run] = {begin, end};
    stream.oldest_run = (stream.oldest_run + 1) % kRuns;
}

bool StreamPrefetcher::continues(Stride& stride, std::uint64_t begin) const {
    const auto away = static_cast<std::int64_t>(begin - stride.last);
    const std::int64_t steps = away / stride.gap;
    if (away % stride.gap != 0 || std::abs(steps) > kSkipped) {
        if (++stride.strangers >= kStrangers) stride = {};
        return false;
    }
    stride.strangers = 0;
    if (steps <= 0) return true;
    const auto taken = static_cast<std::uint64_t>(steps);
    if (taken > stride.wanted) stride.done = 0;
    stride.wanted -= std::min(stride.wanted, taken);
    stride.last = begin;
    const std::uint64_t most = window_limit() / std::max<std::uint64_t>(stride.length, kBlockSize);
    stride.pieces = std::clamp<std::uint64_t>(stride.pieces * 2, 1, std::max<std::uint64_t>(most, 1));
    return true;
}

std::uint64_t StreamPrefetcher::find_stride(Stream& stream, std::uint64_t begin) const {
    Stride& stride = stream.stride;
    if (stride.gap != 0) return continues(stride, begin) ? begin + stride.length : 0;
    const auto run_at = [&](std::uint64_t place) {
        return std::find_if(stream.runs.begin(), stream.runs.end(),
                            [&](const Run& run) { return run.begin == place; });
    };
    for (const Run& last : stream.runs) {
        const std::uint64_t gap = begin - last.begin;  // of either sign, modulo 2^64
        if (gap == 0) continue;
        const auto before = run_at(last.begin - gap), first = run_at(last.begin - 2 * gap);
        if (before == stream.runs.end() || first == stream.runs.end()) continue;
        const std::uint64_t length =
            std::max({last.end - last.begin, before->end - before->begin, first->end - first->begin});
        const auto away = static_cast<std::int64_t>(gap);
        if (length > static_cast<std::uint64_t>(std::abs(away))) continue;
        stride = {};
        stride.gap = away;
        stride.length = length;
        stride.last = begin;
        stride.pieces = 1;
        return begin + length;
    }
    return 0;
}

std::optional<PrefetchPart> StreamPrefetcher::next_piece(Stream& stream) const {
    Stride& stride = stream.stride;
    if (stride.gap == 0 || stride.wanted >= stride.pieces) return std::nullopt;
    const auto steps = static_cast<std::int64_t>(stride.wanted) + 1;
    const std::int64_t place = static_cast<std::int64_t>(stride.last) + stride.gap * steps;
    if (place < 0 || static_cast<std::uint64_t>(place) >= stream.size) return std::nullopt;
    const auto piece = static_cast<std::uint64_t>(place);
    const std::uint64_t end = std::min(stream.size, piece + stride.length);
    const std::uint64_t begin = piece + stride.done;
    const std::uint64_t to = std::min(end, (begin / limits_.unit + 1) * limits_.unit);
    stride.done = to - piece;
    if (to == end) {
        ++stride.wanted;
        stride.done = 0;
    }
    return PrefetchPart{begin, to, begin};
}

}  // namespace tierfs
