// floor: fs
// Bytes of the kernel's: FUSE_INIT's request, the reply that is patched, access control lists. Input: the
// bytes.
#include <algorithm>
#include <vector>

#include "backends/dir/acl.hpp"
#include "fs/session/init_patch.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto bytes = std::as_bytes(std::span(data, size));
    if (const auto group = owning_group_permissions(bytes))
        fuzz::require(*group <= 7, "permissions are three bits");
    const auto offer = read_init_offer(bytes);
    if (!offer) return 0;
    fuzz::require(offer->flags2 == 0 || (offer->flags & kInitExt) != 0,
                  "a second word of flags is announced");
    fuse_init_out before{};
    const auto tail = bytes.last(std::min(bytes.size(), sizeof before));
    std::memcpy(&before, tail.data(), tail.size());
    std::array<std::byte, sizeof before> reply{};
    std::memcpy(reply.data(), &before, sizeof before);
    const std::uint32_t depth = size % 3;
    fuzz::require(patch_init_reply(reply, *offer, depth), "a reply of the right size is patched");
    fuse_init_out after{};
    std::memcpy(&after, reply.data(), sizeof after);
    fuzz::require((after.flags & ~before.flags & ~offer->flags) == 0,
                  "nothing is added that was not offered");
    fuzz::require((after.flags & before.flags) == before.flags, "nothing is taken away");
    fuzz::require((after.flags2 & ~before.flags2 & ~offer->flags2) == 0, "nor in the second word");
    const bool deeper = depth != 0 && offers_passthrough(*offer);
    fuzz::require(after.unused[0] == (deeper ? depth : before.unused[0]),
                  "a depth stands where it was offered");
    after.unused[0] = before.unused[0];
    after.flags = before.flags;
    after.flags2 = before.flags2;
    fuzz::require(std::memcmp(&after, &before, sizeof after) == 0, "and nothing else changes");
    return 0;
}
