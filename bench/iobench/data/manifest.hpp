// The manifest of a dataset: what each file holds, to check a copy or a mount of it against.
//
// Text, one line a file behind a first line that names the format: XXH3-128 (32 hexadecimal digits, canonical
// byte order), size in bytes, path relative to the dataset, divided by tabs, sorted by path.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

struct ManifestEntry {
    std::string path;  ///< relative to the dataset; no tab, no newline
    std::uint64_t size = 0;
    std::string hash;

    bool operator==(const ManifestEntry&) const = default;
};

using Manifest = std::vector<ManifestEntry>;

/// XXH3-128 of bytes that come piece by piece.
class Hasher {
  public:
    Hasher();
    void add(std::span<const std::byte> bytes);
    [[nodiscard]] std::string hex() const;

  private:
    struct Free {
        void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, Free> state_;
};

std::string hash_of(std::span<const std::byte> bytes);

/// Whether a path that a file names (manifest, index) would lead out of the dataset, or is none.
bool leaves_dataset(const std::string& path);

/// Sorts by path and replaces the file as a whole.
Result<void> write_manifest(const std::string& path, Manifest entries);

/// EINVAL with file and line for what is no manifest; paths that would leave the dataset are refused.
Result<Manifest> read_manifest(const std::string& path);

/// What verify found wrong with one file.
struct Mismatch {
    std::string path, what;
};

/// Reads each file of the manifest below `directory`; `done` hears of the bytes read so far. Files that the
/// manifest does not name are mismatches too. Fails only when nothing could be checked.
Result<std::vector<Mismatch>> verify(const std::string& directory, const Manifest& manifest,
                                     const std::function<void(std::uint64_t)>& done);

}  // namespace tierfs::iobench
