// Known sizes of files. fs/metadata fills it, fs/readonly judges by it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tierfs {

/// How many files are known by name, and how many of them are smaller than kSmallFile. Plain value.
struct FileSizes {
    static constexpr std::uint64_t kSmallFile = 1 << 20;
    std::uint64_t files = 0, small = 0;
};

/// Counts files as they become known: found at the origin, or read from the index. One that memory forgot
/// and meets again counts again, which changes the share of small ones little. Thread-safe.
class FileSizeCounter {
  public:
    void add(std::uint64_t size) {
        files_.fetch_add(1, std::memory_order_relaxed);
        if (size < FileSizes::kSmallFile) small_.fetch_add(1, std::memory_order_relaxed);
    }
    [[nodiscard]] FileSizes get() const {
        const auto small = small_.load(std::memory_order_relaxed);
        return {files_.load(std::memory_order_relaxed), small};
    }

  private:
    std::atomic<std::uint64_t> files_{0}, small_{0};
};

}  // namespace tierfs
