// Names while the origin is known not to answer.
#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace outage_test {

constexpr std::chrono::milliseconds kTtl{60000};

class OutageNames : public NamesFixture {
  protected:
    void SetUp() override {
        NamesFixture::SetUp();
        serves_stale_ = true;
        origin_->put("known", "v1");
        origin_->put("listed/x", "v1");
        origin_->put("never/x", "v1");
        open(kTtl);
        listed_ = find(kRootNode, "listed").node;
        never_ = find(kRootNode, "never").node;
        find(kRootNode, "known");
        EXPECT_EQ(names_of(listed_).size(), 1U);
    }
    NodeId listed_ = 0, never_ = 0;
};

TEST_F(OutageNames, WhatIsKnownIsAnsweredAtOnceHoweverOld) {
    pass(1000 * kTtl);
    origin_->hold();
    origin_->set_away("it is gone");
    for (int i = 0; i < 100; ++i) {  // more than there are workers
        EXPECT_EQ(code(lookup(kRootNode, "known")), 0);
        EXPECT_EQ(code(attributes(listed_)), 0);
        EXPECT_EQ(names_of(listed_).size(), 1U);
        EXPECT_EQ(code(lookup(listed_, "none")), ENOENT) << "by the listing";
    }
    EXPECT_LE(origin_->requests(), 6U) << "one at a time asks whether it is back";
    auto unknown = start_read(never_, 0, 10);
    EXPECT_EQ(unknown.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "nobody knows";
    origin_->put("listed/y", "v1");
    origin_->set_away("");
    origin_->release();
    EXPECT_TRUE(await(std::move(unknown)));
    EXPECT_EQ(names_of(listed_).size(), 2U);
}

TEST_F(OutageNames, AnErrorIsServedStaleWithoutALimitToo) {
    pass(1000 * kTtl);
    origin_->fail_with(ETIMEDOUT);
    EXPECT_EQ(code(lookup(kRootNode, "known")), 0);
    EXPECT_EQ(names_of(listed_).size(), 1U);
    origin_->fail_with(EACCES);
    EXPECT_EQ(code(lookup(listed_, "x")), EACCES) << "it answers";
}

TEST_F(OutageNames, NothingIsServedStaleWithoutATtl) {
    reopen(std::chrono::milliseconds(0));
    EXPECT_EQ(code(lookup(kRootNode, "known")), 0);
    origin_->fail_with(ETIMEDOUT);
    EXPECT_EQ(code(lookup(kRootNode, "known")), ETIMEDOUT);
}

}  // namespace outage_test
}  // namespace tierfs
