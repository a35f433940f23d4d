// Directories in the order of their names.
#pragma once

#include <atomic>
#include <list>
#include <span>
#include <vector>

#include "backends/nfs/resolver.hpp"

namespace tierfs::nfs {

/// Servers give names in an order of their own, so that a page can only be cut from the whole directory,
/// sorted. A directory that is being listed is kept between two pages of it; of those that nobody comes back
/// for the oldest go, and memory stays within `most_bytes` but for the one that is being read. Handles of all
/// names go into the cache. Thread-safe; blocks for at most `deadline` for each request to the server.
///
/// READDIRPLUS is optional (RFC 1813, 3.3.17): from a server or an export without it (NFS3ERR_NOTSUPP) names
/// come by READDIR, and what they lead to by a LOOKUP each, many at a time.
class Lister {
  public:
    Lister(Client& client, Resolver& resolver, HandleCache& handles, std::size_t most_bytes,
           std::chrono::milliseconds deadline)
        : client_(client),
          resolver_(resolver),
          handles_(handles),
          most_bytes_(most_bytes),
          deadline_(deadline) {}

    /// See Origin::list. EFBIG: the directory alone would take more than the memory that listings have.
    Result<ListPage> list(const std::string& path, const std::string& token);

  private:
    struct Name {
        std::string name;
        FileAttributes3 file;
    };
    struct Listing {
        std::string path, token;
        std::vector<Name> names;
        std::map<std::string, std::uint64_t> hidden;
        std::size_t position = 0, bytes = 0;
    };

    std::optional<Listing> take(const std::string& path, const std::string& token);
    void keep(Listing listing);
    Result<Listing> read(const std::string& path);
    Result<Listing> read_once(const std::string& path, const Handle& directory);
    Result<ReaddirplusReply> read_page(const std::string& path, const Handle& directory, std::uint64_t cookie,
                                       const std::string& verifier);
    /// What the names lead to whose attributes the server has left out; ENOENT for those that are gone.
    std::vector<Result<Found>> look_up(const Listing& listing, std::span<const DirectoryEntry3> entries);
    Result<void> add_all(Listing& listing, std::vector<DirectoryEntry3> entries);
    Result<void> add(Listing& listing, DirectoryEntry3 entry, const Result<Found>& found);
    [[nodiscard]] Clock::time_point deadline() const { return Clock::now() + deadline_; }

    Client& client_;
    Resolver& resolver_;
    HandleCache& handles_;
    const std::size_t most_bytes_;
    const std::chrono::milliseconds deadline_;
    std::atomic<bool> names_alone_ = false;  ///< the server has no READDIRPLUS
    Mutex mutex_;
    std::list<Listing> kept_ TIERFS_GUARDED_BY(mutex_);  ///< the latest first
};

}  // namespace tierfs::nfs
