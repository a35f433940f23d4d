#include "backends/s3/client/reply_room.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tierfs::s3 {
namespace reply_room_test {

using namespace std::chrono_literals;

TEST(ReplyRoom, AsManyAtATimeAsMemoryAllows) {
    ReplyRoom room(3 * ReplyRoom::kMemoryOfReply);
    const auto first = room.take(http::Clock::now());
    auto second = room.take(http::Clock::now());
    const auto third = room.take(http::Clock::now());
    EXPECT_TRUE(first && second && third);
    EXPECT_FALSE(room.take(http::Clock::now() + 5ms));
    std::shared_ptr<const void> fourth;
    std::thread waits([&] { fourth = room.take(http::Clock::time_point::max()); });
    auto copy = second;
    second.reset();
    EXPECT_FALSE(room.take(http::Clock::now() + 5ms)) << "a copy holds the turn";
    copy.reset();
    waits.join();
    EXPECT_TRUE(fourth);
}

TEST(ReplyRoom, ATurnOutlivesTheRoomAndThereIsAlwaysOne) {
    std::shared_ptr<const void> turn;
    {
        ReplyRoom room(0);
        turn = room.take(http::Clock::now());
    }
    EXPECT_TRUE(turn);
}

}  // namespace reply_room_test
}  // namespace tierfs::s3
