// Reads the index of a pack.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/pack/format.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::pack {

/// The index of a pack in a local file, which stays as it is while it is open. Keeps the blocks' first keys
/// in memory (some 60 bytes for 256 names) and the blocks that were used last, decoded (some 5 MiB). Every
/// block is verified when it is read.
///
/// Thread-safe; calls read the file. Errors: ENOENT, ENOTDIR; EIO for a file that cannot be read or is not
/// what the format says, with its path.
class PackIndex {
  public:
    static Result<std::unique_ptr<PackIndex>> open(const std::string& path);

    /// What a path is; "" is the root. ENOENT: it is not in the pack.
    Result<Entry> find(const std::string& path);

    /// The entries of a directory in the order of their names, those behind `after` only (empty: all), until
    /// `each` says false.
    Result<void> list(const std::string& directory, const std::string& after,
                      const std::function<bool(const Entry&)>& each);

    /// How many entries a directory has, give or take 256; reads nothing.
    [[nodiscard]] std::uint64_t about_in(const std::string& directory) const;

    /// All of them, in the order of their keys.
    Result<void> for_each(const std::function<bool(const Entry&)>& each);

    [[nodiscard]] const std::vector<Extent>& extents() const { return extents_; }
    [[nodiscard]] std::uint64_t count() const { return count_; }

  private:
    struct Block {
        std::uint64_t offset = 0, hash = 0;
        std::uint32_t bytes = 0, entries = 0;
        std::string first;
    };
    using Entries = std::shared_ptr<const std::vector<Entry>>;

    PackIndex(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
    Result<void> load();
    bool take_tail(std::string_view tail, std::uint64_t offset);
    Result<std::string> read(std::uint64_t offset, std::uint64_t bytes) const;
    Result<Entries> block(std::size_t number);
    Result<Entries> read_block(const Block& block) const;
    /// The block that a key is in, if it is anywhere.
    [[nodiscard]] std::size_t block_of(const std::string& key) const;
    /// From the first entry whose key is not less than `key`, until `each` says false.
    Result<void> walk(const std::string& key, const std::function<bool(const Entry&)>& each);
    [[nodiscard]] tl::unexpected<Error> damaged(const char* what) const;

    const FileDescriptor file_;
    const std::string path_;
    std::vector<Extent> extents_;
    std::vector<Block> blocks_;
    std::uint64_t count_ = 0;
    Mutex mutex_;
    std::list<std::pair<std::size_t, Entries>> used_ TIERFS_GUARDED_BY(mutex_);  ///< the latest first
    std::unordered_map<std::size_t, decltype(used_)::iterator> kept_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::pack
