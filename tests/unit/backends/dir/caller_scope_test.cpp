#include "backends/dir/caller_scope.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace tierfs {
namespace caller_scope_test {

bool may(unsigned capability) {
    __user_cap_header_struct about{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
    ::syscall(SYS_capget, &about, sets.data());
    return (sets[0].effective >> capability & 1U) != 0;
}

std::uint32_t user() {
    return static_cast<std::uint32_t>(::setfsuid(static_cast<uid_t>(-1)));
}

std::uint32_t group() {
    return static_cast<std::uint32_t>(::setfsgid(static_cast<gid_t>(-1)));
}

class CallerScopeTest : public testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0 || !may(CAP_SYS_RESOURCE) || !may(CAP_SETGID)) GTEST_SKIP() << "needs root";
    }
    void TearDown() override { act_for({}); }
    static void expect_full() {
        EXPECT_TRUE(may(CAP_SYS_RESOURCE) && may(CAP_FSETID) && may(CAP_DAC_OVERRIDE));
        EXPECT_EQ(user(), 0U);
        EXPECT_EQ(group(), 0U);
    }
    static constexpr auto kNames = ActorScope::Changes::names, kContents = ActorScope::Changes::contents;
};

TEST_F(CallerScopeTest, WhatAUserWritesIsWrittenWithoutTheRightsOfRoot) {
    act_for({4000, false});
    {
        const ActorScope acting(kContents, true, 17);
        EXPECT_FALSE(may(CAP_SYS_RESOURCE) || may(CAP_FSETID));
        EXPECT_TRUE(may(CAP_DAC_OVERRIDE)) << "the kernel has checked permissions";
        EXPECT_EQ(user(), 4000U);
        EXPECT_EQ(group(), 17U);
    }
    expect_full();
    {
        const ActorScope acting(kNames, false);
        EXPECT_TRUE(may(CAP_FSETID));
        EXPECT_FALSE(may(CAP_SYS_RESOURCE));
        EXPECT_EQ(user(), 0U);
    }
    expect_full();
}

TEST_F(CallerScopeTest, RootKeepsItsRights) {
    act_for({0, true});
    const ActorScope acting(kContents, true, 17);
    expect_full();
    act_for({0, false});
    const ActorScope plain(kContents, true, 17);
    EXPECT_TRUE(may(CAP_SYS_RESOURCE));
    EXPECT_FALSE(may(CAP_FSETID)) << "the kernel says that it has not the right";
}

TEST_F(CallerScopeTest, WhatTheKernelWritesByItselfIsNeverRoots) {
    act_for({0, true});
    {
        const StandingScope acting(17, true);
        EXPECT_FALSE(may(CAP_SYS_RESOURCE) || may(CAP_FSETID));
        EXPECT_EQ(user(), 65534U);
    }
    {
        const StandingScope acting(17, false);
        EXPECT_FALSE(may(CAP_SYS_RESOURCE) || may(CAP_FSETID));
        EXPECT_EQ(user(), 0U) << "a server that knows root";
    }
    expect_full();
}

TEST_F(CallerScopeTest, TheCallerHimself) {
    act_for({4000, false, 4001, ::gettid()});
    {
        const ImpersonationScope caller;
        EXPECT_FALSE(may(CAP_DAC_OVERRIDE) || may(CAP_SYS_ADMIN));
        EXPECT_EQ(user(), 4000U);
        EXPECT_EQ(group(), 4001U);
    }
    expect_full();
    act_for({0, true});
    const ImpersonationScope caller;
    expect_full();
}

TEST_F(CallerScopeTest, WhatIsMadeIsTheCallers) {
    {
        const CallerScope caller({4000, 4001, 022});
        EXPECT_FALSE(may(CAP_SYS_RESOURCE));
        EXPECT_TRUE(may(CAP_DAC_OVERRIDE));
        EXPECT_EQ(user(), 4000U);
    }
    expect_full();
}

}  // namespace caller_scope_test
}  // namespace tierfs
