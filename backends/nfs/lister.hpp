// Directories in the order of their names.
#pragma once

#include <atomic>
#include <list>
#include <span>
#include <vector>

#include "backends/nfs/resolver.hpp"
#include "backends/origin/sorted_window.hpp"

namespace tierfs::nfs {

/// Servers give names in an order of their own, so that a page can only be cut from the whole directory,
/// sorted; one that takes more than `most_bytes` is read once for each stretch of its names (SortedWindow). A
/// stretch that is being listed is kept between two pages of it; of those that nobody comes back for the oldest go,
/// and memory stays within `most_bytes` but for those that are being read. Handles of all names go into the
/// cache. Thread-safe; blocks for at most `deadline` for each request to the server.
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

    /// See Origin::list. EFBIG: a directory without end.
    Result<ListPage> list(const std::string& path, const std::string& token);

  private:
    struct Name {
        std::string name;
        FileAttributes3 file;
    };
    struct Listing {
        std::string path, token;
        SortedWindow<Name>::Stretch stretch;
        std::map<std::string, std::uint64_t> hidden;
        std::size_t position = 0;
        Clock::time_point asked;  ///< what is oldest of it
    };
    /// While a stretch is read.
    struct Reading {
        const std::string& path;
        SortedWindow<Name> names;
        std::map<std::string, std::uint64_t> hidden;
    };

    std::optional<Listing> take(const std::string& path, const std::string& token);
    void keep(Listing listing);
    /// The names behind `after`.
    Result<Listing> read(const std::string& path, const std::string& after);
    Result<Listing> read_once(const std::string& path, const Handle& directory, const std::string& after);
    Result<ReaddirplusReply> read_page(const std::string& path, const Handle& directory, std::uint64_t cookie,
                                       const std::string& verifier);
    /// What the names lead to whose attributes the server has left out; ENOENT for those that are gone.
    static bool must_be_asked(const Reading& reading, const DirectoryEntry3& entry);
    std::vector<Result<Found>> look_up(const Reading& reading, std::span<const DirectoryEntry3> entries);
    Result<void> add_all(Reading& reading, std::vector<DirectoryEntry3> entries);
    Result<void> add(Reading& reading, DirectoryEntry3 entry, const Result<Found>& found);
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
