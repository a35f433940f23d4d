// Questions that wait for a worker while the origin is silent.
#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace waiting_test {

class WaitingNames : public NamesFixture {
  protected:
    void SetUp() override {
        NamesFixture::SetUp();
        workers_ = 1;
        origin_ = std::make_unique<FakeOrigin>(0);
        origin_->put("known", "v1");
        origin_->put("asked", "v1");
        origin_->put_link("link", "target");
        origin_->put("listed/x", "v1");
        origin_->put("never/x", "v1");
        open();
    }
    /// The only worker waits for the origin.
    void silence() {
        origin_->hold();
        asked_ = start_lookup(kRootNode, "asked");
        origin_->await_waiting(1);
        requests_ = origin_->requests();
    }
    void speak() {
        origin_->release();
        EXPECT_TRUE(await(std::move(asked_))) << "it was asked in time";
    }
    void wait_in_the_queue(milliseconds time) { waited_ += time.count() * 1'000'000; }
    [[nodiscard]] std::size_t requests_since() const { return origin_->requests() - requests_; }

    std::future<View> asked_;
    std::size_t requests_ = 0;
};

TEST_F(WaitingNames, AreAnsweredWithoutTheOriginAfterItsDeadline) {
    const NodeId known = find(kRootNode, "known").node;
    const NodeId link = find(kRootNode, "link").node;
    const NodeId listed = find(kRootNode, "listed").node;
    const NodeId never = find(kRootNode, "never").node;
    EXPECT_EQ(names_of(listed).size(), 1U);
    pass(milliseconds(60001));
    silence();
    auto stale = start_lookup(kRootNode, "known");
    auto stale_attributes = start_attributes(known);
    auto unknown = start_lookup(kRootNode, "unknown");
    auto stale_names = start_read(listed, 0, 100);
    auto no_names = start_read(never, 0, 100);
    auto target = start_read_link(link);
    wait_in_the_queue(milliseconds(30001));
    speak();
    EXPECT_EQ(must(await(std::move(stale))).node, known);
    EXPECT_EQ(must(await(std::move(stale_attributes))).node, known);
    EXPECT_EQ(code(await(std::move(unknown))), ETIMEDOUT);
    const auto names = await(std::move(stale_names));
    ASSERT_TRUE(names) << names.error().message;
    EXPECT_EQ(names->size(), 3U);
    const auto none = await(std::move(no_names));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ETIMEDOUT);
    const auto text = await(std::move(target));
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ETIMEDOUT);
    EXPECT_EQ(requests_since(), 0U);
    EXPECT_EQ(code(lookup(kRootNode, "unknown")), ENOENT) << "asked now, answered now";
}

TEST_F(WaitingNames, AreAskedWithinTheDeadline) {
    const NodeId link = find(kRootNode, "link").node;
    const NodeId never = find(kRootNode, "never").node;
    silence();
    auto unknown = start_lookup(kRootNode, "unknown");
    auto names = start_read(never, 0, 100);
    auto target = start_read_link(link);
    wait_in_the_queue(milliseconds(30000));
    speak();
    EXPECT_EQ(code(await(std::move(unknown))), ENOENT);
    EXPECT_TRUE(await(std::move(names)));
    EXPECT_EQ(await(std::move(target)).value_or(""), "target");
    EXPECT_EQ(requests_since(), 3U);
}

}  // namespace waiting_test
}  // namespace tierfs
