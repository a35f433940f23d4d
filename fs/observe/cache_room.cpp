#include "fs/observe/cache_room.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "config/base/units.hpp"

namespace tierfs {

CacheRoom look_at_cache_room(const std::string& path, std::uint64_t limit, std::uint64_t used) {
    CacheRoom room{path, limit, used, 0, false, false};
    struct statvfs space {};
    struct stat folder {
    }, root{};
    if (::statvfs(path.c_str(), &space) != 0 || ::stat(path.c_str(), &folder) != 0 || ::stat("/", &root) != 0)
        return room;
    room.available = std::uint64_t{space.f_bavail} * space.f_frsize;
    room.is_on_root = folder.st_dev == root.st_dev;
    room.is_known = true;
    return room;
}

bool is_short_of_room(const CacheRoom& room) {
    constexpr std::uint64_t kSlack = 20;  // a part of so many
    return room.is_known && room.used + room.available < room.limit - room.limit / kSlack;
}

std::vector<std::string> remarks_about(const std::vector<CacheRoom>& rooms, std::uint64_t pin_limit) {
    std::vector<std::string> remarks;
    std::uint64_t limit = 0;
    for (const CacheRoom& room : rooms) {
        limit += room.limit;
        if (is_short_of_room(room))
            remarks.push_back("nvme.path " + room.path + ": the tier may take " + format_size(room.limit) +
                              " there, and its file system has room for " +
                              format_size(room.used + room.available) +
                              ": the tier will hold that at most; lower nvme.limit or make room");
        if (room.is_on_root && room.used + room.available < 2 * room.limit)
            remarks.push_back(
                "nvme.path " + room.path +
                " lies on the root file system: what fills that stops the host; give the tier a device "
                "of its own, or set nvme.keep_free");
    }
    if (!rooms.empty() && pin_limit > limit)
        remarks.push_back("pin.limit is " + format_size(pin_limit) + ", and the NVMe tier holds " +
                          format_size(limit) + " at most: pins beyond that are refused room");
    return remarks;
}

}  // namespace tierfs
