// Set-user-ID and set-group-ID flags of a request. Pure functions: no state, any thread.
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tierfs {

/// True where the kernel says of a request that its sender has no right to keep these bits (CAP_FSETID): of one
/// that writes, cuts, or opens to cut. libfuse 3.14 does not hand these flags on. False: he has it, or the
/// request has no such flag.
inline bool clears_set_id_bits(std::span<const std::byte> request) {
    fuse_in_header header{};
    if (request.size() < sizeof(header)) return false;
    std::memcpy(&header, request.data(), sizeof(header));
    const auto body = request.subspan(sizeof(header));
    const auto has = [body](std::size_t offset, std::uint32_t flag) {
        std::uint32_t word = 0;
        if (body.size() < offset + sizeof(word)) return false;
        std::memcpy(&word, body.data() + offset, sizeof(word));
        return (word & flag) != 0;
    };
    switch (header.opcode) {
        case FUSE_WRITE:
            return has(offsetof(fuse_write_in, write_flags), FUSE_WRITE_KILL_SUIDGID);
        case FUSE_OPEN:
            return has(offsetof(fuse_open_in, open_flags), FUSE_OPEN_KILL_SUIDGID);
        case FUSE_SETATTR:
            return has(offsetof(fuse_setattr_in, valid), FATTR_KILL_SUIDGID);
        default:
            return false;
    }
}

}  // namespace tierfs
