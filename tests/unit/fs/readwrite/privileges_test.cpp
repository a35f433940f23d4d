#include "fs/readwrite/privileges.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tierfs {
namespace privileges_test {

TEST(Privileges, WhatAChangeLeavesOfAMode) {
    const auto left = [](mode_t mode, bool is_in_group) {
        return mode_after_change(S_IFREG | mode, is_in_group) & 07777U;
    };
    EXPECT_EQ(left(04755, true), 0755U);
    EXPECT_EQ(left(06755, true), 0755U) << "the group may execute it";
    EXPECT_EQ(left(02745, true), 02745U) << "the bit means something else there";
    EXPECT_EQ(left(02745, false), 0745U);
    EXPECT_EQ(left(06745, true), 02745U);
    EXPECT_EQ(left(01644, false), 01644U);
    EXPECT_EQ(mode_after_change(S_IFDIR | 02755U, false), S_IFDIR | 02755U)
        << "a directory hands its group down";
}

TEST(Privileges, NobodyIsInAGroupThatIsNotKnown) {
    EXPECT_TRUE(may_have_group_bit({0, 1, 7}, 7)) << "his own";
    EXPECT_FALSE(may_have_group_bit({0, 1, 7}, 8)) << "a process that cannot be seen";
}

}  // namespace privileges_test
}  // namespace tierfs
