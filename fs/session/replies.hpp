// Replies that libfuse 3.14 cannot make: those that carry the number of a file which the kernel reads and
// writes by itself (backing_ids.hpp). Pure functions: no state, any thread.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tierfs {

// FOPEN_*: of the kernel's include/uapi/linux/fuse.h, which may be newer than the system's.
inline constexpr std::uint32_t kOpenDirectIo = 1U << 0;
inline constexpr std::uint32_t kOpenKeepsCache = 1U << 1;
inline constexpr std::uint32_t kOpenNoFlush = 1U << 5;
/// With none of the others but kOpenNoFlush and kOpenDirectIo.
inline constexpr std::uint32_t kOpenPassthrough = 1U << 7;

/// The reply to OPEN: struct fuse_open_out of the kernel, whose last word older headers call padding.
struct OpenReply {
    std::uint64_t handle = 0;
    std::uint32_t flags = 0;  ///< kOpen*
    std::int32_t backing_id = 0;
};
static_assert(sizeof(OpenReply) == sizeof(fuse_open_out));

/// The reply to CREATE: an entry and an open, as the kernel reads them.
using CreatedReply = std::array<char, sizeof(fuse_entry_out) + sizeof(OpenReply)>;
CreatedReply created_reply(const fuse_entry_param& entry, const OpenReply& open);

}  // namespace tierfs
