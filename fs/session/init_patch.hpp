// The one place where the reply to FUSE_INIT is changed.
//
// libfuse 3.14 writes a reply of its own making and leaves out what it does not know (the second word of
// flags) and one thing that it does know (PARALLEL_DIROPS). The numbers are those of the kernel's
// include/uapi/linux/fuse.h; the header that the system brings may be older than the kernel, so what it lacks
// is defined here. Pure functions: no state, any thread.
#pragma once

#include <linux/fuse.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace tierfs {

inline constexpr std::uint32_t kInitParallelDirops = 1U << 18;
inline constexpr std::uint32_t kInitExt = 1U << 30;
/// FUSE_HANDLE_KILLPRIV_V2 (Linux 5.11): the file system clears set-user-ID and set-group-ID bits and
/// capabilities of a file that is written to, cut or given away. Without it each write asks for the extended
/// attribute security.capability first.
inline constexpr std::uint32_t kInitHandleKillprivV2 = 1U << 28;
/// Bit 39 of the flags: bit 7 of their second word. The kernel then takes FUSE_NOTIFY_RESEND (Linux 6.9).
inline constexpr std::uint32_t kInit2HasResend = 1U << 7;

/// Bit 37: files that the kernel reads by itself (Linux 6.9).
inline constexpr std::uint32_t kInit2Passthrough = 1U << 5;

/// What the kernel said in its FUSE_INIT.
struct InitOffer {
    std::uint64_t unique = 0;
    std::uint32_t flags = 0;
    std::uint32_t flags2 = 0;
};

/// Reads a FUSE_INIT request; empty for any other request and for one that is too short.
inline std::optional<InitOffer> read_init_offer(std::span<const std::byte> request) {
    fuse_in_header header{};
    if (request.size() < sizeof(header)) return std::nullopt;
    std::memcpy(&header, request.data(), sizeof(header));
    if (header.opcode != FUSE_INIT) return std::nullopt;
    const auto body = request.subspan(sizeof(header));
    std::array<std::uint32_t, 5> words{};  // major, minor, max_readahead, flags, flags2
    if (body.size() < 4 * sizeof(std::uint32_t)) return std::nullopt;
    std::memcpy(words.data(), body.data(), body.size() < sizeof(words) ? body.size() / 4 * 4 : sizeof(words));
    InitOffer offer{header.unique, words[3], 0};
    if ((offer.flags & kInitExt) != 0) offer.flags2 = words[4];
    return offer;
}

inline bool offers_passthrough(const InitOffer& offer) {
    return (offer.flags & kInitExt) != 0 && (offer.flags2 & kInit2Passthrough) != 0;
}

/// Adds to a reply what the kernel offered and libfuse left out. `stack_depth`: of the files that are to be
/// passed through (BackingIds); 0: none are. `wanted`: further flags. A reply of another size than that of
/// protocol 7.23 and later is left alone.
inline bool patch_init_reply(std::span<std::byte> reply, const InitOffer& offer, std::uint32_t stack_depth,
                             std::uint32_t wanted = 0) {
    fuse_init_out out{};
    if (reply.size() != sizeof(out)) return false;
    std::memcpy(&out, reply.data(), sizeof(out));
    out.flags |= offer.flags & (kInitParallelDirops | kInitExt | wanted);
    if ((offer.flags & kInitExt) != 0) out.flags2 |= offer.flags2 & kInit2HasResend;
    if (stack_depth != 0 && offers_passthrough(offer)) {
        out.flags2 |= kInit2Passthrough;
        out.unused[0] = stack_depth;  // max_stack_depth in newer headers
    }
    std::memcpy(reply.data(), &out, sizeof(out));
    return true;
}

}  // namespace tierfs
