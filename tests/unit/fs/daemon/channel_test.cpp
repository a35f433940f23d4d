#include "fs/daemon/channel.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace channel_test {

TEST(Channel, BringsWhatWasSentUpToTheEnd) {
    auto ends = Channel::make();
    ASSERT_TRUE(ends.has_value());
    ASSERT_TRUE(ends->first.send(Message::Kind::failed, "why"));
    ends->first.close();
    const auto message = ends->second.receive();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->kind, Message::Kind::failed);
    EXPECT_EQ(message->text, "why");
    EXPECT_FALSE(ends->second.receive().has_value());
}

/// A program that cannot be executed says so, and ends without having read what it was told.
TEST(Channel, BringsTheLastWordsOfOneThatDidNotListen) {
    auto ends = Channel::make();
    ASSERT_TRUE(ends.has_value());
    ASSERT_TRUE(ends->second.send(Message::Kind::go));
    ASSERT_TRUE(ends->first.send(Message::Kind::failed, "why"));
    ends->first.close();
    const auto message = ends->second.receive();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->text, "why");
    EXPECT_FALSE(ends->second.receive().has_value());
}

}  // namespace channel_test
}  // namespace tierfs
