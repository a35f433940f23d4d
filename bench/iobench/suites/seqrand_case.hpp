// The cases of the suite seqrand: every combination of what its options name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

enum class Order { sequential, random };

/// buffered: through the page cache; direct: O_DIRECT; mmap: the file is mapped and each block copied out.
enum class Mode { buffered, direct, mmap };

enum class Engine { pread, iouring };

/// One way of reading. A plain value.
struct ReadCase {
    Order order = Order::sequential;
    std::uint64_t block = 0;  ///< bytes
    Mode mode = Mode::buffered;
    Engine engine = Engine::pread;  ///< without meaning with mmap
    unsigned depth = 1;             ///< reads in flight of each reader; 1 but with io_uring
    unsigned threads = 1;           ///< readers at the same time

    /// "randread-4k-direct-iouring-qd8", "read-1m-buffered-pread-t4", "read-64k-mmap".
    [[nodiscard]] std::string name() const;
};

/// What the options --orders, --block-sizes, --modes, --engines, --depths and --threads say.
struct Matrix {
    std::vector<std::string> orders = {"read", "randread"};
    std::vector<std::uint64_t> blocks = {4 << 10, 64 << 10, 1 << 20};
    std::vector<std::string> modes = {"buffered"};
    std::vector<std::string> engines = {"pread"};
    std::vector<unsigned> depths = {8};
    std::vector<unsigned> threads = {1};
};

inline constexpr std::uint64_t kLeastBlock = 512, kMostBlock = 64 << 20;
inline constexpr unsigned kMostDepth = 4096, kMostThreads = 1024;

/// Every combination that there is, each once, in the order of the lists: pread has no depth, mmap no engine.
/// EINVAL for an unknown word or a number out of range, and for more than 64 GiB of buffers in one case.
Result<std::vector<ReadCase>> cases_of(const Matrix& matrix);

}  // namespace tierfs::iobench
