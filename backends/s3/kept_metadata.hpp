// Modes, owners, times and symbolic links that writable mounts keep with objects, for mounts that only read.
#pragma once

#include <string>
#include <unordered_set>

#include "backends/origin/origin.hpp"
#include "backends/s3/client/xml.hpp"
#include "backends/s3/readwrite/bucket_calls.hpp"
#include "config/base/mutex.hpp"
#include "config/settings.hpp"

namespace tierfs::s3 {

/// A listing does not tell what is kept with an object (FileMetadata), so that each object costs a HEAD. `auto`
/// asks where there is a sign of it: in directories whose own object keeps a mode, as mkdir makes it, and in the
/// root of a bucket when one of its first objects does. Thread-safe; calls block, and fail for nothing but what
/// they are asked for: an object that cannot be asked stays as the listing has it.
class KeptMetadata {
  public:
    /// `calls` must outlive this.
    KeptMetadata(BucketCalls& calls, std::string when) : calls_(calls), when_(std::move(when)) {}

    [[nodiscard]] bool is_shown() const { return when_ != "never"; }
    static Attributes attributes_of(const Facts& facts);
    /// Of a directory whose own object is there, or may be.
    Attributes of_directory(const std::string& path);
    /// Adds what is kept to a page of a directory, which `listing` is.
    void add(const std::string& path, const std::string& token, const Listing& listing, ListPage& page);
    /// EINVAL: no link.
    Result<std::string> read_link(const std::string& path);

  private:
    bool wants(const std::string& path, const std::string& token, const Listing& listing,
               const ListPage& page);
    bool has_sign(const std::string& path, const Listing& listing, const ListPage& page);

    BucketCalls& calls_;
    const std::string when_;
    Mutex mutex_;
    std::unordered_set<std::string> asked_
        TIERFS_GUARDED_BY(mutex_);  ///< directories, between two of their pages
};

}  // namespace tierfs::s3
