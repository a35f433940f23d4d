// The folders of one source on the devices of nvme.path.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "config/base/result.hpp"
#include "fs/daemon/cache_directory.hpp"
#include "tiering/nvme/nvme_tier.hpp"

namespace tierfs {

/// Plain movable value; for one thread.
class CacheDevices {
  public:
    /// Opens and locks the source's folder on each device of `nvme_path` ("/a:/b"; empty: no device). One
    /// that cannot be opened is left to the tier, which says so; errors: none can be opened, or another mount
    /// has one.
    /// `locks` must outlive this and the places.
    static Result<CacheDevices> open(const std::string& nvme_path, const std::string& identity,
                                     FolderLocks& locks);

    [[nodiscard]] bool empty() const { return devices_.empty(); }

    /// Where the index is: with several devices the one that was used last, wherever its device stands in
    /// nvme.path now; the others know less and are removed. Without any, the first device that is there.
    [[nodiscard]] std::filesystem::path index_folder() const;

    /// Those that are there, of each device. Before `places` has given them away.
    [[nodiscard]] std::vector<std::filesystem::path> folders() const;

    /// For the tier. The locks go with them.
    std::vector<NvmePlace> places();

  private:
    struct Device {
        std::string path;
        std::shared_ptr<LockedFolder> folder;  ///< with an empty path when it could not be opened
        std::string identity;
        FolderLocks* locks;
    };
    std::vector<Device> devices_;
};

/// Whether the file system of a device of `nvme_path` has so little room that an index may not be opened there.
bool is_nearly_full(const std::string& nvme_path);

}  // namespace tierfs
