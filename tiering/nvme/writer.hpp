// The writer thread of the NVMe tier: everything that changes files or L records happens on it, in order.
// Internal to tiering/nvme.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_set>
#include <vector>

#include "tiering/nvme/adopt.hpp"
#include "tiering/nvme/file_writer.hpp"
#include "tiering/nvme/packers.hpp"
#include "tiering/nvme/survivors.hpp"

namespace tierfs {

/// Public calls are thread-safe and, but for flush, close and abandon, never block for the device.
class NvmeWriter {
  public:
    NvmeWriter(NvmeCore& core, FoundUnits found);
    ~NvmeWriter();
    NvmeWriter(const NvmeWriter&) = delete;
    NvmeWriter& operator=(const NvmeWriter&) = delete;

    void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
               std::vector<BufferPtr> data, DatasetNumber dataset, Codec codec);
    void admit_packed(PackedObjects objects, DatasetNumber dataset) TIERFS_EXCLUDES(mutex_);
    /// False: the tier is full and nothing goes for this dataset, or cannot be written.
    [[nodiscard]] bool takes(std::uint64_t object_size, std::uint64_t length, DatasetNumber dataset,
                             std::uint64_t coming) const TIERFS_EXCLUDES(mutex_);
    /// While the device stalls: gives back the memory of what waits to be written beyond
    /// options.stalled_queue.
    void relieve() TIERFS_EXCLUDES(mutex_);
    /// Of data that waits to be written.
    [[nodiscard]] std::uint64_t queued_bytes() const TIERFS_EXCLUDES(mutex_);
    /// How long the thread has been at one thing.
    [[nodiscard]] std::chrono::milliseconds busy_for() const TIERFS_EXCLUDES(mutex_);
    void erase(const ContentId& id);
    /// damaged: its bytes do not verify, or are not there; unreadable: the device fails again and again.
    enum class Fault : std::uint8_t { damaged, unreadable };
    /// What a reader found where `seen` leads: unless the record has changed since, it is erased (extents),
    /// or what of the range is still damaged is marked absent (backing files). What is unreadable is not
    /// tried again: that takes the device's time-out.
    void distrust(const ContentId& id, const Location& seen, std::uint64_t offset, std::uint64_t length,
                  Fault fault);
    /// NvmeTier::disown, for the extents that are being written.
    void disown(DatasetNumber dataset);
    /// The limit was lowered: what is too much goes.
    void meet_limit();
    void flush();
    void close();
    void abandon();

  private:
    struct Task {
        enum class Kind : std::uint8_t { admit, admit_packed, erase, distrust, disown, meet_limit, flush };
        [[nodiscard]] bool brings_data() const { return kind == Kind::admit || kind == Kind::admit_packed; }
        Kind kind = Kind::flush;
        ContentId id;
        std::uint64_t object_size = 0;
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
        std::uint64_t memory = 0;  ///< that `data` holds: more than its length
        std::vector<BufferPtr> data;
        std::vector<ChunkEntry> entries;  ///< of admit_packed; `data` is one buffer then
        std::optional<Location> seen;
        Fault fault = Fault::damaged;
        std::uint64_t ticket = 0;
        DatasetNumber dataset = 0;
        Codec codec = Codec::none;
    };
    /// A piece of an object on its way, so that it is not queued twice.
    struct Piece {
        ContentId id;
        std::uint64_t offset = 0, length = 0;
        DatasetNumber dataset = 0;  ///< what is to be pinned may be queued for another dataset before
        friend bool operator==(const Piece&, const Piece&) = default;
    };
    struct PieceHash {
        std::size_t operator()(const Piece& piece) const noexcept {
            return std::hash<ContentId>()(piece.id) ^ (piece.offset * 0x9E3779B97F4A7C15U) ^ piece.length;
        }
    };

    void run();
    enum class Next : std::uint8_t { task, idle, stop };
    Next next_task(Task& task);
    void idle_work();
    void work(Task& task);
    /// False: it is not taken.
    bool enqueue(Task task) TIERFS_EXCLUDES(mutex_);
    /// Its data is read from the queue no more.
    void dequeued(const Task& task);
    [[nodiscard]] static std::span<const std::byte> stored(const Task& task, const ChunkEntry& entry) {
        return task.data[0]->bytes().subspan(entry.offset, entry.stored_length);
    }
    void store(Task& task);
    void store_packed(Task& task);
    /// Whether an object stays where it is, and need not be written for this dataset.
    [[nodiscard]] bool lies_well(std::uint64_t object_size, DatasetNumber dataset,
                                 const Location& known) const;
    void pack(const Task& task, std::span<const std::span<const std::byte>> pieces);
    [[nodiscard]] bool pins(DatasetNumber dataset) const {
        return core_.catalog.shares().get(dataset) == Retention::pinned;
    }
    void erase_object(const ContentId& id);
    void review(const Task& task);
    void stop(bool orderly);
    [[nodiscard]] bool is_stalled() const TIERFS_REQUIRES(mutex_);

    NvmeCore& core_;
    // Of the writer thread alone, from its start to its end:
    SpaceKeeper space_;
    Packers packers_;
    Survivors survivors_;
    FileWriter files_;
    std::deque<Unit> to_adopt_;
    unsigned since_adopted_ = 0;

    mutable Mutex mutex_;
    std::condition_variable wake_, done_;
    std::deque<Task> queue_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_set<Piece, PieceHash> queued_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t queued_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::optional<Health::Clock::time_point> busy_since_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t flushes_asked_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::uint64_t flushes_done_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool closed_ TIERFS_GUARDED_BY(mutex_) = false;   ///< takes nothing any more
    bool stop_ TIERFS_GUARDED_BY(mutex_) = false;     ///< ends when the queue is empty
    bool abandon_ TIERFS_GUARDED_BY(mutex_) = false;  ///< ends at once
    bool ended_ TIERFS_GUARDED_BY(mutex_) = false;    ///< the thread does no more work
    std::once_flag joined_;
    std::thread thread_;  // last: starts when all else stands
};

}  // namespace tierfs
