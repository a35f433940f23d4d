// The files of a directory or a tree in their storage order, as the origin lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/origin/origin.hpp"
#include "config/base/result.hpp"
#include "tiering/prefetch/recent_listings.hpp"

namespace tierfs {

/// One file of a listing; what is needed to read it.
struct ListedFile {
    std::string path;  ///< relative to the origin's root
    std::string version;
    std::uint64_t size = 0;
    bool fetchable = false;     ///< has bytes, and is not archived
    std::int64_t mtime_ns = 0;  ///< since 1970; 0: not known
};

/// Folder that a path lies in; "" for those at the root.
inline std::string_view folder_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

/// What a store reads `file` by.
std::shared_ptr<const ObjectRef> object_of(const std::string& identity, const ListedFile& file);

/// Lists a directory's files, in the byte order of their names, then its subdirectories the same way, one
/// page of the origin's at a time. A directory that vanished is left out. For one thread; `origin`, or
/// `listings`, must outlive it.
class FileWalk {
  public:
    enum class Below : std::uint8_t { with, without };  ///< subdirectories

    /// As the origin is now.
    FileWalk(Origin& origin, std::string root, Below below)
        : origin_(origin), below_(below), folders_{std::move(root)} {}
    /// As it was lately.
    FileWalk(RecentListings& listings, std::string root, Below below)
        : origin_(listings.origin()), recent_(&listings), below_(below), folders_{std::move(root)} {}

    /// Appends the next page's files (perhaps none). Blocks for the origin. Errors: those of Origin::list.
    Result<void> next(std::vector<ListedFile>& files);
    /// All was listed.
    [[nodiscard]] bool over() const { return folders_.empty(); }

  private:
    void end_folder();

    Origin& origin_;
    RecentListings* const recent_ = nullptr;
    const Below below_;
    std::vector<std::string> folders_;  ///< still to list, the last one first
    std::vector<std::string> found_;    ///< subdirectories of the one that is being listed
    std::string token_;
};

}  // namespace tierfs
