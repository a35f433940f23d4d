#include "backends/origin/reachability.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tierfs {
namespace reachability_test {

using Failure = Reachability::Failure;

TEST(Reachability, ACertainFailureIsAnOutageUntilTheNextAnswer) {
    Reachability reach;
    EXPECT_EQ(reach.state().why, "");
    reach.answered();
    reach.failed("refused", Failure::certain);
    EXPECT_EQ(reach.state().why, "refused");
    EXPECT_GE(reach.state().away.count(), 0);
    reach.failed("unreachable", Failure::certain);
    EXPECT_EQ(reach.state().why, "unreachable") << "the last reason";
    reach.answered();
    EXPECT_EQ(reach.state().why, "");
}

TEST(Reachability, OneBrokenConnectionIsNone) {
    Reachability reach;
    reach.failed("reset", Failure::doubtful);
    reach.failed("reset", Failure::doubtful);
    EXPECT_EQ(reach.state().why, "") << "within kDoubt";
    reach.answered();
    std::this_thread::sleep_for(Reachability::kDoubt);
    reach.failed("reset", Failure::doubtful);
    EXPECT_EQ(reach.state().why, "") << "the first of its kind since an answer";
    std::this_thread::sleep_for(Reachability::kDoubt);
    reach.failed("reset", Failure::doubtful);
    EXPECT_EQ(reach.state().why, "reset");
}

}  // namespace reachability_test
}  // namespace tierfs
