#include "fs/session/set_id.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tierfs {
namespace set_id_test {

template <typename Body>
std::vector<std::byte> request(std::uint32_t opcode, const Body& body) {
    fuse_in_header header{};
    header.opcode = opcode;
    std::vector<std::byte> bytes(sizeof(header) + sizeof(body));
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &body, sizeof(body));
    return bytes;
}

TEST(SetId, WhatTheKernelSays) {
    fuse_write_in write{};
    EXPECT_FALSE(clears_set_id_bits(request(FUSE_WRITE, write)));
    write.write_flags = FUSE_WRITE_KILL_SUIDGID;
    EXPECT_TRUE(clears_set_id_bits(request(FUSE_WRITE, write)));
    EXPECT_FALSE(clears_set_id_bits(request(FUSE_READ, write)));
    fuse_open_in open{};
    open.open_flags = FUSE_OPEN_KILL_SUIDGID;
    EXPECT_TRUE(clears_set_id_bits(request(FUSE_OPEN, open)));
    fuse_setattr_in attributes{};
    attributes.valid = FATTR_SIZE | FATTR_KILL_SUIDGID;
    EXPECT_TRUE(clears_set_id_bits(request(FUSE_SETATTR, attributes)));
    attributes.valid = FATTR_SIZE;
    EXPECT_FALSE(clears_set_id_bits(request(FUSE_SETATTR, attributes)));
}

TEST(SetId, WhatIsTooShortSaysNothing) {
    fuse_write_in write{};
    write.write_flags = FUSE_WRITE_KILL_SUIDGID;
    const auto whole = request(FUSE_WRITE, write);
    for (std::size_t size = 0; size < sizeof(fuse_in_header) + offsetof(fuse_write_in, write_flags) + 4;
         ++size)
        EXPECT_FALSE(clears_set_id_bits(std::span(whole).first(size))) << size;
}

}  // namespace set_id_test
}  // namespace tierfs
