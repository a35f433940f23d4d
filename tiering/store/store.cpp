#include "tiering/store/store.hpp"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "config/base/sync_point.hpp"
#include "tiering/store/store_impl.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;

/// Of the destructor: who destroys a store has stopped it.
constexpr std::chrono::hours kLongestWait{24};

/// An object that is kept whole must fit the block masks.
constexpr std::uint64_t kLargestWhole = std::uint64_t{kLargestUnitBlocks} * kBlockSize;

/// Readahead begins with so much: little to wait for, and little in vain where only a header is read.
constexpr std::uint64_t kSmallestPart = 1U << 20U;

/// Requests of the fill, and of readahead, for each connection: one under way, one that follows at once. More
/// would wait in a queue from which a seek cannot take them back.
constexpr std::uint64_t kRequestsForEach = 2;
/// With a pack, so many small files that lie side by side travel as one (backends/pack/extent_reads.hpp).
constexpr std::uint64_t kPackedTogether = 64;

std::uint64_t most_requests_ahead(const Settings& settings) {
    return kRequestsForEach * settings.origin_connections * (settings.pack.empty() ? 1 : kPackedTogether);
}

/// Small enough that a few such pieces fit the arena together.
std::uint32_t longest_run(std::uint64_t arena) {
    const std::uint64_t blocks = std::clamp<std::uint64_t>(arena / 8 / kBlockSize, 1, kStreamUnitBlocks);
    return static_cast<std::uint32_t>(std::bit_floor(blocks));
}

unsigned ram_shards(std::uint64_t bytes) {
    // Each holds some dozens of small files, so that all are about equally full; many, where there is memory,
    // for many processors.
    const std::uint64_t large = std::min<std::uint64_t>(bytes >> 26U, 64);
    return static_cast<unsigned>(
        std::bit_floor(std::max(std::clamp<std::uint64_t>(bytes >> 22U, 1, 16), large)));
}

PrefetchLimits prefetch_limits(const Settings& settings, std::uint64_t arena) {
    PrefetchLimits limits;
    limits.unit = std::uint64_t{kStreamUnitBlocks} * kBlockSize;
    limits.part = std::min(limits.unit, kSmallestPart);
    limits.window = std::min(settings.prefetch_window, arena / 4);
    limits.all_streams = arena / 2;
    return limits;
}

Neighbours::Options neighbour_options(const Settings& settings, std::uint64_t arena) {
    return {std::min(settings.prefetch_window, arena / 4), settings.metadata_ttl};
}

FillPace::Limits pace_limits(const Settings& settings) {
    FillPace::Limits limits;
    limits.most = most_requests_ahead(settings);
    limits.all = settings.fill_ahead == "all";
    if (const auto times = parse_times(settings.fill_ahead)) limits.times = *times;
    return limits;
}

/// Several are under way at a time (store_fill.cpp), and what a tier that becomes full has no room for any
/// more is little of it.
std::uint64_t longest_extent_run(std::uint64_t prefetch_budget, const NvmeTier* nvme) {
    constexpr std::uint64_t kLeast = 256 << 10, kMost = Arena::kLargest, kRunsUnderWay = 8;
    const std::uint64_t memory = prefetch_budget / 4 / kRunsUnderWay;
    const std::uint64_t tier = nvme == nullptr ? 0 : nvme->stats().limit_bytes / 64;
    return align_down(std::clamp(std::min(memory, tier), kLeast, kMost));
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    counter.fetch_add(value, std::memory_order_relaxed);
}

std::uint64_t get(const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
}

}  // namespace

bool ActivityGate::enter() {
    passed_.mine().entered.fetch_add(1);
    if (!closed_.load()) return true;
    leave();
    return false;
}

/// Each stripe's `left` is read before any `entered`: where the sums are equal all that had entered by the
/// time in between had left by then, and after close() nothing enters where nothing runs.
bool ActivityGate::is_idle() const {
    const std::uint64_t left = passed_.sum([](const Passed& passed) { return passed.left.load(); });
    return left == passed_.sum([](const Passed& passed) { return passed.entered.load(); });
}

bool ActivityGate::wait(std::chrono::milliseconds patience) const {
    constexpr std::chrono::milliseconds kLook{1};
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!is_idle()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::sleep_for(kLook);
    }
    return true;
}

Result<std::unique_ptr<Store>> Store::open(const Settings& settings, const MemoryPlan& plan, Origin& origin,
                                           NvmeTier* nvme, Pins* pins, PackedSource* packed) {
    auto admission = std::make_shared<ReadAdmission>(settings.origin_deadline);
    auto arena = Arena::create(plan.data, admission);
    if (!arena) return fail(std::move(arena.error()));
    if ((*arena)->capacity() < 4 * kBlockSize) {
        return fail(EINVAL,
                    "data memory of " + std::to_string(plan.data) + " bytes: at least 256 KiB needed");
    }
    return std::make_unique<TieredStore>(settings, plan, TieredStore::Places{origin, nvme, pins, packed},
                                         std::move(admission), std::move(*arena));
}

TieredStore::TieredStore(const Settings& settings, const MemoryPlan& plan, const Places& places,
                         std::shared_ptr<ReadAdmission> admission, std::shared_ptr<Arena> arena)
    : pack_max_object_(settings.pack_max_object),
      deadline_(std::min<std::chrono::milliseconds>(settings.origin_deadline, std::chrono::hours(24 * 365))),
      demote_idle_(settings.demote_idle),
      pin_limit_(settings.pin_limit),
      whole_limit_(std::min({settings.pack_max_object, kLargestWhole, arena->capacity() / 4})),
      longest_run_(longest_run(arena->capacity())),
      prefetch_budget_(arena->capacity() / 2),
      most_ahead_(most_requests_ahead(settings)),
      share_(parse_share(settings.fill_shard).value_or(Share{})),
      plan_(plan),
      origin_(places.origin),
      nvme_(places.nvme),
      pins_(places.pins),
      packed_(places.packed),
      admission_(std::move(admission)),
      arena_(std::move(arena)),
      ram_(RamTierOptions{std::min(plan.ram_tier, arena_->capacity()), arena_->capacity() / 2,
                          ram_shards(arena_->capacity())}),
      prefetcher_(prefetch_limits(settings, arena_->capacity())),
      datasets_(settings, places.pins),
      repeats_(settings.promote_after_reads, settings.promote_within),
      watches_(settings.fill_ahead != "off"),
      pace_(pace_limits(settings)),
      runs_(longest_extent_run(prefetch_budget_, places.nvme)),
      listings_(places.origin, settings.metadata_ttl),
      neighbours_(listings_, neighbour_options(settings, arena_->capacity()),
                  [this](const auto& object) { return prefetch_file(object); }),
      fill_(listings_, [this](const auto& object) { return fill_object(object); }) {
    admission_->start(
        [this](const ReadOperationPtr& operation) { return attempt(operation, true) == Started::yes; },
        [this](const ReadOperationPtr& operation) {
            fail_read(operation->callback,
                      Error{ETIMEDOUT, operation->object->path +
                                           ": no data memory came free before origin.deadline; raise "
                                           "memory.limit or read with fewer threads"});
        });
    if (nvme_ != nullptr) {
        nvme_->use_memory([arena = std::weak_ptr(arena_)](std::size_t size) -> BufferPtr {
            const auto alive = arena.lock();
            return alive ? alive->allocate(size) : nullptr;
        });
    }
    start_policy();
}

TieredStore::~TieredStore() {
    TieredStore::stop(kLongestWait);
}

UnitLayout TieredStore::layout_of(std::uint64_t size) const {
    const bool whole = size <= whole_limit_;
    return UnitLayout{size, whole ? kLargestUnitBlocks : kStreamUnitBlocks, whole};
}

void TieredStore::read(std::shared_ptr<const ObjectRef> object, std::uint64_t offset, std::uint32_t length,
                       ReadCallback callback) {
    const bool timed = reads_.mine().requests.fetch_add(1, std::memory_order_relaxed) % kTimedOneOf == 0;
    const auto since = timed ? Clock::now() : Clock::time_point{};
    if (!gate_.enter()) {
        fail_read(callback, Error{ECANCELED, object->path + ": the mount is going away"});
        return;
    }
    const std::uint64_t end =
        offset >= object->size ? offset : std::min(object->size, offset + std::uint64_t{length});
    if (end == offset) {
        callback(ReadReply{});
        gate_.leave();
        return;
    }
    const UnitLayout layout = layout_of(object->size);
    PrefetchAdvice advice;
    if (!layout.whole) {
        advice = prefetcher_.observe(*object, offset, end, StreamPrefetcher::Clock::now());
        add(advice.sequential ? reads_.mine().sequential : reads_.mine().random, 1);
    }
    if (offset == 0) datasets_.began(*object);
    Dataset& dataset = datasets_.of(*object);
    watch(dataset, *object, layout, offset, end, advice.sequential);
    ReadReply reply;
    if (read_from_ram(layout, object->content, offset, end, reply)) {
        small_file_read(*object, layout, account(reply, *object, layout));
        if (timed) latencies_.ram.add(Clock::now() - since, kTimedOneOf);
        callback(std::move(reply));
    } else if (add(reads_.mine().ram_misses, 1);
               !layout.whole && !advice.sequential && read_exactly(*object, offset, end, reply)) {
        nvme_->claim(object->content, dataset.number);
        account(reply, *object, layout);
        callback(std::move(reply));
    } else {
        auto operation = std::make_shared<ReadOperation>();
        operation->object = object;
        operation->layout = layout;
        operation->begin = offset;
        operation->end = end;
        operation->sequential = advice.sequential;
        operation->wide_begin = advice.begin;
        operation->wide_end = advice.end;
        operation->callback = std::move(callback);
        begin(operation);
    }
    if (advice.ahead) top_up(object, layout);
    gate_.leave();
}

bool TieredStore::read_from_ram(const UnitLayout& layout, const ContentId& id, std::uint64_t begin,
                                std::uint64_t end, ReadReply& reply) {
    const std::uint64_t first = layout.unit_of(begin), last = layout.unit_of(end - 1);
    reply.pieces.reserve(last - first + 1);
    reply.owners.reserve(last - first + 1);
    std::uint64_t expected = begin;  // pieces must come in order; if a unit's segments do not, plan it
    for (std::uint64_t unit = first; unit <= last; ++unit) {
        const BlockMask want = layout.touched(unit, begin, end);
        const BlockMask have =
            ram_.visit(UnitKey{id, unit}, want, [&](const ArenaBufferPtr& buffer, BlockMask blocks) {
                for_each_run(blocks, kLargestUnitBlocks, [&](std::uint32_t from, std::uint32_t count) {
                    const std::uint64_t at = std::max(begin, layout.block_begin(unit, from));
                    const std::uint64_t to = std::min(end, layout.block_end(unit, from + count - 1));
                    if (at != expected) return;
                    expected = to;
                    reply.pieces.push_back(buffer->bytes().subspan(at - buffer->object_offset, to - at));
                    reply.owners.push_back(buffer);
                });
            });
        if (have != want) return false;
    }
    if (expected != end) return false;
    add(reads_.mine().ram_hits, 1);
    return true;
}

TieredStore::Came TieredStore::account(ReadReply& reply, const ObjectRef& object, const UnitLayout& layout) {
    Dataset& dataset = datasets_.of(object);
    std::uint64_t total = 0, fresh[2] = {0, 0};
    for (std::size_t i = 0; i < reply.pieces.size(); ++i) {
        const auto piece = reply.pieces[i];
        total += piece.size();
        auto& buffer = static_cast<ArenaBuffer&>(*reply.owners[i]);
        const auto begin = static_cast<std::uint64_t>(piece.data() - buffer.bytes().data());
        const std::uint64_t end = begin + piece.size();
        if (buffer.give(begin, end)) ram_.over(UnitKey{object.content, layout.unit_of(buffer.object_offset)});
        const std::uint64_t taken = buffer.take_fresh(begin, end);
        fresh[buffer.source == ArenaBuffer::Source::nvme ? 1 : 0] += taken;
        if (buffer.fetched_ahead && taken != 0) add(reads_.mine().prefetched_used, taken);
    }
    reply.origin_bytes = fresh[0];
    reply.nvme_bytes = fresh[1];
    Reads& reads = reads_.mine();
    add(reads.bytes, total);
    dataset.read.add(total);
    if (fresh[0] != 0) {
        add(reads.origin, fresh[0]);
        dataset.from_origin.add(fresh[0]);
    }
    if (fresh[1] != 0) add(reads.nvme, fresh[1]);
    if (const std::uint64_t old = total - fresh[0] - fresh[1]; old != 0) add(reads.ram, old);
    return fresh[0] != 0 ? Came::from_origin : fresh[1] != 0 ? Came::from_nvme : Came::before;
}

void TieredStore::fail_read(const ReadCallback& callback, Error error) {
    add(counters_.errors, 1);
    callback(fail(std::move(error)));
}

void TieredStore::arrived(const ReadOperationPtr& operation) {
    if (operation->arrived()) finish(operation);
}

void TieredStore::finish(const ReadOperationPtr& operation) {
    if (auto error = operation->error()) {
        fail_read(operation->callback, std::move(*error));
        return;
    }
    std::sort(operation->pieces.begin(), operation->pieces.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    ReadReply reply;
    reply.pieces.reserve(operation->pieces.size());
    reply.owners.reserve(operation->pieces.size());
    for (ReadOperation::Piece& piece : operation->pieces) {
        reply.pieces.push_back(
            piece.buffer->bytes().subspan(piece.begin - piece.buffer->object_offset, piece.length));
        reply.owners.push_back(std::move(piece.buffer));
    }
    account(reply, *operation->object, operation->layout);
    time_operation(*operation);
    operation->callback(std::move(reply));
}

void TieredStore::time_operation(const ReadOperation& operation) {
    const bool fetched = operation.fetched.load(std::memory_order_relaxed);
    (fetched ? latencies_.origin : latencies_.nvme).add(Clock::now() - operation.since);
    if (operation.admitted != operation.since) latencies_.memory.add(operation.admitted - operation.since);
}

std::optional<WholeFile> TieredStore::whole_file(const ObjectRef& object) {
    if (nvme_ == nullptr || object.size == 0) return std::nullopt;
    return nvme_->whole_file(object.content, object.size);
}

std::string TieredStore::describe_location(const ObjectRef& object) {
    constexpr std::uint64_t kMostSamples = 64;
    const UnitLayout layout = layout_of(object.size);
    const std::uint64_t blocks = block_count(object.size);
    const std::uint64_t samples = std::min(blocks, kMostSamples);
    bool ram = false, nvme = false, origin = blocks == 0;
    for (std::uint64_t i = 0; i < samples; ++i) {
        const std::uint64_t block = i * blocks / samples;
        const std::uint64_t unit = block / layout.unit_blocks;
        const BlockMask bit = BlockMask{1} << (block % layout.unit_blocks);
        if ((ram_.present(UnitKey{object.content, unit}) & bit) != 0) {
            ram = true;
        } else if (nvme_ != nullptr && nvme_->contains(object.content, object.size, block)) {
            nvme = true;
        } else {
            origin = true;
        }
    }
    std::string text;
    for (const auto& [here, name] : {std::pair{ram, "ram"}, {nvme, "nvme"}, {origin, "origin"}}) {
        if (!here) continue;
        if (!text.empty()) text += '+';
        text += name;
    }
    return text;
}

StoreStats TieredStore::stats() const {
    StoreStats stats;
    const auto sum = [this](std::atomic<std::uint64_t> Reads::*member) {
        return reads_.sum([member](const Reads& reads) { return get(reads.*member); });
    };
    stats.read_requests = sum(&Reads::requests);
    stats.read_bytes = sum(&Reads::bytes);
    stats.read_errors = get(counters_.errors);
    stats.ram_bytes = sum(&Reads::ram);
    stats.nvme_bytes = sum(&Reads::nvme);
    stats.origin_bytes = sum(&Reads::origin);
    stats.fetched_bytes = get(counters_.fetched);
    stats.prefetched_bytes = get(counters_.prefetched);
    stats.prefetched_unused_bytes =
        stats.prefetched_bytes - std::min(stats.prefetched_bytes, sum(&Reads::prefetched_used));
    stats.data_memory_bytes = arena_->in_use();
    stats.sequential_reads = sum(&Reads::sequential);
    stats.random_reads = sum(&Reads::random);
    stats.latencies = {latencies_.ram.get(),    latencies_.nvme.get(),        latencies_.origin.get(),
                       latencies_.memory.get(), latencies_.fetch_small.get(), latencies_.fetch_large.get()};
    stats.fetches_large_bytes = fetches_large_bytes_.get();
    stats.memory_waiting = admission_->waiting();
    const RamTierStats ram = ram_.stats();
    stats.ram.limit_bytes = plan_.ram_tier;
    stats.ram.used_bytes = ram.used_bytes + ram.ahead_bytes + ram.kept_bytes;
    stats.ram.hits = sum(&Reads::ram_hits);
    stats.ram.misses = sum(&Reads::ram_misses);
    stats.ram.evicted_bytes = ram.evicted_bytes;
    stats.ram.written_bytes = ram.written_bytes;
    if (nvme_ != nullptr) {
        stats.nvme = nvme_->stats();
        stats.checksum_errors = nvme_->checksum_errors();
    }
    for (std::size_t number = 0; number < datasets_.count(); ++number)
        stats.datasets.push_back(dataset_status(datasets_.at(number)));
    stats.fill_pace = pace_.status();
    stats.fill_under_way = get(counters_.fill_requests);
    pins_status(stats);
    return stats;
}

bool TieredStore::stop(std::chrono::milliseconds patience) {
    gate_.close();
    fill_.stop();
    neighbours_.stop();
    TIERFS_SYNC_POINT("store.stop.closed");
    for (const ReadOperationPtr& operation : admission_->stop()) {
        fail_read(operation->callback,
                  Error{ECANCELED, operation->object->path + ": the mount is going away"});
    }
    const bool idle = gate_.wait(patience);
    fill_.join_if_ended();
    neighbours_.join_if_ended();
    return idle;
}

}  // namespace tierfs
