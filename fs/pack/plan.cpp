#include "fs/pack/plan.hpp"

#include <algorithm>
#include <utility>

#include "backends/pack/numbers.hpp"

namespace tierfs::pack {

namespace {

/// How many of the upper bits of the XXH3-64 of a path are a number below 4 MiB. An extent may end before a
/// file where that is less than its size: about every 4 MiB, whatever the sizes are.
constexpr unsigned kBorderShift = 64 - 22;

/// What is in an extent names it, and the rules by which it was made.
ExtentUuid uuid_of(const std::string& contents, const PackingCodec& codec) {
    const auto hash = hash128(codec.codec == Codec::none ? contents : contents + to_string(codec));
    return {hash.high, hash.low};
}

/// Takes files one by one.
class Planner {
  public:
    Planner(const std::vector<Entry>& entries, std::string_view source, const PackingCodec& codec)
        : entries_(entries), source_(source), codec_(codec) {}

    void add(std::size_t file) {
        const auto path = entries_[file].path();
        const auto size = entries_[file].attributes.size;
        const auto table = kEntryHeaderBytes + 4 * unit_count(size, kExtentUnit);
        const bool is_border = end_ + tables_ >= kExtentLeast && hash64(path) >> kBorderShift < size;
        if (is_border || place_after(end_, size) + size + tables_ + table > kExtentTarget) close();
        end_ = place_after(end_, size) + size;
        tables_ += table;
        const auto id = content_id(source_, path, entries_[file].attributes.version);
        put_fixed(contents_, id.high);
        put_fixed(contents_, id.low);
        put_fixed(contents_, size);
        extent_.files.push_back(file);
        extent_.bytes += size;
    }

    std::vector<PlannedExtent> end() {
        close();
        return std::move(extents_);
    }

  private:
    void close() {
        if (extent_.files.empty()) return;
        extent_.uuid = uuid_of(contents_, codec_);
        extents_.push_back(std::exchange(extent_, {}));
        contents_.clear();
        end_ = tables_ = 0;
    }

    const std::vector<Entry>& entries_;
    const std::string_view source_;
    const PackingCodec codec_;
    std::vector<PlannedExtent> extents_;
    PlannedExtent extent_;
    std::string contents_;  ///< of the extent, that its name is made of
    std::uint64_t end_ = 0, tables_ = 0;
};

}  // namespace

bool is_packed(const Entry& entry, std::uint64_t max_object) {
    const auto& attributes = entry.attributes;
    const auto most = std::min<std::uint64_t>(max_object, kMaxPackedObject);
    return attributes.kind == ObjectKind::file && !attributes.archived && attributes.size > 0 &&
           attributes.size <= most;
}

std::vector<PlannedExtent> plan_extents(const std::vector<Entry>& entries, std::string_view source,
                                        std::uint64_t max_object, const std::vector<std::size_t>& first,
                                        const PackingCodec& codec) {
    Planner planner(entries, source, codec);
    std::vector<bool> planned(entries.size());
    const auto plan = [&](std::size_t file) {
        if (planned[file] || !is_packed(entries[file], max_object)) return;
        planned[file] = true;
        planner.add(file);
    };
    for (const auto file : first) plan(file);
    for (std::size_t file = 0; file < entries.size(); ++file) plan(file);
    return planner.end();
}

}  // namespace tierfs::pack
