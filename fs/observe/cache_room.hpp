// The room that a cache has: what its file system could give it, beside what it may take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tierfs {

/// Of one device of the tier; bytes.
struct CacheRoom {
    std::string path;             ///< of nvme.path
    std::uint64_t limit = 0;      ///< what it may take
    std::uint64_t used = 0;       ///< what it has taken
    std::uint64_t available = 0;  ///< free on its file system
    bool is_known = false;        ///< of `available` and `is_on_root`
    bool is_on_root = false;      ///< the file system is that of /
};

/// Asks the file system, which may hang with its device.
CacheRoom look_at_cache_room(const std::string& path, std::uint64_t limit, std::uint64_t used);

/// Whether the file system has less room than the tier may take, by more than some files of others.
bool is_short_of_room(const CacheRoom& room);

/// What whoever mounts should know, a sentence each: less room than it may take; a root file system half of which it may take;
/// a pin.limit (0: by the tiers) beyond the tier.
std::vector<std::string> remarks_about(const std::vector<CacheRoom>& rooms, std::uint64_t pin_limit);

}  // namespace tierfs
