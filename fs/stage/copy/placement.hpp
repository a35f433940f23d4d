// Placement: the device that a file goes to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::stage {

/// What stays free on each file system: bytes, or a share of its size.
struct KeepFree {
    std::uint64_t bytes = 0;
    double percent = 5;
    bool is_share = true;
    [[nodiscard]] std::uint64_t of(std::uint64_t total) const;
};

/// "5%", "0", "200G". EINVAL.
Result<KeepFree> parse_keep_free(const std::string& text);

/// Places whole files, largest first is best: each goes where most is free after what was placed before,
/// among the devices at the wanted NUMA node if one of them has room, else among all. Not thread-safe.
class Placement {
  public:
    struct Device {
        std::string id;          ///< of the file system: folders of one share its space
        std::uint64_t room = 0;  ///< bytes that may be used
        bool is_near = true;     ///< at the wanted NUMA node
    };

    /// One device a destination, in their order.
    explicit Placement(const std::vector<Device>& devices);

    /// The destination, and its room is taken; nothing: no device has room for it.
    std::optional<std::size_t> place(std::uint64_t size);

    /// Takes room on a destination: for a file whose place is given.
    bool take(std::size_t destination, std::uint64_t size);

    [[nodiscard]] std::uint64_t room_of(std::size_t destination) const;

    /// What a file of this size takes: whole blocks, and something for its inode and extents.
    static std::uint64_t cost_of(std::uint64_t size);

  private:
    struct Pool {
        std::string id;
        std::uint64_t room;
    };
    std::vector<Pool> pools_;
    std::vector<std::size_t> pool_of_;
    std::vector<bool> near_;
    std::vector<std::uint64_t> placed_;  ///< bytes by destination, so that folders of one device share evenly
};

/// NUMA node of the device with this "MAJOR:MINOR", from `sysfs`/dev/block; -1: not known. Partitions and
/// devices stacked on others are followed down to the first with a node.
int numa_node_of(const std::string& device, const std::string& sysfs = "/sys");

}  // namespace tierfs::stage
