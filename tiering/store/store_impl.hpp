// The inside of Store: TieredStore and its parts. Internal to tiering/store.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/base/mutex.hpp"
#include "config/base/striped.hpp"
#include "tiering/fetch/flight_table.hpp"
#include "tiering/fetch/read_admission.hpp"
#include "tiering/fetch/read_operation.hpp"
#include "tiering/nvme/nvme_tier.hpp"
#include "tiering/policy/datasets.hpp"
#include "tiering/policy/repeats.hpp"
#include "tiering/policy/second_touch.hpp"
#include "tiering/prefetch/dataset_fill.hpp"
#include "tiering/prefetch/extent_runs.hpp"
#include "tiering/prefetch/fill_pace.hpp"
#include "tiering/prefetch/neighbours.hpp"
#include "tiering/prefetch/stream_prefetcher.hpp"
#include "tiering/ram/arena.hpp"
#include "tiering/ram/ram_tier.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// Knows whether anything is running inside the store, so that stop() can wait for it. Thread-safe. Who
/// leaves a closed gate does not touch it after wait() can have returned.
class ActivityGate {
  public:
    /// False when closed: nothing new may start.
    bool enter();
    /// For work that running work starts: never refused.
    void add() { passed_.mine().entered.fetch_add(1); }
    void leave() { passed_.mine().left.fetch_add(1); }
    [[nodiscard]] bool closed() const { return closed_.load(std::memory_order_relaxed); }
    void close() { closed_.store(true); }
    /// After close(): until nothing runs any more; false when the time is over.
    bool wait(std::chrono::milliseconds patience) const;

  private:
    /// Both only grow, so that a sum over all stripes says something although they change meanwhile.
    struct Passed {
        std::atomic<std::uint64_t> entered{0}, left{0};
    };
    [[nodiscard]] bool is_idle() const;

    Striped<Passed> passed_;
    std::atomic<bool> closed_{false};
};

/// What one attempt to start a read is about to do, made under the lock of the object's flights.
struct ReadPlan {
    /// Blocks to be brought into a buffer of our own, from the NVMe tier or the origin.
    struct Own {
        std::uint64_t unit = 0;
        std::uint32_t first = 0, count = 0;
        BlockMask want = 0;  ///< those of them that the reader waits for
        bool from_nvme = false;
        ArenaBufferPtr buffer;
        std::uint32_t first_piece = 0, pieces = 0;  ///< `want` among the operation's pieces
    };
    struct Join {
        FlightPtr flight;
        BlockMask want = 0;
    };
    struct UnitPlan {
        std::uint64_t unit = 0;
        BlockMask want = 0, widened = 0;
        BlockMask asked = 0;      ///< of widened: what the NVMe tier was asked about (it is not, about RAM's)
        BlockMask nvme = 0;       ///< of asked: what it says it has
        bool nvme_whole = false;  ///< it gives all of the unit for the price of a part
    };

    std::vector<Join> joins;
    std::vector<Own> own;
    std::uint64_t short_of = 0;  ///< bytes of the first allocation that failed
    bool stale = false;          ///< RAM lost blocks that the NVMe tier has not been asked about
};

/// How long the fill waits before it looks again whether there is room, and how often.
inline constexpr std::chrono::milliseconds kFillTick{10};
inline constexpr int kTicksUntilFull = 5;

/// One object's way into the tiers (Store::warm). Thread-safe; shared with the flights that bring it.
class Warming {
  public:
    explicit Warming(std::function<void(Result<Store::Warmed>)> answer) : answer_(std::move(answer)) {}
    void begin_part() { pending_.fetch_add(1); }
    /// A part failed: there is no point in bringing the others.
    [[nodiscard]] bool has_failed() TIERFS_EXCLUDES(mutex_) {
        MutexLock lock(mutex_);
        return error_.has_value();
    }
    /// The last part to end gives the answer.
    void end_part(std::uint64_t bytes, const Result<void>& result) TIERFS_EXCLUDES(mutex_);

  private:
    const std::function<void(Result<Store::Warmed>)> answer_;
    std::atomic<std::uint32_t> pending_{1};  ///< who hands out the parts is one
    std::atomic<std::uint64_t> brought_{0};
    Mutex mutex_;
    std::optional<Error> error_ TIERFS_GUARDED_BY(mutex_);  ///< the first
};

/// The Store. Reads travel: RAM (one shard's lock) -> else a ReadOperation is planned: RAM, flights to join,
/// NVMe, origin -> all its memory is allocated at once or it waits in ReadAdmission holding nothing.
class TieredStore final : public Store {
  public:
    /// See Store::open.
    struct Places {
        Origin& origin;
        NvmeTier* nvme = nullptr;
        Pins* pins = nullptr;
        PackedSource* packed = nullptr;
    };
    TieredStore(const Settings& settings, const MemoryPlan& plan, const Places& places,
                std::shared_ptr<ReadAdmission> admission, std::shared_ptr<Arena> arena);
    ~TieredStore() override;

    void read(std::shared_ptr<const ObjectRef> object, std::uint64_t offset, std::uint32_t length,
              ReadCallback callback) override;
    [[nodiscard]] std::optional<WholeFile> whole_file(const ObjectRef& object) override;
    [[nodiscard]] std::string describe_location(const ObjectRef& object) override;
    [[nodiscard]] StoreStats stats() const override;
    void warm(const std::shared_ptr<const ObjectRef>& object, std::function<void(Result<Warmed>)> answer,
              const std::function<bool()>& stopped) override;
    [[nodiscard]] std::uint64_t most_held() const override;
    Result<std::uint64_t> evict(const ObjectRef& object) override;
    Result<void> set_class(const std::string& match, DatasetClass dataset_class) override;
    void pin(const std::shared_ptr<const ObjectRef>& object, std::function<void(Result<Warmed>)> answer,
             const std::function<bool()>& stopped) override;
    [[nodiscard]] std::uint64_t pin_limit() const override;
    void begin_pin_round() override;
    std::uint64_t claim_pin(const ObjectRef& object) override;
    void end_pin_round() override;
    void tick(std::chrono::steady_clock::time_point now) override;
    bool stop(std::chrono::milliseconds patience) override;

    [[nodiscard]] const Arena& arena() const { return *arena_; }

  private:
    enum class Started { yes, no_memory };
    enum class Prefetched { done, refused };
    enum class Came { before, from_nvme, from_origin };  ///< into RAM

    // store.cpp
    [[nodiscard]] UnitLayout layout_of(std::uint64_t size) const;
    bool read_from_ram(const UnitLayout& layout, const ContentId& id, std::uint64_t begin, std::uint64_t end,
                       ReadReply& reply);
    // store_exact.cpp
    bool read_exactly(const ObjectRef& object, std::uint64_t begin, std::uint64_t end, ReadReply& reply);
    // store.cpp
    /// Says where that came from which was not used before.
    Came account(ReadReply& reply, const ObjectRef& object, const UnitLayout& layout);
    void fail_read(const ReadCallback& callback, Error error);
    void finish(const ReadOperationPtr& operation);
    void time_operation(const ReadOperation& operation);
    void time_fetch(const Flight& flight);
    void arrived(const ReadOperationPtr& operation);

    // store_policy.cpp: what the class of a dataset means for the tiers
    void watch(Dataset& dataset, const ObjectRef& object, const UnitLayout& layout, std::uint64_t begin,
               std::uint64_t end, bool sequential);
    void start_policy();
    /// Tells the tiers what to do with what they hold of it.
    void retain(const Dataset& dataset);
    void apply(Dataset& dataset, const DatasetPolicy::Step& step);
    [[nodiscard]] bool nvme_takes(const Dataset& dataset, const UnitLayout& layout, std::uint64_t length,
                                  std::uint64_t coming = 0) const;
    enum class Home : std::uint8_t { ram, nvme, none };
    /// Where what a flight brings is to stay.
    Home choose_home(Dataset& dataset, const Flight& flight);
    [[nodiscard]] static RamStay ram_stay(const Dataset& dataset, Home home);
    /// Of blocks that were just read from the NVMe tier.
    [[nodiscard]] RamStay promoted_stay(const Dataset& dataset, const UnitLayout& layout, const UnitKey& key,
                                        std::uint32_t first_block);
    /// In the tiers, for good or while there is room.
    [[nodiscard]] std::uint64_t kept_bytes(const Dataset& dataset) const;
    [[nodiscard]] DatasetStatus dataset_status(const Dataset& dataset) const;
    // store_pins.cpp: what `tierfs pin` names
    /// Whether the limit of pins lets it have so many bytes more; always, where it is none of them.
    [[nodiscard]] bool may_pin(const Dataset& dataset, std::uint64_t bytes) const;
    [[nodiscard]] std::uint64_t pinned_bytes(const Dataset& dataset) const;
    /// Blocks of a unit that lie where they stay. `ours`: what the NVMe tier has of the object does.
    BlockMask pinned_blocks(const ObjectRef& object, const UnitLayout& layout, std::uint64_t unit, bool ours,
                            const Dataset& dataset);
    /// Takes blocks that a tier holds to where they stay.
    Result<void> move_pinned(const ObjectRef& object, const UnitLayout& layout, std::uint64_t unit,
                             std::uint32_t first, std::uint32_t count);
    bool copy_from_tiers(const ObjectRef& object, const UnitLayout& layout, std::uint64_t unit,
                         std::uint32_t first, std::uint32_t count, ArenaBuffer& buffer);
    void retain_as(const Dataset& dataset, Retention retention);
    void pins_status(StoreStats& stats) const;

    /// Whether all of it is fetched, since that was asked for.
    [[nodiscard]] static bool is_filled(const Dataset& dataset);
    /// Whether the fill that was started brings such objects.
    [[nodiscard]] bool fill_brings(const Dataset& dataset) const;
    void start_fill();
    /// Of all datasets that are filled: none has room for more.
    [[nodiscard]] bool fills_are_full() const;
    /// For those who look at the order of files.
    void small_file_read(const ObjectRef& object, const UnitLayout& layout, Came came) {
        if (!layout.whole || came == Came::before) return;
        pace_.asked(object.size);
        fill_.note(object, came == Came::from_origin);
        if (came == Came::from_origin) neighbours_.read(object, Neighbours::Clock::now());
    }
    DatasetFill::Offered fill_object(const std::shared_ptr<const ObjectRef>& object);
    /// By requests of its own.
    DatasetFill::Offered fill_singly(const std::shared_ptr<const ObjectRef>& object);
    // store_runs.cpp: the fill from a pack; on the fill's thread but for the first
    struct FillRun;
    void run_arrived(const std::shared_ptr<FillRun>& run, const Result<void>& result);
    /// Nothing: it does not go with others.
    std::optional<DatasetFill::Offered> fill_with_others(const std::shared_ptr<const ObjectRef>& object,
                                                         const Dataset& dataset, const UnitLayout& layout);
    DatasetFill::Offered fill_extent_run(ExtentRun run);
    DatasetFill::Offered fill_each(const std::vector<PackedObject>& objects);
    bool wait_for_run_room(Dataset& dataset, const ExtentRun& run);
    /// What runs did not bring.
    void fill_left_over();
    /// Nothing more is offered for now.
    void settle_fill();
    void admit_run(FillRun& run);
    void copy_to_ram(const FillRun& run, const PackedObject& packed);
    /// Fetches what neither the tiers have nor anybody brings.
    Result<void> bring_missing(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                               const std::shared_ptr<Warming>& warming, const std::function<bool()>& stopped);
    /// False: no tier has room for so much of it, nor comes to have. `guided`: somebody asked for it.
    bool wait_for_room(Dataset& dataset, const UnitLayout& layout, std::uint64_t size, bool guided);
    /// `warming`: who waits for it; may be null.
    DatasetFill::Offered fill_run(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                                  std::uint64_t unit, std::uint32_t first, std::uint32_t count,
                                  const std::shared_ptr<Warming>& warming = nullptr);
    /// `in_one_piece`: takes the place of one that is under way rather than that of many small ones.
    ArenaBufferPtr fill_memory(std::uint64_t size, bool in_one_piece = false);
    [[nodiscard]] std::uint64_t most_fill_memory() const;
    [[nodiscard]] bool fill_may_send(std::uint64_t size) const;
    [[nodiscard]] BlockMask missing(const ContentId& id, const UnitLayout& layout, std::uint64_t unit,
                                    BlockMask blocks);

    // store_plan.cpp: from an operation to requests
    void begin(const ReadOperationPtr& operation);
    Started attempt(const ReadOperationPtr& operation, bool queued);
    [[nodiscard]] std::vector<ReadPlan::UnitPlan> divide(const ReadOperation& operation, bool ask_all);
    BlockMask on_nvme(const ContentId& id, const UnitLayout& layout, std::uint64_t unit, BlockMask blocks);
    void plan_unit(ReadOperation& operation, FlightTable::Shard& shard, const ReadPlan::UnitPlan& unit,
                   ReadPlan& plan) TIERFS_REQUIRES(shard.mutex);
    /// The error of what would be asked of the origin again at once.
    std::optional<Error> failed_just_now(const ObjectRef& object, FlightTable::Shard& shard,
                                         const ReadPlan& plan) const TIERFS_REQUIRES(shard.mutex);
    bool allocate(const UnitLayout& layout, ReadPlan& plan, bool may_allocate, Arena::Memory memory);
    std::vector<FlightPtr> commit(const ReadOperationPtr& operation, FlightTable::Shard& shard,
                                  ReadPlan& plan) TIERFS_REQUIRES(shard.mutex);
    static std::uint32_t add_pieces(ReadOperation& operation, std::uint64_t unit, BlockMask blocks,
                                    const ArenaBufferPtr& buffer);
    void read_nvme(const ReadOperationPtr& operation, ReadPlan::Own& own);
    void fetch_instead(const ReadOperationPtr& operation, ReadPlan::Own& own);
    static Error archived_error(const ObjectRef& object);

    // store_fetch.cpp: requests and their completion, readahead
    FlightPtr make_flight(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                          std::uint64_t unit, std::uint32_t first, std::uint32_t count, ArenaBufferPtr buffer,
                          bool prefetch);
    ArenaBufferPtr memory_for(std::uint64_t size, bool may_evict = true);
    void send(const FlightPtr& flight, Priority priority);
    void complete(const FlightPtr& flight, Result<void> result);
    void top_up(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout);
    /// False: not now.
    bool prefetch_file(const std::shared_ptr<const ObjectRef>& object);
    /// How far it got: part.end, or where memory ended.
    std::uint64_t prefetch(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                           const PrefetchPart& part);
    Prefetched prefetch_run(const std::shared_ptr<const ObjectRef>& object, const UnitLayout& layout,
                            std::uint64_t unit, std::uint32_t first, std::uint32_t count);

    const std::uint64_t pack_max_object_;
    const std::chrono::milliseconds deadline_;  ///< origin.deadline, a year at most
    const std::chrono::milliseconds demote_idle_;
    const std::uint64_t pin_limit_;        ///< pin.limit; 0: by the tiers
    const std::uint64_t whole_limit_;      ///< objects up to this size are fetched in one piece
    const std::uint32_t longest_run_;      ///< blocks of one request for a large object
    const std::uint64_t prefetch_budget_;  ///< bytes of readahead under way at a time
    const std::uint64_t most_ahead_;       ///< requests under way of the fill, and of readahead
    const Share share_;                    ///< of the files, that this node reads
    const MemoryPlan plan_;
    Origin& origin_;
    NvmeTier* const nvme_;
    Pins* const pins_;
    PackedSource* const packed_;
    std::shared_ptr<ReadAdmission> admission_;
    std::shared_ptr<Arena> arena_;
    RamTier ram_;
    SecondTouch touched_;
    FlightTable flights_;
    StreamPrefetcher prefetcher_;
    Datasets datasets_;
    Repeats repeats_;                                        ///< of what is read from the NVMe tier
    std::chrono::steady_clock::time_point next_demotion_{};  ///< of `tick` alone
    std::atomic<bool> pin_round_{false};
    /// Whose extents the round takes over: nobody's in the first one, if an earlier run left pins.
    std::atomic<DatasetNumber> pin_from_{kUnknownDataset};
    bool earlier_pins_ = false;  ///< until the first round has ended
    ActivityGate gate_;

    /// Of reads.
    struct Reads {
        std::atomic<std::uint64_t> requests{0}, bytes{0}, ram{0}, nvme{0}, origin{0}, ram_hits{0},
            ram_misses{0}, prefetched_used{0}, sequential{0}, random{0};
    };
    Striped<Reads> reads_;
    static constexpr std::uint64_t kTimedOneOf = 16;  ///< of reads that RAM answers
    struct Latencies {
        LatencyHistogram ram, nvme, origin, memory, fetch_small, fetch_large;
    };
    Latencies latencies_;
    StripedCounter fetches_large_bytes_;
    struct Counters {
        std::atomic<std::uint64_t> errors{0}, fetched{0}, prefetched{0}, prefetch_under_way{0},
            fill_under_way{0}, fill_requests{0}, paced_requests{0}, prefetch_requests{0};
    };
    Counters counters_;
    std::atomic<bool> fills_recognised_{false};  ///< the fill brings what is recognised as an epoch
    const bool watches_;                         ///< fill.ahead
    bool is_gathered_ = false;  ///< what the fill's thread sends now was counted when its run was gathered
    FillPace pace_;             ///< of what it brings of that
    // last: their threads use all else
    ExtentRuns runs_;  ///< of the fill's thread alone
    std::atomic<unsigned> runs_under_way_{0};
    /// Bytes of runs that came and wait to be written; shared with them, since the tier may hold them for
    /// longer.
    std::shared_ptr<std::atomic<std::uint64_t>> run_memory_ = std::make_shared<std::atomic<std::uint64_t>>(0);
    Mutex left_over_mutex_;
    std::vector<PackedObject> left_over_ TIERFS_GUARDED_BY(left_over_mutex_);
    RecentListings listings_;
    Neighbours neighbours_;
    DatasetFill fill_;
};

}  // namespace tierfs
