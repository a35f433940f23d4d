// S3-FIFO against its rules as the paper states them (Yang et al., SOSP 2023, algorithm 1), in bytes, with
// lists that are searched from end to end.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tests/unit/model.hpp"
#include "tiering/policy/s3fifo.hpp"

namespace tierfs {
namespace s3fifo_model_test {

constexpr std::uint64_t kCapacity = 200;
constexpr int kKeys = 40;

/// Refusal is not in the paper: a key that must stay goes to the end of its queue, as it is.
class PaperFifo {
  public:
    struct Item {
        int key;
        std::uint64_t bytes;
        unsigned frequency;
    };
    using Queue = std::vector<Item>;

    Item* find(int key) {
        for (Queue* queue : {&small, &main}) {
            for (Item& item : *queue) {
                if (item.key == key) return &item;
            }
        }
        return nullptr;
    }
    void insert(int key, std::uint64_t bytes) {
        const auto remembered =
            std::find_if(ghost.begin(), ghost.end(), [&](const Item& item) { return item.key == key; });
        Queue& queue = remembered == ghost.end() ? small : main;
        if (remembered != ghost.end()) ghost.erase(remembered);
        queue.push_back({key, bytes, 0});
    }
    void erase(int key) {
        for (Queue* queue : {&small, &main}) {
            std::erase_if(*queue, [&](const Item& item) { return item.key == key; });
        }
    }
    std::optional<int> evict(const std::set<int>& refuse) {
        const auto all_refused = [&](const Queue& queue) {
            return std::all_of(queue.begin(), queue.end(),
                               [&](const Item& item) { return asked.count(item.key) != 0; });
        };
        asked.clear();
        while (!all_refused(small) || !all_refused(main)) {
            const bool from_small =
                !all_refused(small) && (bytes(small) > kCapacity / 10 || all_refused(main));
            Queue& queue = from_small ? small : main;
            Item item = queue.front();
            queue.erase(queue.begin());
            if (from_small && item.frequency > 1) {
                main.push_back({item.key, item.bytes, 0});
            } else if (refuse.count(item.key) != 0) {
                asked.insert(item.key);
                queue.push_back(item);
            } else if (!from_small && item.frequency > 0) {
                --item.frequency;
                queue.push_back(item);
            } else {
                if (from_small) remember(item);
                return item.key;
            }
        }
        return std::nullopt;
    }
    static std::uint64_t bytes(const Queue& queue) {
        std::uint64_t sum = 0;
        for (const Item& item : queue) sum += item.bytes;
        return sum;
    }

    Queue small, main, ghost;

  private:
    /// As many bytes as main is meant to have.
    void remember(const Item& item) {
        ghost.push_back(item);
        while (bytes(ghost) > kCapacity - kCapacity / 10) ghost.erase(ghost.begin());
    }
    std::set<int> asked;
};

class Both {
  public:
    void run(const model::Command& command) {
        const int key = static_cast<int>(command.a % kKeys);
        const std::uint64_t bytes = 1 + command.b % 30;
        switch (command.kind) {
            case 0:
                access(key, bytes);
                break;
            case 1:
                evict(command);
                break;
            case 2:
                RC_ASSERT(policy_.erase(key) == (paper_.find(key) != nullptr));
                paper_.erase(key);
                break;
            default:
                policy_.resize(key, bytes);
                if (auto* item = paper_.find(key)) item->bytes = bytes;
        }
        compare();
    }

  private:
    /// A hit counts; a miss makes room and comes in: what a cache does with it.
    void access(int key, std::uint64_t bytes) {
        if (auto* item = paper_.find(key)) {
            item->frequency = std::min(item->frequency + 1, 3U);
            policy_.touch(key);
            return;
        }
        while (policy_.bytes() + bytes > kCapacity) {
            const auto gone = paper_.evict({});
            RC_ASSERT(gone.has_value());
            RC_ASSERT(policy_.evict() == gone);
        }
        paper_.insert(key, bytes);
        RC_ASSERT(policy_.insert(key, bytes));
        RC_ASSERT(!policy_.insert(key, bytes));
    }
    void evict(const model::Command& command) {
        std::set<int> refuse;
        for (unsigned i = 0; i < command.c % 8; ++i)
            refuse.insert(static_cast<int>((command.a + i * command.b) % kKeys));
        RC_ASSERT(policy_.evict([&](int key) { return refuse.count(key) == 0; }) == paper_.evict(refuse));
    }
    void compare() {
        RC_ASSERT(policy_.size() == paper_.small.size() + paper_.main.size());
        RC_ASSERT(policy_.small_bytes() == PaperFifo::bytes(paper_.small));
        RC_ASSERT(policy_.bytes() == PaperFifo::bytes(paper_.small) + PaperFifo::bytes(paper_.main));
        for (int key = 0; key < kKeys; ++key) {
            RC_ASSERT(policy_.contains(key) == (paper_.find(key) != nullptr));
            const bool remembered = std::any_of(paper_.ghost.begin(), paper_.ghost.end(),
                                                [&](const PaperFifo::Item& item) { return item.key == key; });
            RC_ASSERT(policy_.remembers(key) == remembered);
        }
    }

    S3Fifo<int> policy_{kCapacity};
    PaperFifo paper_;
};

TEST(S3FifoModel, EvictsWhatThePaperEvicts) {
    model::check_commands(60, 400, {12, 2, 1, 1}, [](const model::Commands& commands) {
        Both both;
        for (const auto& command : commands) both.run(command);
    });
}

/// What a cache that is full does with keys that come once, and with one that comes often.
TEST(S3FifoModel, OneHitWondersLeaveBySmallAndTheHotKeyStays) {
    model::check(40, [] {
        const auto wonders = *rc::gen::resize(
            100, rc::gen::container<std::vector<unsigned>>(rc::gen::resize(100, rc::gen::inRange(1U, 10U))));
        constexpr int kHot = -1;
        S3Fifo<int> policy(kCapacity);
        policy.insert(kHot, 10);
        policy.touch(kHot);
        policy.touch(kHot);
        int next = 0;
        for (const unsigned bytes : wonders) {
            while (policy.bytes() + bytes > kCapacity) {
                const auto gone = policy.evict();
                RC_ASSERT(gone.has_value());
                RC_ASSERT(*gone != kHot);
                RC_ASSERT(policy.remembers(*gone));  // by small, so the ghost has it
            }
            policy.insert(next++, bytes);
            policy.touch(kHot);
        }
    });
}

TEST(S3FifoNew, WhatWasUsedAgainStays) {
    S3Fifo<int> cache(1000);
    for (int key = 0; key < 4; ++key) cache.insert(key, 10);
    cache.touch(1);
    cache.touch(1);
    cache.insert(9, 10, true);
    const auto any = [](int) { return true; };
    EXPECT_EQ(cache.evict_new(any), 0);
    EXPECT_EQ(cache.evict_new([](int key) { return key != 2; }), 3) << "one that is refused is passed over";
    EXPECT_EQ(cache.evict_new(any), 2);
    EXPECT_EQ(cache.evict_new(any), std::nullopt);
    EXPECT_TRUE(cache.contains(1) && cache.contains(9));
    EXPECT_EQ(cache.small_bytes(), 0U) << "what was touched twice moved on";
}

}  // namespace s3fifo_model_test
}  // namespace tierfs
