#include "fs/stage/copy/placement.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>

#include "config/base/aligned_buffer.hpp"
#include "config/base/units.hpp"

namespace tierfs::stage {

namespace {

constexpr double kPercent = 100;

int read_number(const std::filesystem::path& path) {
    std::ifstream file(path);
    int number = -1;
    file >> number;
    return file ? number : -1;
}

/// From the device's folder upwards: a controller or a bus knows the node.
int node_above(std::filesystem::path folder, const std::filesystem::path& top) {
    for (; folder != top && folder.has_relative_path(); folder = folder.parent_path())
        if (const int node = read_number(folder / "numa_node"); node >= 0) return node;
    return -1;
}

}  // namespace

std::uint64_t KeepFree::of(std::uint64_t total) const {
    return is_share ? static_cast<std::uint64_t>(static_cast<double>(total) * percent / kPercent) : bytes;
}

Result<KeepFree> parse_keep_free(const std::string& text) {
    KeepFree keep;
    if (text.ends_with('%')) {
        const char* const end = text.data() + text.size() - 1;
        const auto read = std::from_chars(text.data(), end, keep.percent);
        if (read.ec == std::errc() && read.ptr == end && keep.percent >= 0 && keep.percent < kPercent)
            return keep;
        return fail(EINVAL, "a share to keep free is 0% to 99%; found '" + text + "'");
    }
    auto bytes = parse_size(text);
    if (!bytes) return fail(bytes.error());
    return KeepFree{*bytes, 0, false};
}

Placement::Placement(const std::vector<Device>& devices) : placed_(devices.size()) {
    bool any_near = false;
    for (const auto& device : devices) {
        std::size_t pool = 0;
        while (pool < pools_.size() && pools_[pool].id != device.id) ++pool;
        if (pool == pools_.size()) pools_.push_back({device.id, device.room});
        pool_of_.push_back(pool);
        near_.push_back(device.is_near);
        any_near = any_near || device.is_near;
    }
    if (!any_near) near_.assign(near_.size(), true);
}

std::uint64_t Placement::cost_of(std::uint64_t size) {
    constexpr std::uint64_t kInodeAndName = 1024;
    return align_up(size) + kInodeAndName;
}

std::optional<std::size_t> Placement::place(std::uint64_t size) {
    std::optional<std::size_t> best;
    for (const bool only_near : {true, false}) {
        for (std::size_t i = 0; i < pool_of_.size(); ++i) {
            if ((only_near && !near_[i]) || room_of(i) < cost_of(size)) continue;
            const bool better = !best || room_of(i) > room_of(*best) ||
                                (pool_of_[i] == pool_of_[*best] && placed_[i] < placed_[*best]);
            if (better) best = i;
        }
        if (best) break;
    }
    if (best) take(*best, size);
    return best;
}

bool Placement::take(std::size_t destination, std::uint64_t size) {
    std::uint64_t& room = pools_[pool_of_[destination]].room;
    if (room < cost_of(size)) return false;
    room -= cost_of(size);
    placed_[destination] += size;
    return true;
}

std::uint64_t Placement::room_of(std::size_t destination) const {
    return pools_[pool_of_[destination]].room;
}

int numa_node_of(const std::string& device, const std::string& sysfs) {
    std::error_code error;
    const std::filesystem::path top = std::filesystem::canonical(sysfs, error);
    const auto folder = std::filesystem::canonical(top / "dev/block" / device, error);
    if (error) return -1;
    if (const int node = node_above(folder, top); node >= 0) return node;
    for (const auto& below : std::filesystem::directory_iterator(folder / "slaves", error)) {
        const auto lower = std::filesystem::canonical(below.path(), error);
        if (error) continue;
        if (const int node = node_above(lower, top); node >= 0) return node;
    }
    return -1;
}

}  // namespace tierfs::stage
