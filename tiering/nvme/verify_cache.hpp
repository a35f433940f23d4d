// Reads all that a cache folder holds and compares it with its checksums: `tierfs verify`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs {

/// Counts of files, of objects or pieces of objects, and bytes of data that were compared.
struct CacheReport {
    std::uint64_t extents = 0, backing_files = 0;
    std::uint64_t objects = 0, bytes = 0;
    std::uint64_t unknown_codecs = 0;  ///< objects whose bytes are right, and of no codec of this version
    struct Bad {
        std::filesystem::path file;
        std::string what;
        bool dropped = false;
    };
    std::vector<Bad> bad;         ///< one for each file; at most kMostNamed
    std::uint64_t bad_files = 0;  ///< all of them
    std::uint64_t dropped_files = 0;
    static constexpr std::size_t kMostNamed = 1000;
};

struct VerifyOptions {
    bool repair = false;  ///< files with anything bad in them are removed; what they held is fetched again
    std::function<void(const CacheReport&)> progress;  ///< called after each file; may be empty
};

/// The folders of sources in a folder that nvme.path names, or `path` itself if it is one of a source.
/// EINVAL: there are none.
Result<std::vector<std::filesystem::path>> find_caches(const std::filesystem::path& path);

/// Verifies the folder of one source: tables and entries of every extent, which are decompressed, sidecars
/// and blocks of every backing file. Needs no index. Holds the lock that the NVMe tier takes, so that nobody
/// mounts with it meanwhile; EBUSY when it is mounted. Other errors: the folder cannot be read.
Result<CacheReport> verify_cache(const std::filesystem::path& folder, const VerifyOptions& options);

}  // namespace tierfs
