#include "tiering/nvme/writer.hpp"

#include <algorithm>
#include <chrono>

#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs {
namespace {

/// Reports of readers wait in the queue without a buffer that bounds them.
constexpr std::size_t kMostReports = 16384;
/// While there is other work, one unit is adopted for so many tasks.
constexpr unsigned kTasksPerAdoption = 16;
constexpr std::chrono::milliseconds kTick{250};
/// A device that takes so long for one task stalls.
constexpr std::chrono::seconds kStall{2};

std::uint64_t total_size(const std::vector<BufferPtr>& data) {
    std::uint64_t total = 0;
    for (const auto& buffer : data) total += buffer ? buffer->bytes().size() : 0;
    return total;
}

}  // namespace

NvmeWriter::NvmeWriter(NvmeCore& core, FoundUnits found)
    : core_(core),
      space_(core),
      packers_(core, space_, found.next_number),
      survivors_(core, packers_),
      files_(core, space_),
      to_adopt_(found.units.rbegin(), found.units.rend()),  // newest first: likeliest to be wanted
      thread_([this] { run(); }) {}

NvmeWriter::~NvmeWriter() {
    close();
}

bool NvmeWriter::takes(std::uint64_t object_size, std::uint64_t length, DatasetNumber dataset,
                       std::uint64_t coming) const {
    if (object_size > core_.limit / 2 || !core_.health.may_write()) return false;
    if (core_.catalog.may_evict(dataset, std::max(core_.extent_size, length))) return true;
    const std::uint64_t queued = queued_bytes() + coming;
    if (object_size > core_.max_packed)
        return space_.has_room(queued + FileWriter::space_of(length) + FileWriter::space_of(0));
    // The extent under way counts as full; what waits must fit into what is left of it, more or less.
    return space_.has_room(queued + core_.extent_size) ||
           (core_.extents_begun[dataset] && queued < core_.extent_size / 2);
}

std::uint64_t NvmeWriter::queued_bytes() const {
    MutexLock lock(mutex_);
    return queued_bytes_;
}

std::chrono::milliseconds NvmeWriter::busy_for() const {
    MutexLock lock(mutex_);
    if (!busy_since_) return std::chrono::milliseconds(0);
    return std::chrono::duration_cast<std::chrono::milliseconds>(core_.now() - *busy_since_);
}

void NvmeWriter::admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                       std::vector<BufferPtr> data, DatasetNumber dataset, Codec codec) {
    const std::uint64_t length = total_size(data);
    if (length == 0 || offset % kBlockSize != 0 || offset > object_size || length > object_size - offset)
        return;
    if ((offset + length) % kBlockSize != 0 && offset + length != object_size) return;
    if (object_size > core_.limit / 2 || !core_.health.may_write()) return;
    if (object_size <= core_.max_packed && length != object_size) return;
    Task task;
    task.kind = Task::Kind::admit;
    task.dataset = dataset;
    task.codec = codec;
    task.id = id;
    task.object_size = object_size;
    task.offset = offset;
    task.length = length;
    for (const BufferPtr& part : data) task.memory += part->writable().size();
    task.data = std::move(data);
    enqueue(std::move(task));
}

void NvmeWriter::admit_packed(PackedObjects objects, DatasetNumber dataset) {
    if (!core_.health.may_write()) return;
    Task task;
    task.kind = Task::Kind::admit_packed;
    task.dataset = dataset;
    task.memory = objects.data->writable().size();
    task.entries = std::move(objects.entries);
    task.data.push_back(std::move(objects.data));
    enqueue(std::move(task));
}

bool NvmeWriter::enqueue(Task task) {
    {
        MutexLock lock(mutex_);
        if (closed_) return false;
        if (queued_bytes_ + task.memory > core_.options.stalled_queue && is_stalled()) {
            ++core_.counters.dropped;
            return false;
        }
        if (task.kind == Task::Kind::admit) {
            if (!queued_.insert(Piece{task.id, task.offset, task.length, task.dataset}).second) return false;
            if (task.object_size <= core_.max_packed) core_.unwritten.queued(task.id, task.data);
        }
        for (const ChunkEntry& entry : task.entries) {
            core_.unwritten.lent(entry.id, stored(task, entry),
                                 {codec_of(entry.codec).value_or(Codec::none), entry.object_size});
        }
        queued_bytes_ += task.memory;
        core_.counters.unwritten_bytes += task.memory;
        queue_.push_back(std::move(task));
    }
    wake_.notify_one();
    return true;
}

void NvmeWriter::dequeued(const Task& task) {
    if (task.kind == Task::Kind::admit) core_.unwritten.unqueued(task.id);
    for (const ChunkEntry& entry : task.entries) core_.unwritten.returned(entry.id, stored(task, entry));
}

bool NvmeWriter::is_stalled() const {
    return busy_since_ && core_.now() - *busy_since_ > kStall;
}

void NvmeWriter::relieve() {
    std::vector<Task> dropped;
    {
        MutexLock lock(mutex_);
        if (!is_stalled()) return;
        // The newest go: those before them are the next to be written when the device comes back.
        for (auto at = queue_.end(); at != queue_.begin() && queued_bytes_ > core_.options.stalled_queue;) {
            --at;
            if (!at->brings_data()) continue;
            queued_bytes_ -= at->memory;
            core_.counters.unwritten_bytes -= at->memory;
            if (at->kind == Task::Kind::admit)
                queued_.erase(Piece{at->id, at->offset, at->length, at->dataset});
            dequeued(*at);
            dropped.push_back(std::move(*at));
            at = queue_.erase(at);
        }
    }
    core_.counters.dropped += dropped.size();
    if (!dropped.empty())
        log::warning("the device of " + core_.options.directory.string() + " stalls: " +
                     std::to_string(dropped.size()) + " pieces that waited to be written are dropped");
}

void NvmeWriter::erase(const ContentId& id) {
    Task task;
    task.kind = Task::Kind::erase;
    task.id = id;
    {
        MutexLock lock(mutex_);
        if (closed_) return;
        queue_.push_back(std::move(task));
    }
    wake_.notify_one();
}

void NvmeWriter::distrust(const ContentId& id, const Location& seen, std::uint64_t offset,
                          std::uint64_t length, Fault fault) {
    Task task;
    task.kind = Task::Kind::distrust;
    task.fault = fault;
    task.id = id;
    task.seen = seen;
    task.offset = offset;
    task.length = length;
    {
        MutexLock lock(mutex_);
        if (closed_ || queue_.size() >= kMostReports) return;
        queue_.push_back(std::move(task));
    }
    wake_.notify_one();
}

void NvmeWriter::disown(DatasetNumber dataset) {
    Task task;
    task.kind = Task::Kind::disown;
    task.dataset = dataset;
    {
        MutexLock lock(mutex_);
        if (closed_) return;
        queue_.push_back(std::move(task));  // behind what was taken for the dataset
    }
    wake_.notify_one();
}

void NvmeWriter::meet_limit() {
    Task task;
    task.kind = Task::Kind::meet_limit;
    {
        MutexLock lock(mutex_);
        if (closed_) return;
        queue_.push_front(std::move(task));  // what waits to be written may not fit any more
    }
    wake_.notify_one();
}

void NvmeWriter::flush() {
    MutexLock lock(mutex_);
    if (closed_) return;
    Task task;
    task.ticket = ++flushes_asked_;
    const std::uint64_t ticket = task.ticket;
    queue_.push_back(std::move(task));
    wake_.notify_one();
    while (flushes_done_ < ticket && !ended_) lock.wait(done_);
}

void NvmeWriter::close() {
    stop(true);
}

void NvmeWriter::abandon() {
    stop(false);
}

void NvmeWriter::stop(bool orderly) {
    {
        MutexLock lock(mutex_);
        closed_ = true;
        stop_ = true;
        abandon_ = abandon_ || !orderly;
    }
    TIERFS_SYNC_POINT("nvme.writer.stopping");
    wake_.notify_all();
    std::call_once(joined_, [this] { thread_.join(); });
}

NvmeWriter::Next NvmeWriter::next_task(Task& task) {
    MutexLock lock(mutex_);
    busy_since_.reset();
    while (queue_.empty() && !stop_) {
        const auto due = packers_.deadline();
        if (!to_adopt_.empty() || (due && *due <= core_.now())) {
            busy_since_ = core_.now();
            return Next::idle;
        }
        if (due) {
            // In short steps: the hook's clock need not run with the real one.
            (void)lock.wait_for(wake_, kTick);
        } else {
            lock.wait(wake_);
        }
    }
    if (abandon_ || queue_.empty()) return Next::stop;
    task = std::move(queue_.front());
    queue_.pop_front();
    if (task.brings_data()) queued_bytes_ -= task.memory;
    busy_since_ = core_.now();
    return Next::task;
}

void NvmeWriter::idle_work() {
    packers_.flush_due();
    if (!to_adopt_.empty()) {
        const Unit unit = to_adopt_.front();
        to_adopt_.pop_front();
        adopt_unit(core_, space_, unit);
    }
}

void NvmeWriter::run() {
    {
        MutexLock lock(mutex_);
        busy_since_ = core_.now();  // the device may stall at the first unlink
    }
    // A limit that was lowered since the last run is met before anything else.
    space_.on_eviction([this](const Catalog::Chosen& extent) { survivors_.save(extent); });
    space_.meet_limit();
    while (true) {
        Task task;
        const Next next = next_task(task);
        if (next == Next::stop) break;
        if (next == Next::idle) {
            idle_work();
            continue;
        }
        work(task);
        core_.counters.unwritten_bytes -= task.memory;  // what went into a chunk counts there by now
        if (++since_adopted_ >= kTasksPerAdoption) {
            since_adopted_ = 0;
            idle_work();
        }
    }
    bool orderly = false;
    {
        MutexLock lock(mutex_);
        orderly = !abandon_;
    }
    if (orderly) packers_.seal();
    core_.unwritten.clear();  // chunks and queue end with this
    MutexLock lock(mutex_);
    queue_.clear();
    queued_.clear();
    core_.counters.unwritten_bytes = 0;
    ended_ = true;
    lock.unlock();
    done_.notify_all();
}

void NvmeWriter::work(Task& task) {
    switch (task.kind) {
        case Task::Kind::admit: {
            store(task);
            dequeued(task);
            task.data.clear();  // memory goes back before the piece may be queued again
            MutexLock lock(mutex_);
            queued_.erase(Piece{task.id, task.offset, task.length, task.dataset});
            break;
        }
        case Task::Kind::admit_packed:
            store_packed(task);
            dequeued(task);
            break;
        case Task::Kind::erase:
            erase_object(task.id);
            break;
        case Task::Kind::distrust:
            review(task);
            break;
        case Task::Kind::disown:
            if (pins(task.dataset)) break;  // again since: what is being written is for that
            packers_.let_go(task.dataset);
            core_.catalog.disown_unless_pinned(task.dataset);
            break;
        case Task::Kind::meet_limit:
            space_.meet_limit();
            break;
        case Task::Kind::flush: {
            packers_.flush();
            MutexLock lock(mutex_);
            flushes_done_ = std::max(flushes_done_, task.ticket);
            lock.unlock();
            done_.notify_all();
            break;
        }
    }
}

void NvmeWriter::store(Task& task) {
    if (!core_.health.may_write()) return;
    std::vector<std::span<const std::byte>> pieces;
    pieces.reserve(task.data.size());
    for (const auto& buffer : task.data) {
        if (buffer && !buffer->bytes().empty()) pieces.push_back(buffer->bytes());
    }
    const auto known = core_.find_indexed(task.id);
    if (known && lies_well(task.object_size, task.dataset, *known)) return;
    const bool in_file =
        known && known->kind == Location::Kind::backing_file && core_.catalog.has_file(task.id);
    if (task.object_size <= core_.max_packed && !in_file) {
        pack(task, pieces);
    } else {
        files_.write(task.id, task.object_size, task.offset, pieces, task.dataset);
        if (pins(task.dataset)) core_.catalog.take_over(Unit::file(task.id), task.dataset, task.dataset);
    }
}

void NvmeWriter::store_packed(Task& task) {
    if (!core_.health.may_write()) return;
    std::vector<ChunkEntry> wanted;
    wanted.reserve(task.entries.size());
    for (const ChunkEntry& entry : task.entries) {
        if (entry.object_size > core_.max_packed || packers_.holds(entry.id)) continue;
        const auto known = core_.find_indexed(entry.id);
        if (!known || !lies_well(entry.object_size, task.dataset, *known)) wanted.push_back(entry);
    }
    packers_.add_packed(task.dataset, task.data[0]->bytes(), wanted);
}

bool NvmeWriter::lies_well(std::uint64_t object_size, DatasetNumber dataset, const Location& known) const {
    if (known.object_size != object_size || known.kind != Location::Kind::extent_entry ||
        !core_.catalog.has_extent(known.extent, known.extent_tag)) {
        return false;
    }
    return !pins(dataset) || core_.catalog.owner(Unit::extent(known.extent)) == dataset;
}

void NvmeWriter::pack(const Task& task, std::span<const std::span<const std::byte>> pieces) {
    if (packers_.holds(task.id)) {
        if (!pins(task.dataset)) return;
        // The record of the copy that is pinned comes last.
        packers_.flush_holding(task.id);
        const auto known = core_.find_indexed(task.id);
        if (known && lies_well(task.object_size, task.dataset, *known)) return;
    }
    packers_.add(task.dataset, task.id, pieces, task.codec);
}

void NvmeWriter::erase_object(const ContentId& id) {
    packers_.flush_holding(id);
    core_.unwritten.gone(id);
    if (core_.catalog.has_file(id)) {
        files_.forget(id);
        space_.drop(Unit::file(id));
    }
    if (core_.find_indexed(id)) core_.erase_location(id);
}

void NvmeWriter::review(const Task& task) {
    const auto now = core_.find_indexed(task.id);
    core_.locations.forget(task.id);
    if (!now || now->kind != task.seen->kind) return;
    if (now->kind == Location::Kind::extent_entry) {
        if (*now == *task.seen) core_.erase_location(task.id);
        return;
    }
    if (!core_.catalog.has_file(task.id)) {
        core_.erase_location(task.id);
        return;
    }
    if (task.fault == Fault::unreadable) {
        files_.drop_blocks(task.id, task.offset, task.length);
    } else {
        files_.drop_damaged(task.id, now->object_size, task.offset, task.length);
    }
}

}  // namespace tierfs
