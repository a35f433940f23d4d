#include "fs/pack/known_extents.hpp"

#include <unordered_map>

namespace tierfs::pack {

namespace {

/// A file of the plan.
struct Planned {
    std::uint32_t extent = 0, place = 0;
};

class Matcher {
  public:
    Matcher(const std::vector<Entry>& entries, const std::vector<PlannedExtent>& plan)
        : entries_(entries), plan_(plan), planned_(entries.size()), found_(plan.size()), count_(plan.size()) {
        for (std::uint32_t extent = 0; extent < plan.size(); ++extent) {
            for (std::uint32_t place = 0; place < plan[extent].files.size(); ++place)
                planned_[plan[extent].files[place]] = Planned{extent, place};
        }
    }

    Result<void> take(PackIndex& index) {
        std::unordered_map<std::string, std::uint32_t> numbers;
        for (std::uint32_t i = 0; i < plan_.size(); ++i) numbers[Extent{plan_[i].uuid, 0}.path()] = i;
        std::vector<std::optional<std::uint32_t>> now;  // number in the plan of each extent of the index
        for (const auto& extent : index.extents()) {
            const auto number = numbers.find(extent.path());
            now.push_back(number == numbers.end() ? std::nullopt : std::optional(number->second));
            if (now.back()) found_[*now.back()].bytes = extent.bytes;
        }
        next_ = 0;
        return index.for_each([&](const Entry& old) {
            if (old.place && now[old.place->extent]) match(old, *now[old.place->extent]);
            return true;
        });
    }

    KnownExtents end() {
        KnownExtents extents(plan_.size());
        for (std::size_t i = 0; i < plan_.size(); ++i)
            if (count_[i] == plan_[i].files.size()) extents[i] = std::move(found_[i]);
        return extents;
    }

  private:
    void match(const Entry& old, std::uint32_t extent) {
        const auto key = key_of(old);
        while (next_ < entries_.size() && key_of(entries_[next_]) < key) ++next_;  // both ascend
        if (next_ == entries_.size() || key_of(entries_[next_]) != key) return;
        const auto& planned = planned_[next_];
        if (!planned || planned->extent != extent ||
            entries_[next_].attributes.version != old.attributes.version ||
            entries_[next_].attributes.size != old.attributes.size)
            return;
        auto& places = found_[extent].places;
        places.resize(plan_[extent].files.size());
        places[planned->place] = *old.place;
        places[planned->place].extent = extent;
        ++count_[extent];
    }

    const std::vector<Entry>& entries_;
    const std::vector<PlannedExtent>& plan_;
    std::vector<std::optional<Planned>> planned_;  ///< by entry
    std::vector<KnownExtent> found_;               ///< by extent of the plan
    std::vector<std::size_t> count_;               ///< of them
    std::size_t next_ = 0;                         ///< entry
};

}  // namespace

Result<KnownExtents> known_extents(const std::vector<std::unique_ptr<PackIndex>>& indexes,
                                   const std::vector<Entry>& entries,
                                   const std::vector<PlannedExtent>& plan) {
    Matcher matcher(entries, plan);
    for (const auto& index : indexes)
        if (auto taken = matcher.take(*index); !taken) return fail(taken.error());
    return matcher.end();
}

}  // namespace tierfs::pack
