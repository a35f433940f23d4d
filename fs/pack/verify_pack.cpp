#include "fs/pack/verify_pack.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "backends/extent/codec.hpp"
#include "backends/pack/fetch_index.hpp"
#include "backends/pack/index.hpp"
#include "backends/pack/reading.hpp"
#include "fs/pack/publish.hpp"

namespace tierfs::pack {

namespace {

constexpr std::size_t kPart = 8 << 20;
/// No extent of a sound pack is nearly as long.
constexpr std::uint64_t kLongestExtent = 1 << 30;

class Verifier {
  public:
    Verifier(Origin& dest, PackIndex& index, PackReport& report,
             const std::function<void(const PackReport&)>& tell)
        : dest_(dest), index_(index), report_(report), tell_(tell) {}

    Result<void> run() {
        const auto in_order = is_in_order();
        if (!in_order) return fail(in_order.error());
        // By extent, of a pack whose files have an order of their own.
        std::map<std::uint32_t, std::vector<Entry>> others;
        auto walked = index_.for_each([&](const Entry& entry) {
            if (entry.place && *in_order) take(entry);
            if (entry.place && !*in_order) others[entry.place->extent].push_back(entry);
            return true;
        });
        if (!walked) return walked;
        for (const auto& [extent, entries] : others)
            for (const auto& entry : entries) take(entry);
        return {};
    }

  private:
    /// Whether the entries, as they stand in the index, need each extent once.
    Result<bool> is_in_order() {
        std::uint32_t last = 0;
        bool ascending = true;
        auto walked = index_.for_each([&](const Entry& entry) {
            if (!entry.place) return true;
            ascending = entry.place->extent >= last;
            last = entry.place->extent;
            return ascending;
        });
        if (!walked) return fail(walked.error());
        return ascending;
    }

    void take(const Entry& entry) {
        if (loaded_ != entry.place->extent) {
            load(entry.place->extent);
            loaded_ = entry.place->extent;
            tell_(report_);
        }
        check(entry);
    }

    void bad(const std::string& file, const std::string& what) {
        ++report_.bad;
        if (report_.first_bad.size() < kMostBad) report_.first_bad.push_back({file, what});
    }

    /// `bytes_` is empty when it cannot be read.
    void load(std::uint32_t number) {
        const Extent& extent = index_.extents()[number];
        entries_.clear();
        bytes_.clear();
        ++report_.extents;
        if (extent.bytes > kLongestExtent) return bad(extent.path(), "it cannot be so long");
        bytes_.resize(extent.bytes);
        Reads reads(dest_);
        for (std::size_t at = 0; at < bytes_.size(); at += kPart)
            reads.start(extent.path(), {}, at,
                        std::span(bytes_).subspan(at, std::min(kPart, bytes_.size() - at)));
        if (auto read = reads.wait(); !read) {
            bytes_.clear();
            return bad(extent.path(), read.error().message);
        }
        report_.bytes += bytes_.size();
        std::uint32_t chunk = 0;
        for (std::uint64_t at = 0; at < bytes_.size(); ++chunk) {
            const auto table = parse_chunk_table(std::span(bytes_).subspan(at), extent.uuid, at);
            if (!table || table->chunk != chunk)
                return bad(extent.path(), "the table of chunk " + std::to_string(chunk) + " is damaged");
            for (const auto& entry : table->entries) entries_[table->data_offset() + entry.offset] = entry;
            at = table->end();
        }
    }

    void check(const Entry& entry) {
        ++report_.files;
        const auto what = problem_of(entry);
        if (!what.empty()) bad(entry.path(), what);
    }

    [[nodiscard]] std::string problem_of(const Entry& entry) const {
        const Place& place = *entry.place;
        if (bytes_.empty()) return "its extent cannot be read";
        if (place.offset > bytes_.size() || place.stored > bytes_.size() - place.offset)
            return "it is outside its extent";
        const auto id = content_id(report_.manifest.source, entry.path(), entry.attributes.version);
        const auto known = entries_.find(place.offset);
        if (known == entries_.end() || known->second.id != id || known->second.sums != place.sums)
            return "its extent's table says something else than the index";
        const auto stored = std::span<const std::byte>(bytes_).subspan(place.offset, place.stored);
        for (std::size_t unit = 0; unit < place.sums.size(); ++unit) {
            const auto at = unit * kExtentUnit;
            const auto part = stored.subspan(at, std::min<std::size_t>(kExtentUnit, stored.size() - at));
            if (unit_checksum(id, unit, kExtentUnit, part) != place.sums[unit])
                return "its bytes have another checksum";
        }
        if (place.codec == Codec::none) return {};
        std::vector<std::byte> whole(entry.attributes.size);
        return decompress(place.codec, stored, whole) ? "" : "it cannot be decompressed";
    }

    Origin& dest_;
    PackIndex& index_;
    PackReport& report_;
    const std::function<void(const PackReport&)>& tell_;
    std::optional<std::uint32_t> loaded_;  ///< extent
    std::vector<std::byte> bytes_;
    std::unordered_map<std::uint64_t, ChunkEntry> entries_;  ///< by offset
};

}  // namespace

Result<PackReport> verify_pack(Origin& dest, const std::function<void(const PackReport&)>& tell) {
    PackReport report;
    auto manifest = read_manifest(dest);
    if (!manifest) return fail(manifest.error());
    report.manifest = std::move(*manifest);
    auto index = read_index(dest, report.manifest);
    if (!index) return fail(index.error());
    if (auto verified = Verifier(dest, **index, report, tell).run(); !verified) return fail(verified.error());
    return report;
}

}  // namespace tierfs::pack
