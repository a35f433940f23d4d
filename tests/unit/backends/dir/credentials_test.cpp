#include "backends/dir/credentials.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>

#include <string>

namespace tierfs {
namespace credentials_test {

TEST(Credentials, OfAProcess) {
    const auto found = read_credentials(
        "Name:\tx\nUid:\t1\t1\t1\t1\nGroups:\t4 24 4294967294 \nCapPrm:\tffffffffffffffff\nCapEff:\t0000000000000010\n");
    EXPECT_EQ(found.groups, (std::vector<gid_t>{4, 24, 4294967294U}));
    EXPECT_TRUE(found.is_in(24));
    EXPECT_FALSE(found.is_in(2));
    EXPECT_TRUE(found.may(CAP_FSETID));
    EXPECT_FALSE(found.may(CAP_SYS_RESOURCE));
}

TEST(Credentials, WhatIsNotSaidIsNotAllowed) {
    for (const std::string text :
         {"", "Groups:\t", "Groups:\n", "Groups:\tx\nCapEff:\t\n", "CapEff:\tgarbage", "Groups"}) {
        const auto found = read_credentials(text);
        EXPECT_TRUE(found.groups.empty()) << text;
        EXPECT_EQ(found.capabilities, 0U) << text;
    }
    EXPECT_EQ(read_credentials("Groups:\t4 99999999999 5\n").groups, std::vector<gid_t>{4}) << "no group";
    EXPECT_TRUE(credentials_of(0).groups.empty());
}

}  // namespace credentials_test
}  // namespace tierfs
