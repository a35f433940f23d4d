// The view that a store has of an origin that keeps small objects in extents (backends/pack).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/pack/format.hpp"
#include "config/base/result.hpp"
#include "config/dataset_rules.hpp"

namespace tierfs {

/// A packed object, and where it lies.
struct PackedObject {
    std::shared_ptr<const ObjectRef> object;
    pack::Place place;
    bool sound = false;  ///< after a read: its bytes have the checksums of `place`
};

/// A stretch of an extent, with objects that lie in it. Offsets are those of the extent's file.
struct ExtentRun {
    std::uint32_t extent = 0;           ///< its number, as in places
    std::uint64_t begin = 0, end = 0;   ///< multiples of 4 KiB
    std::vector<PackedObject> objects;  ///< in the order of their places
    DatasetNumber dataset = 0;          ///< that all of them belong to; whoever asks knows it again by it
    std::span<std::byte> destination;   ///< end - begin bytes; valid until `done`
    std::function<void(const Result<void>&)> done;

    [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
    /// What is stored of one of the objects.
    [[nodiscard]] std::span<const std::byte> stored(const pack::Place& place) const {
        return std::span<const std::byte>(destination).subspan(place.offset - begin, place.stored);
    }
};

/// Thread-safe.
class PackedSource {
  public:
    virtual ~PackedSource() = default;

    /// Where the bytes of this version lie. Nothing: Origin::read gets them elsewhere.
    [[nodiscard]] virtual std::optional<pack::Place> place_of(const ObjectRef& object) = 0;

    /// Reads a run by one request, at Priority::fill, and looks at the checksums of its objects. Does not
    /// block; `done` is called once, from any thread, and `run` lives until then. Errors: those of
    /// Origin::read of the extent; whoever gets one reads the objects one by one, by Origin::read.
    virtual void read_run(const std::shared_ptr<ExtentRun>& run) = 0;
};

}  // namespace tierfs
