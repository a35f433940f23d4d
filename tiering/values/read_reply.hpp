// Answers of reads and files as tiers hand them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "tiering/values/buffer.hpp"

namespace tierfs {

/// Bytes of a read, in order, without a copy: `pieces` point into `owners`, which keep them alive.
struct ReadReply {
    std::vector<std::span<const std::byte>> pieces;
    std::vector<BufferPtr> owners;
    /// How many of them StoreStats counted as the tier's; the rest is RAM's.
    std::uint64_t nvme_bytes = 0, origin_bytes = 0;
};

/// A whole object in a file of its own, at its own offsets. While `pin` lives the file is neither evicted nor
/// given to another object; the descriptor (for reading) may be closed earlier.
struct WholeFile {
    FileDescriptor descriptor;
    std::shared_ptr<const void> pin;
};

using ReadCallback = std::function<void(Result<ReadReply>)>;

}  // namespace tierfs
