// What people ask of the tiers while they are mounted: warm, evict, another class (pins: store_pins.cpp).
#include <algorithm>
#include <bit>
#include <utility>

#include "tiering/store/store_impl.hpp"

namespace tierfs {

void Warming::end_part(std::uint64_t bytes, const Result<void>& result) {
    if (result) {
        brought_.fetch_add(bytes);
    } else {
        MutexLock lock(mutex_);
        if (!error_) error_ = result.error();
    }
    if (pending_.fetch_sub(1) != 1) return;
    std::optional<Error> error;
    {
        MutexLock lock(mutex_);
        error = std::move(error_);
    }
    if (error) return answer_(fail(std::move(*error)));
    answer_(Store::Warmed{brought_.load(), brought_.load() == 0});
}

void TieredStore::warm(const std::shared_ptr<const ObjectRef>& object,
                       std::function<void(Result<Warmed>)> answer, const std::function<bool()>& stopped) {
    const auto warming = std::make_shared<Warming>(std::move(answer));
    if (!gate_.enter())
        return warming->end_part(0, fail(ECANCELED, object->path + ": the mount is going away"));
    Result<void> result;
    const Dataset& dataset = datasets_.of(*object);
    const UnitLayout layout = layout_of(object->size);
    if (dataset.policy.current() == DatasetClass::none) {
        result = fail(EINVAL, "is of the class none, of which nothing is kept");
    } else if (nvme_ != nullptr) {
        nvme_->claim(object->content, dataset.number);
    }
    if (result) result = bring_missing(object, layout, warming, stopped);
    warming->end_part(0, result);
    gate_.leave();
}

Result<void> TieredStore::bring_missing(const std::shared_ptr<const ObjectRef>& object,
                                        const UnitLayout& layout, const std::shared_ptr<Warming>& warming,
                                        const std::function<bool()>& stopped) {
    Result<void> result;
    const std::uint64_t units = object->size == 0 ? 0 : layout.unit_of(object->size - 1) + 1;
    for (std::uint64_t unit = 0; unit < units && result && !warming->has_failed(); ++unit) {
        if (stopped()) return fail(ECANCELED, "was stopped before its end");
        const BlockMask wanted = missing(object->content, layout, unit, layout.blocks_of(unit));
        if (wanted != 0 && object->archived) result = fail(archived_error(*object));
        const std::uint32_t longest = layout.whole ? kLargestUnitBlocks : longest_run_;
        for_each_run(wanted, longest, [&](std::uint32_t first, std::uint32_t count) {
            if (!result ||
                fill_run(object, layout, unit, first, count, warming) == DatasetFill::Offered::taken)
                return;
            result = fill_.stopping() ? fail(ECANCELED, "the mount is going away")
                                      : fail(ENOSPC, "the tiers are full of what is kept");
        });
    }
    return result;
}

std::uint64_t TieredStore::most_held() const {
    for (std::size_t number = 0; nvme_ != nullptr && number < datasets_.count(); ++number)
        if (datasets_.codec_of(datasets_.at(number)) != Codec::none) return 0;
    return std::max(nvme_ == nullptr ? 0 : nvme_->stats().limit_bytes, plan_.ram_tier);
}

Result<std::uint64_t> TieredStore::evict(const ObjectRef& object) {
    const Dataset& dataset = datasets_.of(object);
    if (datasets_.is_pinned_by_path(dataset)) {
        const auto pin = pins_->covering(object.path);
        return fail(EBUSY, "is pinned, by `tierfs pin` of /" + pin.value_or(object.path) +
                               " in the mount: unpin that first");
    }
    if (dataset.policy.current() == DatasetClass::pin)
        return fail(EBUSY, "is pinned by the rule " + datasets_.match_of(dataset));
    const UnitLayout layout = layout_of(object.size);
    std::uint64_t bytes = 0;
    const std::uint64_t units = object.size == 0 ? 0 : layout.unit_of(object.size - 1) + 1;
    for (std::uint64_t unit = 0; unit < units; ++unit) {
        const UnitKey key{object.content, unit};
        const BlockMask all = layout.blocks_of(unit);
        const BlockMask here = ram_.present(key) | on_nvme(object.content, layout, unit, all);
        for_each_run(here, kLargestUnitBlocks, [&](std::uint32_t first, std::uint32_t count) {
            bytes += layout.block_end(unit, first + count - 1) - layout.block_begin(unit, first);
        });
        ram_.erase(key);
    }
    if (nvme_ != nullptr) nvme_->erase(object.content);
    admission_->memory_freed();
    return bytes;
}

Result<void> TieredStore::set_class(const std::string& match, DatasetClass dataset_class) {
    Dataset* dataset = datasets_.find(match);
    if (dataset == nullptr) {
        std::string known;
        for (std::size_t number = 0; number < datasets_.count(); ++number)
            known += (known.empty() ? "" : ", ") + datasets_.match_of(datasets_.at(number));
        return fail(ENOENT, "no dataset has the pattern " + match + "; there are: " + known);
    }
    dataset->policy.configure(dataset_class, DatasetPolicy::Clock::now());
    retain(*dataset);
    dataset->frozen = false;
    dataset->refused = false;
    const DatasetClass now = dataset->policy.current();
    if (now != DatasetClass::epoch && now != DatasetClass::pin && now != DatasetClass::automatic) {
        ram_.release_kept(dataset->number);
        ram_.trim();
    }
    if (is_filled(*dataset)) fill_.walk_all();
    return {};
}

}  // namespace tierfs
