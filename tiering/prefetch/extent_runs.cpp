#include "tiering/prefetch/extent_runs.hpp"

#include <utility>

namespace tierfs {

bool ExtentRuns::continues(const pack::Place& place, DatasetNumber dataset) const {
    const pack::Place& last = open_->objects.back().place;
    const auto end = last.offset + last.stored;
    return dataset == open_->dataset && place.extent == open_->extent && place.offset >= end &&
           place.offset - end <= kWidestGap &&
           align_up(place.offset + place.stored) - open_->begin <= longest_;
}

std::optional<ExtentRun> ExtentRuns::add(PackedObject object, DatasetNumber dataset) {
    std::optional<ExtentRun> before;
    if (open_ && !continues(object.place, dataset)) before = take();
    if (!open_) {
        open_ = ExtentRun();
        open_->dataset = dataset;
        open_->extent = object.place.extent;
        open_->begin = align_down(object.place.offset);
    }
    open_->end = align_up(object.place.offset + object.place.stored);
    open_->objects.push_back(std::move(object));
    return before;
}

std::optional<ExtentRun> ExtentRuns::take() {
    return std::exchange(open_, std::nullopt);
}

}  // namespace tierfs
