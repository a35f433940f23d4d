#include "tiering/policy/datasets.hpp"

#include <chrono>

namespace tierfs {

Retention Dataset::retention() const {
    switch (policy.current()) {
        case DatasetClass::epoch:
            return Retention::stays;
        case DatasetClass::hot:
            return Retention::goes;
        case DatasetClass::pin:
            return Retention::pinned;
        case DatasetClass::stream:
        case DatasetClass::once:
        case DatasetClass::none:
            return Retention::passes;
        case DatasetClass::automatic:
            break;
    }
    return Retention::waits;
}

bool Dataset::is_passing() const {
    const DatasetClass now = policy.current();
    return policy.is_configured() &&
           (now == DatasetClass::stream || now == DatasetClass::once || now == DatasetClass::none);
}

Datasets::Datasets(const Settings& settings, const Pins* pins)
    : rules_(settings.datasets, settings.dataset_class), default_codec_(settings.nvme_codec), pins_(pins) {
    if (rules_.depends_on_use()) counts_ = std::make_unique<ReadCounts>(ReadCounts::Clock::now());
    for (std::size_t number = 0; number < rules_.count(); ++number) {
        datasets_.push_back(
            std::make_unique<Dataset>(static_cast<DatasetNumber>(number), rules_.at(number).dataset_class));
    }
    for (std::size_t turn = 0; turn < pinned_.size(); ++turn) {
        pinned_[turn] =
            std::make_unique<Dataset>(static_cast<DatasetNumber>(rules_.count() + turn), DatasetClass::pin);
    }
}

std::size_t Datasets::choose(const ObjectRef& object) const {
    FileFacts facts;
    facts.size = object.size;
    if (object.mtime_ns != 0) {
        const auto age =
            std::chrono::system_clock::now().time_since_epoch() - std::chrono::nanoseconds(object.mtime_ns);
        facts.age = std::chrono::duration_cast<std::chrono::milliseconds>(age);
    }
    if (counts_) {
        const auto uses = counts_->uses(object.content, ReadCounts::Clock::now());
        facts.reads = uses.reads;
        facts.idle = std::chrono::duration_cast<std::chrono::milliseconds>(uses.idle);
    }
    return rules_.find(object.path, facts);
}

Dataset& Datasets::of(const ObjectRef& object) {
    constexpr std::uint32_t kNumber = 0xFF;  // and above it 24 bits of the generation
    const std::uint32_t now = generation();
    if (now == 0 && datasets_.size() == 1) return *datasets_[0];
    const std::uint32_t mark = object.dataset.get();
    if (!counts_ && mark != 0 && (mark | kNumber) == ((now << 8U) | kNumber))
        return numbered((mark & kNumber) - 1);
    const bool is_pinned = now != 0 && pins_->covering(object.path).has_value();
    Dataset& found = is_pinned ? pinned() : *datasets_[choose(object)];
    if (!counts_) object.dataset.set((now << 8U) | (found.number + 1U));
    return found;
}

Codec Datasets::codec_of(const ObjectRef& object) {
    const Dataset& dataset = of(object);
    return rule_codec(is_pinned_by_path(dataset) ? choose(object) : dataset.number);
}

Dataset* Datasets::find(std::string_view match) {
    for (const auto& dataset : datasets_) {
        if (match_of(*dataset) == match) return dataset.get();
    }
    return nullptr;
}

}  // namespace tierfs
