#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tiering/fetch/flight_table.hpp"
#include "tiering/fetch/read_admission.hpp"

namespace tierfs {
namespace fetch_test {

FlightPtr flight(std::uint64_t unit, BlockMask blocks) {
    auto made = std::make_shared<Flight>();
    made->key = UnitKey{ContentId{1, 2}, unit};
    made->blocks = blocks;
    return made;
}

TEST(FlightTable, KnowsWhatIsUnderWayUntilItIsRemoved) {
    FlightTable table;
    FlightTable::Shard& shard = table.shard(ContentId{1, 2});
    EXPECT_EQ(&shard, &table.shard(ContentId{1, 2})) << "an object lives in one shard";
    MutexLock lock(shard.mutex);
    const FlightPtr a = flight(0, 0b0011), b = flight(0, 0b1100), c = flight(1, 1);
    for (const FlightPtr& one : {a, b, c}) shard.add(one);
    EXPECT_EQ(shard.under_way(a->key), 0b1111U);
    shard.remove(*a);
    shard.remove(*a);
    EXPECT_EQ(shard.under_way(a->key), 0b1100U);
    shard.remove(*b);
    EXPECT_EQ(shard.under_way(a->key), 0U);
    EXPECT_EQ(shard.under_way(c->key), 1U);
    shard.remove(*c);
    EXPECT_TRUE(shard.flights.empty());
}

ReadOperationPtr numbered(std::uint64_t n) {
    auto operation = std::make_shared<ReadOperation>();
    operation->begin = n;
    return operation;
}

template <typename Condition>
bool eventually(Condition&& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

TEST(ReadAdmission, StartsInOrderAsMemoryComes) {
    ReadAdmission admission(std::chrono::hours(1));
    std::atomic<int> memory{0};
    std::mutex mutex;
    std::vector<std::uint64_t> started;
    admission.start(
        [&](const ReadOperationPtr& operation) {
            if (memory.load() == 0) return false;
            memory.fetch_sub(1);
            const std::lock_guard lock(mutex);
            started.push_back(operation->begin);
            return true;
        },
        [](const ReadOperationPtr&) { ADD_FAILURE() << "expired"; });
    for (std::uint64_t n = 0; n < 5; ++n) EXPECT_TRUE(admission.enqueue(numbered(n)));
    EXPECT_EQ(admission.waiting(), 5U);
    for (std::uint32_t n = 0; n < 5; ++n) {
        memory.fetch_add(1);
        admission.memory_freed();
        ASSERT_TRUE(eventually([&] { return admission.waiting() == 4 - n; }));
    }
    const std::lock_guard lock(mutex);
    EXPECT_EQ(started, (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST(ReadAdmission, TriesAtOnceWhenSomebodyComes) {
    ReadAdmission admission(std::chrono::milliseconds::max());
    admission.start([](const ReadOperationPtr&) { return true; }, [](const ReadOperationPtr&) {});
    EXPECT_TRUE(admission.enqueue(numbered(1)));
    EXPECT_TRUE(eventually([&] { return !admission.busy(); }));
}

TEST(ReadAdmission, ExpiresWhoWaitsTooLong) {
    ReadAdmission admission(std::chrono::milliseconds(20));
    std::atomic<int> expired{0};
    admission.start([](const ReadOperationPtr&) { return false; },
                    [&](const ReadOperationPtr&) { expired.fetch_add(1); });
    admission.enqueue(numbered(1));
    admission.enqueue(numbered(2));
    EXPECT_TRUE(eventually([&] { return expired.load() == 2 && !admission.busy(); }));
}

TEST(ReadAdmission, StopHandsBackWhoStillWaitsAndTakesNobody) {
    ReadAdmission admission(std::chrono::hours(1));
    admission.start([](const ReadOperationPtr&) { return false; }, [](const ReadOperationPtr&) {});
    admission.enqueue(numbered(1));
    admission.enqueue(numbered(2));
    EXPECT_EQ(admission.stop().size(), 2U);
    EXPECT_FALSE(admission.busy());
    EXPECT_FALSE(admission.enqueue(numbered(3)));
    EXPECT_TRUE(admission.stop().empty());
}

}  // namespace fetch_test
}  // namespace tierfs
