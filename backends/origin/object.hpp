// Objects: one version of one file each, as fs/ hands it to the store of tiering/ and the store to an origin;
// their content ids and their blocks. The same id means the same bytes in every tier (RAM, NVMe, extents of a
// pack).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tierfs {

/// XXH3-128 (https://github.com/Cyan4973/xxHash) of source, key and version. Tiers know content ids, never
/// names: the same id means the same bytes for as long as a cache lives.
struct ContentId {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    friend bool operator==(const ContentId&, const ContentId&) = default;
    friend auto operator<=>(const ContentId&, const ContentId&) = default;
};

/// Hash of the three, each with its length, so that no two triples run together.
ContentId content_id(std::string_view source, std::string_view key, std::string_view version);

/// 32 lower-case hexadecimal digits.
std::string to_string(const ContentId& id);

/// Remembers which dataset an object was found to belong to; for tiering/policy/datasets.hpp. Thread-safe.
class DatasetMark {
  public:
    DatasetMark() = default;
    DatasetMark(const DatasetMark& other) : value_(other.get()) {}
    DatasetMark& operator=(const DatasetMark& other) {
        set(other.get());
        return *this;
    }
    ~DatasetMark() = default;
    [[nodiscard]] std::uint32_t get() const { return value_.load(std::memory_order_relaxed); }
    void set(std::uint32_t value) { value_.store(value, std::memory_order_relaxed); }

  private:
    std::atomic<std::uint32_t> value_{0};  ///< 0: nobody has looked yet
};

/// One version of one file, as fs/ hands it to the store. Immutable once made; shared by pointer.
struct ObjectRef {
    ContentId content;
    std::string path;     ///< at the origin, relative to its root
    std::string version;  ///< every fetch is pinned to it
    std::uint64_t size = 0;
    bool archived = false;      ///< reads that are not in a tier fail with EACCES at once
    std::int64_t mtime_ns = 0;  ///< since 1970; 0: not known
    mutable DatasetMark dataset = {};
};

/// All tiers keep objects in blocks of this size at multiples of it; an object's last block is short.
inline constexpr std::uint32_t kBlockSize = 64 * 1024;

/// Number of blocks of an object of that many bytes.
constexpr std::uint64_t block_count(std::uint64_t size) {
    return (size + kBlockSize - 1) / kBlockSize;
}

}  // namespace tierfs

template <>
struct std::hash<tierfs::ContentId> {
    std::size_t operator()(const tierfs::ContentId& id) const noexcept {
        return id.low ^ (id.high * 0x9E3779B97F4A7C15U);
    }
};
