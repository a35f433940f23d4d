// The fill of a mount from a pack: stretches of extents, each by one request, into the NVMe tier as they are.
#include <cstring>
#include <utility>

#include "tiering/store/store_impl.hpp"

namespace tierfs {

/// A run on its way.
struct TieredStore::FillRun : ExtentRun {
    ArenaBufferPtr buffer;  ///< `destination`
    bool is_paced = false;  ///< of the fill that nobody asked for
    std::chrono::steady_clock::time_point sent;
};

namespace {

/// The memory of a run until the tier has written it.
struct WaitingRun {
    WaitingRun(ArenaBufferPtr of_run, std::shared_ptr<std::atomic<std::uint64_t>> all)
        : buffer(std::move(of_run)), count(std::move(all)) {
        count->fetch_add(buffer->capacity());
    }
    ~WaitingRun() { count->fetch_sub(buffer->capacity()); }
    WaitingRun(const WaitingRun&) = delete;
    WaitingRun& operator=(const WaitingRun&) = delete;

    const ArenaBufferPtr buffer;
    const std::shared_ptr<std::atomic<std::uint64_t>> count;
};

ChunkEntry entry_of(const PackedObject& packed, std::uint64_t begin) {
    ChunkEntry entry;
    entry.id = packed.object->content;
    entry.object_size = packed.object->size;
    entry.offset = static_cast<std::uint32_t>(packed.place.offset - begin);
    entry.stored_length = packed.place.stored;
    entry.codec = static_cast<std::uint8_t>(packed.place.codec);
    entry.sums = packed.place.sums;
    return entry;
}

}  // namespace

std::optional<DatasetFill::Offered> TieredStore::fill_with_others(
    const std::shared_ptr<const ObjectRef>& object, const Dataset& dataset, const UnitLayout& layout) {
    const bool small = layout.whole && object->size <= pack_max_object_;
    if (packed_ == nullptr || !small || !nvme_takes(dataset, layout, object->size)) return std::nullopt;
    const BlockMask all = layout.blocks_of(0);
    if (missing(object->content, layout, 0, all) != all) return std::nullopt;
    auto place = packed_->place_of(*object);
    // What is to be compressed here, and is not there, is packed again.
    if (!place || (place->codec == Codec::none && datasets_.codec_of(*object) != Codec::none))
        return std::nullopt;
    if (!fill_.walks_all()) pace_.sent(1, object->size);
    auto run = runs_.add({object, std::move(*place)}, dataset.number);
    return run ? fill_extent_run(std::move(*run)) : DatasetFill::Offered::taken;
}

DatasetFill::Offered TieredStore::fill_each(const std::vector<PackedObject>& objects) {
    auto offered = DatasetFill::Offered::taken;
    is_gathered_ = true;
    for (const PackedObject& packed : objects)
        if (offered == DatasetFill::Offered::taken && !fill_.stopping()) offered = fill_singly(packed.object);
    is_gathered_ = false;
    return offered;
}

bool TieredStore::wait_for_run_room(Dataset& dataset, const ExtentRun& run) {
    const std::uint64_t size = run.objects.front().object->size;
    const auto fits = [&] {
        return nvme_takes(dataset, layout_of(size), size, counters_.fill_under_way.load()) &&
               may_pin(dataset, run.bytes());
    };
    for (int tick = 0; !fits();) {
        if (tick == kTicksUntilFull || !fill_.pause(kFillTick)) return false;
        if (counters_.fill_under_way.load() == 0) ++tick;
    }
    return true;
}

DatasetFill::Offered TieredStore::fill_extent_run(ExtentRun run) {
    Dataset& dataset = datasets_.of(*run.objects.front().object);
    if (run.objects.size() == 1 || !wait_for_run_room(dataset, run)) return fill_each(run.objects);
    ArenaBufferPtr buffer = fill_memory(run.bytes(), true);
    if (!buffer) return DatasetFill::Offered::full;
    auto sent = std::make_shared<FillRun>();
    static_cast<ExtentRun&>(*sent) = std::move(run);
    buffer->set_size(sent->bytes());
    sent->destination = buffer->writable().first(sent->bytes());
    sent->buffer = std::move(buffer);
    sent->sent = std::chrono::steady_clock::now();
    sent->done = [this, sent](const Result<void>& result) { run_arrived(sent, result); };
    gate_.add();
    runs_under_way_.fetch_add(1);
    counters_.fill_under_way.fetch_add(sent->buffer->capacity());
    counters_.fill_requests.fetch_add(1);
    counters_.fetched.fetch_add(sent->bytes(), std::memory_order_relaxed);
    sent->is_paced = !fill_.walks_all();
    if (sent->is_paced) counters_.paced_requests.fetch_add(1);
    for (const PackedObject& packed : sent->objects)
        dataset.filled.fetch_add(packed.object->size, std::memory_order_relaxed);
    packed_->read_run(sent);
    return DatasetFill::Offered::taken;
}

void TieredStore::run_arrived(const std::shared_ptr<FillRun>& run, const Result<void>& result) {
    if (result) {
        latencies_.fetch_large.add(std::chrono::steady_clock::now() - run->sent);
        fetches_large_bytes_.add(run->bytes());
        admit_run(*run);
    }
    {
        MutexLock lock(left_over_mutex_);
        for (PackedObject& packed : run->objects)
            if (!packed.sound) left_over_.push_back(std::move(packed));
    }
    counters_.fill_under_way.fetch_sub(run->buffer->capacity());
    counters_.fill_requests.fetch_sub(1);
    if (run->is_paced) counters_.paced_requests.fetch_sub(1);
    run->buffer.reset();
    runs_under_way_.fetch_sub(1);
    fill_.wake();
    admission_->memory_freed();
    gate_.leave();
}

void TieredStore::admit_run(FillRun& run) {
    PackedObjects objects;
    objects.data = BufferPtr(std::make_shared<WaitingRun>(run.buffer, run_memory_), run.buffer.get());
    objects.entries.reserve(run.objects.size());
    for (const PackedObject& packed : run.objects) {
        if (!packed.sound) continue;
        objects.entries.push_back(entry_of(packed, run.begin));
        copy_to_ram(run, packed);
    }
    nvme_->admit_packed(std::move(objects), run.dataset);
    ram_.trim();
}

// A reader gets it from there for a third of what the NVMe tier costs; only into what is free.
void TieredStore::copy_to_ram(const FillRun& run, const PackedObject& packed) {
    const std::uint64_t size = packed.object->size;
    const bool crowded = arena_->in_use() > arena_->capacity() / 2;  // readers and runs need some, too
    if (packed.place.codec != Codec::none || crowded || !ram_.has_room_ahead(Arena::rounded(size))) return;
    ArenaBufferPtr buffer = arena_->allocate(size, Arena::Memory::resident);
    if (!buffer) return;
    const auto bytes = run.stored(packed.place);
    std::memcpy(buffer->writable().data(), bytes.data(), bytes.size());
    const UnitKey key{packed.object->content, 0};
    const BlockMask blocks = layout_of(size).blocks_of(0);
    FlightTable::Shard& shard = flights_.shard(key.id);
    MutexLock lock(shard.mutex);
    // A reader who was faster brings it himself.
    if ((blocks & (shard.under_way(key) | ram_.present(key))) != 0) return;
    ram_.insert(key, buffer, 0, blocks, true, RamStay::cached, run.dataset);
}

void TieredStore::fill_left_over() {
    std::vector<PackedObject> objects;
    {
        MutexLock lock(left_over_mutex_);
        objects.swap(left_over_);
    }
    (void)fill_each(objects);
}

void TieredStore::settle_fill() {
    if (auto run = runs_.take()) (void)fill_extent_run(std::move(*run));
    do {
        fill_left_over();
    } while (runs_under_way_.load() > 0 && fill_.pause(kFillTick));
    fill_left_over();
}

}  // namespace tierfs
