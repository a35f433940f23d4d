// From a read that RAM could not answer to the requests that will.
#include <algorithm>
#include <utility>

#include "config/base/sync_point.hpp"
#include "tiering/store/store_impl.hpp"

namespace tierfs {

void TieredStore::begin(const ReadOperationPtr& operation) {
    // All of a read's memory is needed at once.
    if (operation->end - operation->begin > arena_->capacity() / 2) {
        fail_read(operation->callback,
                  Error{EINVAL, operation->object->path + ": a read of more than half of the data memory"});
        return;
    }
    if (attempt(operation, false) == Started::yes) return;
    if (!admission_->enqueue(operation)) {
        fail_read(operation->callback,
                  Error{ECANCELED, operation->object->path + ": the mount is going away"});
    }
}

BlockMask TieredStore::on_nvme(const ContentId& id, const UnitLayout& layout, std::uint64_t unit,
                               BlockMask blocks) {
    if (nvme_ == nullptr || blocks == 0) return 0;
    if (layout.size <= pack_max_object_) {  // packed: whole or not at all
        return nvme_->contains(id, layout.size, 0) ? blocks : 0;
    }
    BlockMask here = 0;
    for_each_run(blocks, 1, [&](std::uint32_t block, std::uint32_t) {
        if (nvme_->contains(id, layout.size, unit * layout.unit_blocks + block))
            here |= BlockMask{1} << block;
    });
    return here;
}

std::vector<ReadPlan::UnitPlan> TieredStore::divide(const ReadOperation& operation, bool ask_all) {
    const UnitLayout& layout = operation.layout;
    const std::uint64_t last = layout.unit_of(operation.end - 1);
    std::vector<ReadPlan::UnitPlan> units;
    for (std::uint64_t unit = layout.unit_of(operation.begin); unit <= last; ++unit) {
        ReadPlan::UnitPlan plan;
        plan.unit = unit;
        plan.want = plan.widened = layout.touched(unit, operation.begin, operation.end);
        if (layout.whole) {
            plan.widened = layout.blocks_of(unit);
        } else if (operation.sequential) {
            plan.widened |= layout.touched(unit, operation.wide_begin, operation.wide_end);
        }
        const BlockMask ram = ram_.present(UnitKey{operation.object->content, unit});
        if (ask_all || (plan.want & ~ram) != 0) {
            plan.asked = ask_all ? plan.widened : plan.widened & ~ram;
            plan.nvme = on_nvme(operation.object->content, layout, unit, plan.asked);
            plan.nvme_whole = layout.whole && plan.nvme != 0 &&
                              nvme_->is_compressed(operation.object->content, layout.size);
        }
        units.push_back(plan);
    }
    return units;
}

std::uint32_t TieredStore::add_pieces(ReadOperation& operation, std::uint64_t unit, BlockMask blocks,
                                      const ArenaBufferPtr& buffer) {
    std::uint32_t added = 0;
    for_each_run(blocks, kLargestUnitBlocks, [&](std::uint32_t first, std::uint32_t count) {
        const std::uint64_t from = std::max(operation.begin, operation.layout.block_begin(unit, first));
        const std::uint64_t to = std::min(operation.end, operation.layout.block_end(unit, first + count - 1));
        operation.pieces.push_back({from, static_cast<std::uint32_t>(to - from), buffer});
        ++added;
    });
    return added;
}

void TieredStore::plan_unit(ReadOperation& operation, FlightTable::Shard& shard,
                            const ReadPlan::UnitPlan& unit, ReadPlan& plan) {
    const UnitLayout& layout = operation.layout;
    const UnitKey key{operation.object->content, unit.unit};
    BlockMask missing =
        unit.want & ~ram_.visit(key, unit.want, [&](const ArenaBufferPtr& buffer, BlockMask blocks) {
            add_pieces(operation, unit.unit, blocks, buffer);
        });
    if (missing == 0) return;
    if (const auto found = shard.flights.find(key); found != shard.flights.end()) {
        for (const FlightPtr& flight : found->second) {
            const BlockMask blocks = flight->blocks & missing;
            if (blocks != 0) plan.joins.push_back({flight, blocks});
            missing &= ~blocks;
        }
    }
    if (unit.nvme_whole && (missing & unit.nvme) != 0) {
        const auto blocks = static_cast<std::uint32_t>(block_count(layout.size));
        plan.own.push_back({unit.unit, 0, blocks, missing & unit.nvme, true, nullptr, 0, 0});
        missing &= ~unit.nvme;
    }
    for_each_run(missing & unit.nvme, longest_run_, [&](std::uint32_t first, std::uint32_t count) {
        plan.own.push_back({unit.unit, first, count, block_range(first, count), true, nullptr, 0, 0});
    });
    missing &= ~unit.nvme;
    if (missing == 0) return;
    const BlockMask elsewhere = ram_.present(key) | shard.under_way(key) | unit.nvme;
    const BlockMask of_origin = missing | (unit.widened & ~elsewhere);
    if (nvme_ != nullptr && (of_origin & ~unit.asked) != 0) {
        plan.stale = true;  // evicted from RAM since: the NVMe tier may well have them
        return;
    }
    const std::uint32_t longest = layout.whole ? kLargestUnitBlocks : longest_run_;
    for_each_run(of_origin, longest, [&](std::uint32_t first, std::uint32_t count) {
        const BlockMask wanted = missing & block_range(first, count);
        if (wanted == 0) return;  // readahead's business
        plan.own.push_back({unit.unit, first, count, wanted, false, nullptr, 0, 0});
    });
}

std::optional<Error> TieredStore::failed_just_now(const ObjectRef& object, FlightTable::Shard& shard,
                                                  const ReadPlan& plan) const {
    if (shard.failures.empty() && plan.joins.empty()) return std::nullopt;
    const auto now = RecentFailures::Clock::now();
    // Held by the source, which does not even fail: its first reader was answered by the watchdog of the mount.
    for (const ReadPlan::Join& join : plan.joins) {
        if (now - join.flight->begun >= deadline_)
            return Error{ETIMEDOUT, object.path + ": the source does not answer an earlier request for it"};
    }
    for (const ReadPlan::Own& own : plan.own) {
        if (own.from_nvme) continue;
        if (auto error = shard.failures.find(UnitKey{object.content, own.unit}, own.want, now)) return error;
    }
    return std::nullopt;
}

bool TieredStore::allocate(const UnitLayout& layout, ReadPlan& plan, bool may_allocate,
                           Arena::Memory memory) {
    for (std::size_t i = 0; i < plan.own.size(); ++i) {
        ReadPlan::Own& own = plan.own[i];
        const std::uint64_t size =
            layout.block_end(own.unit, own.first + own.count - 1) - layout.block_begin(own.unit, own.first);
        if (may_allocate) own.buffer = arena_->allocate(size, memory);
        if (own.buffer) continue;
        plan.short_of = Arena::rounded(size);
        // Who waits has nothing to gain from what was never really taken.
        for (std::size_t j = 0; j < i; ++j) plan.own[j].buffer->quiet = true;
        plan.own.clear();
        plan.joins.clear();
        return false;
    }
    return true;
}

std::vector<FlightPtr> TieredStore::commit(const ReadOperationPtr& operation, FlightTable::Shard& shard,
                                           ReadPlan& plan) {
    const auto in_ram = static_cast<std::uint32_t>(operation->pieces.size());
    const auto add_waiters = [&](const FlightPtr& flight, BlockMask blocks) {
        auto index = static_cast<std::uint32_t>(operation->pieces.size());
        const std::uint32_t added = add_pieces(*operation, flight->key.unit, blocks, nullptr);
        for (std::uint32_t i = 0; i < added; ++i) {
            flight->waiters.push_back({operation, index++, blocks});
        }
    };
    for (const ReadPlan::Join& join : plan.joins) add_waiters(join.flight, join.want);
    std::vector<FlightPtr> flights;
    for (ReadPlan::Own& own : plan.own) {
        if (own.from_nvme) {
            own.first_piece = static_cast<std::uint32_t>(operation->pieces.size());
            own.pieces = add_pieces(*operation, own.unit, own.want, nullptr);
            continue;
        }
        FlightPtr flight = make_flight(operation->object, operation->layout, own.unit, own.first, own.count,
                                       std::move(own.buffer), false);
        add_waiters(flight, own.want);
        shard.add(flight);
        gate_.add();
        flights.push_back(std::move(flight));
    }
    if (!flights.empty() || !plan.joins.empty()) operation->fetched = true;
    // One more for the planner, which still has to read the NVMe tier.
    operation->pending.store(static_cast<std::uint32_t>(operation->pieces.size()) - in_ram + 1);
    return flights;
}

TieredStore::Started TieredStore::attempt(const ReadOperationPtr& operation, bool queued) {
    ReadPlan plan;
    std::vector<ReadPlan::UnitPlan> units = divide(*operation, false);
    TIERFS_SYNC_POINT("store.read.divided");
    if (queued) operation->admitted = std::chrono::steady_clock::now();  // of the attempts the last counts
    FlightTable::Shard& shard = flights_.shard(operation->object->content);
    std::vector<FlightPtr> flights;
    auto memory = arena_->opened() < arena_->capacity() ? Arena::Memory::resident : Arena::Memory::any;
    for (;;) {
        bool planned = false, refused = false;
        std::optional<Error> failed;
        {
            MutexLock lock(shard.mutex);
            operation->pieces.clear();
            for (const ReadPlan::UnitPlan& unit : units) plan_unit(*operation, shard, unit, plan);
            refused = !plan.stale && operation->object->archived &&
                      std::any_of(plan.own.begin(), plan.own.end(),
                                  [](const ReadPlan::Own& own) { return !own.from_nvme; });
            if (!plan.stale && !refused) failed = failed_just_now(*operation->object, shard, plan);
            planned = !plan.stale && !refused && !failed &&
                      allocate(operation->layout, plan, queued || !admission_->busy(), memory);
            if (planned) flights = commit(operation, shard, plan);
        }
        if (refused) {
            fail_read(operation->callback, archived_error(*operation->object));
            return Started::yes;
        }
        if (failed) {
            fail_read(operation->callback, std::move(*failed));
            return Started::yes;
        }
        if (planned) break;
        operation->pieces.clear();  // hold nothing while waiting
        if (std::exchange(plan.stale, false)) {
            plan.own.clear();
            plan.joins.clear();
            units = divide(*operation, true);  // about everything: what it says next cannot go stale so
            continue;
        }
        if (!queued && admission_->busy()) return Started::no_memory;
        if (std::exchange(memory, Arena::Memory::any) == Arena::Memory::resident) {
            ram_.reclaim(plan.short_of, RamTier::Reclaim::used_once);
            continue;
        }
        const auto depth = queued ? RamTier::Reclaim::held_too : RamTier::Reclaim::all_free;
        if (ram_.reclaim(plan.short_of, depth) == 0) return Started::no_memory;
    }
    TIERFS_SYNC_POINT("store.read.committed");
    const bool fetched = !flights.empty() || !plan.joins.empty();
    for (const FlightPtr& flight : flights) send(flight, Priority::demand);
    small_file_read(*operation->object, operation->layout, fetched ? Came::from_origin : Came::from_nvme);
    for (ReadPlan::Own& own : plan.own) {
        if (own.from_nvme) read_nvme(operation, own);
    }
    if (!plan.own.empty()) admission_->memory_freed();  // what went into RAM can be evicted for who waits
    arrived(operation);
    return Started::yes;
}

void TieredStore::read_nvme(const ReadOperationPtr& operation, ReadPlan::Own& own) {
    const UnitLayout& layout = operation->layout;
    const ContentId& id = operation->object->content;
    const std::uint64_t begin = layout.block_begin(own.unit, own.first);
    const std::uint64_t size = layout.block_end(own.unit, own.first + own.count - 1) - begin;
    TIERFS_SYNC_POINT("store.read.nvme_planned");
    if (!nvme_->read(id, layout.size, begin, own.buffer->writable().first(size))) {
        fetch_instead(operation, own);
        return;
    }
    own.buffer->source = ArenaBuffer::Source::nvme;
    own.buffer->object_offset = begin;
    own.buffer->set_size(size);
    const Dataset& dataset = datasets_.of(*operation->object);
    nvme_->claim(id, dataset.number);
    const UnitKey key{id, own.unit};
    const BlockMask brought = block_range(own.first, own.count);
    ram_.insert(key, own.buffer, own.first, brought, (brought & ~own.want) != 0,
                promoted_stay(dataset, layout, key, own.first));
    ram_.trim();
    for (std::uint32_t i = 0; i < own.pieces; ++i) {
        operation->pieces[own.first_piece + i].buffer = own.buffer;
        arrived(operation);
    }
    own.buffer.reset();
}

void TieredStore::fetch_instead(const ReadOperationPtr& operation, ReadPlan::Own& own) {
    operation->fetched = true;
    if (operation->object->archived) {
        operation->set_error(archived_error(*operation->object));
        for (std::uint32_t i = 0; i < own.pieces; ++i) arrived(operation);
        return;
    }
    FlightPtr flight = make_flight(operation->object, operation->layout, own.unit, own.first, own.count,
                                   std::move(own.buffer), false);
    for (std::uint32_t i = 0; i < own.pieces; ++i) {
        flight->waiters.push_back({operation, own.first_piece + i, own.want});
    }
    {
        FlightTable::Shard& shard = flights_.shard(operation->object->content);
        MutexLock lock(shard.mutex);
        // Where somebody else fetches a part of it by now, this one flies alone: flights share no block.
        if ((shard.under_way(flight->key) & flight->blocks) == 0) shard.add(flight);
    }
    gate_.add();
    send(flight, Priority::demand);
}

Error TieredStore::archived_error(const ObjectRef& object) {
    return Error{EACCES, object.path + ": archived at the origin, and not in a tier; restore it first"};
}

}  // namespace tierfs
