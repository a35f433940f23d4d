#include "fs/pack/index_parts.hpp"

#include "backends/pack/index_writer.hpp"

namespace tierfs::pack {

namespace {

constexpr std::string_view kPrefix = "part-";

}  // namespace

Result<ContentId> digest_of_plan(const std::vector<Entry>& entries, const std::vector<PlannedExtent>& plan) {
    IndexWriter writer;
    for (const auto& entry : entries)
        if (auto added = writer.add(entry); !added) return fail(added.error());
    std::vector<Extent> extents;
    extents.reserve(plan.size());
    for (const auto& extent : plan) extents.push_back({extent.uuid, 0});
    return hash128(writer.finish(extents));
}

std::string part_name(const ContentId& plan, const Share& shard) {
    return std::string(kPrefix) + to_string(plan) + "-" + std::to_string(shard.index) + "-" +
           std::to_string(shard.count);
}

bool is_part_name(std::string_view name) {
    constexpr std::size_t kDigits = 32;
    return name.starts_with(kPrefix) && name.size() > kPrefix.size() + kDigits &&
           name.find_first_not_of("0123456789abcdef-", kPrefix.size()) == std::string_view::npos;
}

Result<std::string> encode_part(const std::vector<Entry>& entries, const std::vector<Extent>& extents,
                                const Share& shard) {
    IndexWriter writer;
    for (const auto& entry : entries) {
        if (!entry.place || !is_of_shard(shard, entry.place->extent)) continue;
        Entry mine = entry;
        mine.place->extent /= static_cast<std::uint32_t>(shard.count);
        if (auto added = writer.add(std::move(mine)); !added) return fail(added.error());
    }
    std::vector<Extent> mine;
    for (std::size_t i = shard.index; i < extents.size(); i += shard.count) mine.push_back(extents[i]);
    return writer.finish(mine);
}

}  // namespace tierfs::pack
