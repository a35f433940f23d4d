#include "fs/daemon/cache_devices.hpp"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "config/base/log.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

/// RocksDB writes this file whenever it opens a database.
std::optional<fs::file_time_type> last_used(const fs::path& index) {
    std::error_code error;
    const auto time = fs::last_write_time(index / "CURRENT", error);
    return error ? std::nullopt : std::optional(time);
}

}  // namespace

Result<CacheDevices> CacheDevices::open(const std::string& nvme_path, const std::string& identity,
                                        FolderLocks& locks) {
    CacheDevices devices;
    std::optional<Error> first;
    bool any = nvme_path.empty();
    for (const std::string& path : split_paths(nvme_path)) {
        auto folder = LockedFolder::open(path, identity, "nvme.path", locks);
        if (!folder && folder.error().code == EBUSY) return fail(folder.error());
        if (!folder && !first) first = folder.error();
        any = any || folder.has_value();
        auto held = std::make_shared<LockedFolder>();
        if (folder) *held = std::move(*folder);
        devices.devices_.push_back({path, std::move(held), identity, &locks});
    }
    if (!any) return fail(*first);
    return devices;
}

fs::path CacheDevices::index_folder() const {
    const Device* chosen = nullptr;
    std::optional<fs::file_time_type> newest;
    for (const Device& device : devices_) {
        if (device.folder->path.empty()) continue;
        const auto time = last_used(device.folder->path / "index");
        if (chosen != nullptr && (!time || (newest && *time <= *newest))) continue;
        chosen = &device;
        newest = time;
    }
    if (chosen == nullptr) return {};
    for (const Device& device : devices_) {
        if (&device == chosen || device.folder->path.empty()) continue;
        std::error_code error;
        if (fs::remove_all(device.folder->path / "index", error) > 0 && !error)
            log::info("an index on " + device.path + " is older than the one on " + chosen->path +
                      ", and was removed");
    }
    return chosen->folder->path;
}

std::vector<fs::path> CacheDevices::folders() const {
    std::vector<fs::path> all;
    for (const Device& device : devices_) {
        if (!device.folder->path.empty()) all.push_back(device.folder->path);
    }
    return all;
}

std::vector<NvmePlace> CacheDevices::places() {
    std::vector<NvmePlace> places;
    for (const Device& device : devices_) {
        places.push_back({device.path, [device]() -> Result<NvmeFolder> {
                              LockedFolder folder = std::exchange(*device.folder, {});
                              if (folder.path.empty()) {
                                  auto opened = LockedFolder::open(device.path, device.identity, "nvme.path",
                                                                   *device.locks);
                                  if (!opened) return fail(opened.error());
                                  folder = std::move(*opened);
                              }
                              return NvmeFolder{std::move(folder.path), std::move(folder.lock)};
                          }});
    }
    return places;
}

bool is_nearly_full(const std::string& nvme_path) {
    constexpr std::uint64_t kLittle = 256 << 20;
    const auto paths = split_paths(nvme_path);
    return std::any_of(paths.begin(), paths.end(), [](const std::string& path) {
        std::error_code error;
        auto space = fs::space(path, error);
        if (error) space = fs::space(fs::path(path).parent_path(), error);  // it is still to be made
        return !error && space.available < kLittle;
    });
}

}  // namespace tierfs
