// What `tierfs pin` names, and how it stays in the tiers.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tiering/store/store_impl.hpp"

namespace tierfs {

std::uint64_t TieredStore::pin_limit() const {
    const std::uint64_t tier = nvme_ != nullptr ? nvme_->stats().limit_bytes : plan_.ram_tier;
    return pin_limit_ == 0 ? tier / 4 * 3 : std::min(pin_limit_, tier / 16 * 15);
}

std::uint64_t TieredStore::pinned_bytes(const Dataset& dataset) const {
    return ram_.kept_by(dataset.number) + (nvme_ != nullptr ? nvme_->used_by(dataset.number) : 0);
}

bool TieredStore::may_pin(const Dataset& dataset, std::uint64_t bytes) const {
    if (!datasets_.is_pinned_by_path(dataset)) return true;
    // What is pinned is admitted by an estimate of its size: two extents that are begun, and a bit of waste.
    const std::uint64_t limit = pin_limit();
    const std::uint64_t held = pinned_bytes(datasets_.pinned()) + pinned_bytes(datasets_.pinned_before());
    return held + bytes <= limit + limit / 16;
}

BlockMask TieredStore::pinned_blocks(const ObjectRef& object, const UnitLayout& layout, std::uint64_t unit,
                                     bool ours, const Dataset& dataset) {
    const BlockMask all = layout.blocks_of(unit);
    const BlockMask here = ours ? on_nvme(object.content, layout, unit, all) : 0;
    if (here == all) return here;
    return here | ram_.keep(UnitKey{object.content, unit}, dataset.number, true);
}

bool TieredStore::copy_from_tiers(const ObjectRef& object, const UnitLayout& layout, std::uint64_t unit,
                                  std::uint32_t first, std::uint32_t count, ArenaBuffer& buffer) {
    const BlockMask blocks = block_range(first, count);
    const std::uint64_t begin = layout.block_begin(unit, first);
    const std::uint64_t size = layout.block_end(unit, first + count - 1) - begin;
    const auto to = buffer.writable().first(size);
    const BlockMask copied =
        ram_.visit(UnitKey{object.content, unit}, blocks, [&](const ArenaBufferPtr& from, BlockMask some) {
            for_each_run(some, kLargestUnitBlocks, [&](std::uint32_t at, std::uint32_t length) {
                const std::uint64_t start = layout.block_begin(unit, at);
                const auto bytes = from->bytes().subspan(start - from->object_offset,
                                                         layout.block_end(unit, at + length - 1) - start);
                std::memcpy(to.data() + (start - begin), bytes.data(), bytes.size());
            });
        });
    return copied == blocks || (nvme_ != nullptr && nvme_->read(object.content, layout.size, begin, to));
}

Result<void> TieredStore::move_pinned(const ObjectRef& object, const UnitLayout& layout, std::uint64_t unit,
                                      std::uint32_t first, std::uint32_t count) {
    Dataset& dataset = datasets_.of(object);
    const UnitKey key{object.content, unit};
    const std::uint64_t begin = layout.block_begin(unit, first);
    const std::uint64_t size = layout.block_end(unit, first + count - 1) - begin;
    const auto no_room = [&]() -> Result<void> {
        dataset.refused = true;
        if (fill_.stopping()) return fail(ECANCELED, "the mount is going away");
        return fail(ENOSPC, "no tier has room to keep it, or pin.limit does not leave any");
    };
    if (!wait_for_room(dataset, layout, size, true)) return no_room();
    const bool to_nvme = nvme_takes(dataset, layout, size);
    const BlockMask blocks = block_range(first, count);
    if (!to_nvme && (ram_.keep(key, dataset.number, false) & blocks) == blocks) return {};
    ArenaBufferPtr buffer = fill_memory(size);
    if (!buffer) return no_room();
    // What turns out to be damaged is missing from now on, and fetched.
    if (!copy_from_tiers(object, layout, unit, first, count, *buffer)) return {};
    buffer->source = ArenaBuffer::Source::nvme;
    buffer->object_offset = begin;
    buffer->set_size(size);
    if (to_nvme) {
        nvme_->admit(object.content, layout.size, begin, buffer, dataset.number, datasets_.codec_of(object));
        return {};
    }
    ram_.insert(key, buffer, first, blocks, false, RamStay::kept, dataset.number);
    const BlockMask kept = ram_.keep(key, dataset.number, false);
    ram_.trim();
    return (kept & blocks) == blocks ? Result<void>() : no_room();
}

void TieredStore::pin(const std::shared_ptr<const ObjectRef>& object,
                      std::function<void(Result<Warmed>)> answer, const std::function<bool()>& stopped) {
    const auto warming = std::make_shared<Warming>(std::move(answer));
    if (!gate_.enter())
        return warming->end_part(0, fail(ECANCELED, object->path + ": the mount is going away"));
    Result<void> result;
    Dataset& dataset = datasets_.of(*object);
    if (!datasets_.is_pinned_by_path(dataset)) result = fail(ENOENT, "is not pinned any more");
    const UnitLayout layout = layout_of(object->size);
    const bool ours = result && nvme_ != nullptr &&
                      nvme_->take_over(object->content, object->size, dataset.number, dataset.number);
    const std::uint64_t units = object->size == 0 ? 0 : layout.unit_of(object->size - 1) + 1;
    const std::uint32_t longest = layout.whole ? kLargestUnitBlocks : longest_run_;
    for (std::uint64_t unit = 0; unit < units && result && !stopped(); ++unit) {
        const BlockMask astray =
            layout.blocks_of(unit) & ~pinned_blocks(*object, layout, unit, ours, dataset);
        const BlockMask here = astray & (ram_.present(UnitKey{object->content, unit}) |
                                         on_nvme(object->content, layout, unit, astray));
        if (layout.whole && here != astray) {  // small objects lie whole in a tier: all of it is fetched
            ram_.erase(UnitKey{object->content, unit});
            continue;
        }
        for_each_run(here, longest, [&](std::uint32_t first, std::uint32_t count) {
            if (result) result = move_pinned(*object, layout, unit, first, count);
        });
    }
    if (result) result = bring_missing(object, layout, warming, stopped);
    if (!result && result.error().code == ENOSPC) dataset.refused = true;
    warming->end_part(0, result);
    gate_.leave();
}

void TieredStore::begin_pin_round() {
    if (pin_round_.exchange(true)) return;
    if (earlier_pins_) return;  // all that an earlier run left stays as long
    pin_from_ = datasets_.pinned().number;
    retain(datasets_.pinned_before());
    datasets_.turn_pinned();
}

std::uint64_t TieredStore::claim_pin(const ObjectRef& object) {
    const Dataset& dataset = datasets_.of(object);
    if (object.size == 0 || !datasets_.is_pinned_by_path(dataset)) return 0;
    const UnitLayout layout = layout_of(object.size);
    const bool ours =
        nvme_ != nullptr && nvme_->take_over(object.content, object.size, dataset.number, pin_from_.load());
    std::uint64_t astray = 0;
    for (std::uint64_t unit = 0; unit <= layout.unit_of(object.size - 1); ++unit) {
        const BlockMask left = layout.blocks_of(unit) & ~pinned_blocks(object, layout, unit, ours, dataset);
        for_each_run(left, kLargestUnitBlocks, [&](std::uint32_t first, std::uint32_t count) {
            astray += layout.block_end(unit, first + count - 1) - layout.block_begin(unit, first);
        });
    }
    return astray;
}

void TieredStore::end_pin_round() {
    if (!pin_round_.load()) return;
    const Dataset& before = datasets_.pinned_before();
    datasets_.pinned().refused = false;
    ram_.release_kept(before.number);
    ram_.trim();
    retain_as(before, Retention::passes);  // before it is disowned: what is pinned keeps the extent under way
    if (nvme_ != nullptr) {
        nvme_->disown(before.number);
        if (earlier_pins_) nvme_->retain(kUnknownDataset, Retention::goes);
    }
    earlier_pins_ = false;
    pin_round_ = false;
}

void TieredStore::pins_status(StoreStats& stats) const {
    if (pins_ == nullptr) return;
    stats.pins = pins_->totals();
    stats.pin_limit_bytes = pin_limit();
    stats.pins_refused = datasets_.pinned().refused;
    const auto count = [&](const Dataset& dataset) {
        stats.ram.pinned_bytes += ram_.kept_by(dataset.number);
        if (nvme_ != nullptr) stats.nvme.pinned_bytes += nvme_->used_by(dataset.number);
    };
    count(datasets_.pinned());
    if (pin_round_.load()) count(datasets_.pinned_before());
}

}  // namespace tierfs
