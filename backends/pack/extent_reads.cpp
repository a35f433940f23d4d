#include "backends/pack/extent_reads.hpp"

#include <algorithm>
#include <cstring>

#include "backends/extent/codec.hpp"
#include "config/base/log.hpp"

namespace tierfs::pack {

namespace {

/// Requests of prefetch and fill under way; what comes meanwhile is put together.
constexpr unsigned kMostUnderWay = 8;
constexpr std::uint64_t kLargestBatch = 4 << 20;
/// Bytes that nobody asked for, tables of chunks above all, are worth a request less.
constexpr std::uint64_t kLargestGap = 128 << 10;
constexpr auto kRest = std::chrono::seconds(10);

struct Range {
    std::uint64_t begin = 0, end = 0;  ///< in the extent
};

/// What must be read to verify the wanted bytes: whole units; all of a compressed file.
Range range_of(const ExtentRead& read) {
    const Place& place = read.place;
    if (place.codec != Codec::none) return {place.offset, place.offset + place.stored};
    const auto from = read.request.offset, to = from + read.request.destination.size();
    const auto end =
        std::min<std::uint64_t>((to + kExtentUnit - 1) / kExtentUnit * kExtentUnit, place.stored);
    return {place.offset + from / kExtentUnit * kExtentUnit, place.offset + end};
}

/// `bytes` are those from unit `first` on.
bool is_sound(const ContentId& id, const Place& place, std::uint64_t first,
              std::span<const std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += kExtentUnit) {
        const auto unit = first + at / kExtentUnit;
        const auto part = bytes.subspan(at, std::min<std::size_t>(kExtentUnit, bytes.size() - at));
        if (unit_checksum(id, unit, kExtentUnit, part) != place.sums[unit]) return false;
    }
    return true;
}

bool is_sound(const ExtentRead& read, std::span<const std::byte> bytes) {
    return is_sound(read.id, read.place, (range_of(read).begin - read.place.offset) / kExtentUnit, bytes);
}

/// False: what is stored is no compressed form of the file.
bool copy_out(const ExtentRead& read, std::span<const std::byte> bytes) {
    const auto to = read.request.destination;
    if (read.place.codec == Codec::none) {
        const auto skipped = read.request.offset % kExtentUnit;
        if (bytes.data() != to.data()) std::memcpy(to.data(), bytes.data() + skipped, to.size());
        return true;
    }
    std::vector<std::byte> whole(read.size);
    if (!decompress(read.place.codec, bytes, whole)) return false;
    std::memcpy(to.data(), whole.data() + read.request.offset, to.size());
    return true;
}

bool is_out_of_reach(int code) {
    return code == ETIMEDOUT || code == EHOSTUNREACH || code == EACCES;
}

}  // namespace

struct ExtentReads::Batch {
    std::list<ExtentRead> reads;
    Range range;
    bool is_counted = false;  ///< in under_way_
    std::vector<std::byte> buffer;
    std::span<std::byte> bytes;
};

bool ExtentReads::rests() const {
    const MutexLock lock(mutex_);
    return Clock::now() < rest_until_;
}

void ExtentReads::read(ExtentRead read) {
    if (rests()) return source_.read(std::move(read.request));
    if (read.request.priority != Priority::demand) {
        {
            const MutexLock lock(mutex_);
            waiting_.push_back(std::move(read));
        }
        return send_more();
    }
    auto batch = std::make_shared<Batch>();
    batch->range = range_of(read);
    batch->reads.push_back(std::move(read));
    send(batch);
}

void ExtentReads::send_more() {
    for (;;) {
        BatchPtr batch;
        {
            const MutexLock lock(mutex_);
            if (under_way_ >= kMostUnderWay || waiting_.empty()) return;
            batch = next_batch();
            ++under_way_;
        }
        send(batch);
    }
}

ExtentReads::BatchPtr ExtentReads::next_batch() {
    auto batch = std::make_shared<Batch>();
    batch->is_counted = true;
    batch->range = range_of(waiting_.front());
    batch->reads.splice(batch->reads.end(), waiting_, waiting_.begin());
    // Those that continue it on either side, until a pass over all finds none: they come nearly in order.
    for (bool grew = true; grew;) {
        grew = false;
        for (auto it = waiting_.begin(); it != waiting_.end();) {
            const auto here = it++;
            if (here->extent != batch->reads.front().extent) continue;
            const auto range = range_of(*here);
            const Range joined{std::min(batch->range.begin, range.begin),
                               std::max(batch->range.end, range.end)};
            const bool near = range.begin <= batch->range.end + kLargestGap &&
                              batch->range.begin <= range.end + kLargestGap;
            if (!near || joined.end - joined.begin > kLargestBatch) continue;
            batch->range = joined;
            batch->reads.splice(batch->reads.end(), waiting_, here);
            grew = true;
        }
    }
    return batch;
}

void ExtentReads::send(const BatchPtr& batch) {
    const auto& first = batch->reads.front();
    const auto& request = first.request;
    const auto length = batch->range.end - batch->range.begin;
    const bool direct =
        batch->reads.size() == 1 && first.place.codec == Codec::none && length == request.destination.size();
    if (direct) {
        batch->bytes = request.destination;
    } else {
        batch->buffer.resize(length);
        batch->bytes = batch->buffer;
    }
    {
        const MutexLock lock(mutex_);
        ++stats_.requests;
    }
    OriginRead read;
    read.path = first.extent;
    read.offset = batch->range.begin;
    read.destination = batch->bytes;
    read.priority = request.priority;
    for (const auto& each : batch->reads) read.priority = std::min(read.priority, each.request.priority);
    read.done = [this, batch](const Result<void>& result) { arrived(batch, result); };
    dest_.read(std::move(read));
}

void ExtentReads::arrived(const BatchPtr& batch, const Result<void>& result) {
    if (batch->is_counted) {
        const MutexLock lock(mutex_);
        --under_way_;
    }
    note_reach(result);
    const bool counted = batch->is_counted;
    for (auto& read : batch->reads) {
        if (!result) {
            to_source(read, result.error(), false);
            continue;
        }
        const auto range = range_of(read);
        finish(read, std::span<const std::byte>(batch->bytes)
                         .subspan(range.begin - batch->range.begin, range.end - range.begin));
    }
    if (counted) send_more();
}

void ExtentReads::note_reach(const Result<void>& result) {
    if (result || !is_out_of_reach(result.error().code)) return;
    const MutexLock lock(mutex_);
    rest_until_ = Clock::now() + kRest;
}

void ExtentReads::read_run(const std::shared_ptr<ExtentRun>& run, const std::string& extent) {
    if (rests())
        return run_arrived(*run, fail(EHOSTUNREACH, extent + ": the pack was out of reach just now"));
    {
        const MutexLock lock(mutex_);
        ++stats_.requests;
    }
    OriginRead read;
    read.path = extent;
    read.offset = run->begin;
    read.destination = run->destination;
    read.priority = Priority::fill;
    read.done = [this, run](const Result<void>& result) {
        note_reach(result);
        run_arrived(*run, result);
    };
    dest_.read(std::move(read));
}

void ExtentReads::run_arrived(ExtentRun& run, const Result<void>& result) {
    std::uint64_t files = 0, bytes = 0;
    for (auto& packed : run.objects) {
        packed.sound = result && is_sound(packed.object->content, packed.place, 0, run.stored(packed.place));
        files += packed.sound ? 1 : 0;
        bytes += packed.sound ? packed.object->size : 0;
    }
    {
        const MutexLock lock(mutex_);
        stats_.reads += files;
        stats_.bytes += bytes;
    }
    const auto done = std::move(run.done);  // it may hold the run
    done(result);
}

void ExtentReads::finish(ExtentRead& read, std::span<const std::byte> bytes) {
    if (!is_sound(read, bytes) || !copy_out(read, bytes))
        return to_source(read, {EIO, "bytes with another checksum"}, true);
    {
        const MutexLock lock(mutex_);
        ++stats_.reads;
        stats_.bytes += read.request.destination.size();
    }
    read.request.done({});
}

void ExtentReads::to_source(ExtentRead& read, const Error& why, bool damaged) {
    // The mount ends: the source would say the same.
    if (why.code == ECANCELED) return read.request.done(fail(why));
    const auto text = "the pack's " + read.extent + " for '" + read.request.path + "': " + why.message +
                      "; its bytes come from the source";
    {
        const MutexLock lock(mutex_);
        ++(damaged ? stats_.damaged : stats_.failed);
        stats_.last_error = text;
    }
    log::error(text);
    source_.read(std::move(read.request));
}

PackStats ExtentReads::stats() const {
    const MutexLock lock(mutex_);
    return stats_;
}

}  // namespace tierfs::pack
