#include "tiering/policy/s3fifo.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

namespace tierfs {
namespace s3fifo_test {

TEST(S3FifoTest, WhatWasNeverTouchedLeavesInOrder) {
    S3Fifo<int> policy(100);
    for (int key = 0; key < 5; ++key) EXPECT_TRUE(policy.insert(key, 10));
    EXPECT_FALSE(policy.insert(3, 10));
    for (int key = 0; key < 5; ++key) EXPECT_EQ(policy.evict(), key);
    EXPECT_EQ(policy.evict(), std::nullopt);
    EXPECT_EQ(policy.bytes(), 0U);
}

TEST(S3FifoTest, TwoTouchesMoveToMainOneDoesNot) {
    S3Fifo<int> policy(100);
    for (int key = 0; key < 4; ++key) policy.insert(key, 25);
    policy.touch(0);
    policy.touch(0);
    policy.touch(1);
    EXPECT_EQ(policy.evict(), 1);
    EXPECT_EQ(policy.evict(), 2);
    EXPECT_EQ(policy.evict(), 3);
    EXPECT_EQ(policy.evict(), 0);
}

TEST(S3FifoTest, WhatComesBackWhileRememberedEntersMain) {
    S3Fifo<int> policy(100);
    policy.insert(1, 20);
    EXPECT_EQ(policy.evict(), 1);
    EXPECT_TRUE(policy.remembers(1));
    policy.insert(1, 20);
    EXPECT_EQ(policy.small_bytes(), 0U);
    policy.insert(2, 20);
    EXPECT_EQ(policy.evict(), 2);
    EXPECT_FALSE(policy.remembers(1));
}

TEST(S3FifoTest, TheGhostIsBounded) {
    S3Fifo<int> policy(100);
    for (int key = 0; key < 1000; ++key) {
        policy.insert(key, 10);
        policy.evict();
    }
    int remembered = 0;
    for (int key = 0; key < 1000; ++key) remembered += policy.remembers(key) ? 1 : 0;
    EXPECT_EQ(remembered, 9);
    EXPECT_TRUE(policy.remembers(999));
}

TEST(S3FifoTest, RefusedKeysStay) {
    S3Fifo<int> policy(100);
    for (int key = 0; key < 3; ++key) policy.insert(key, 30);
    policy.touch(0);
    policy.touch(0);
    EXPECT_EQ(policy.evict([](int key) { return key != 1; }), 2);
    EXPECT_EQ(policy.evict([](int key) { return key != 1; }), 0);
    EXPECT_EQ(policy.evict([](int key) { return key != 1; }), std::nullopt);
    EXPECT_TRUE(policy.contains(1));
    EXPECT_EQ(policy.evict(), 1);
}

TEST(S3FifoTest, EraseAndResizeKeepTheSums) {
    S3Fifo<int> policy(1000);
    policy.insert(1, 10);
    policy.insert(2, 20);
    policy.resize(1, 50);
    policy.resize(9, 50);
    EXPECT_EQ(policy.bytes(), 70U);
    EXPECT_TRUE(policy.erase(1));
    EXPECT_FALSE(policy.erase(1));
    EXPECT_FALSE(policy.remembers(1));
    EXPECT_EQ(policy.bytes(), 20U);
}

/// The same rules written down as plainly as they can be, all keys of size 1.
class Oracle {
  public:
    explicit Oracle(std::size_t capacity) : small_target_(capacity / 10), ghost_(capacity - capacity / 10) {}
    void insert(int key) {
        if (frequency_.count(key) != 0) return;
        frequency_[key] = 0;
        for (auto at = ghosts_.begin(); at != ghosts_.end(); ++at) {
            if (*at == key) {
                ghosts_.erase(at);
                main_.push_back(key);
                return;
            }
        }
        small_.push_back(key);
    }
    void touch(int key) {
        if (frequency_.count(key) != 0) frequency_[key] = std::min(frequency_[key] + 1, 3);
    }
    int evict() {
        while (true) {
            if (small_.size() > small_target_ || main_.empty()) {
                const int key = small_.front();
                small_.pop_front();
                if (frequency_[key] > 1) {
                    frequency_[key] = 0;
                    main_.push_back(key);
                    continue;
                }
                frequency_.erase(key);
                ghosts_.push_back(key);
                if (ghosts_.size() > ghost_) ghosts_.pop_front();
                return key;
            }
            const int key = main_.front();
            main_.pop_front();
            if (frequency_[key] > 0) {
                --frequency_[key];
                main_.push_back(key);
                continue;
            }
            frequency_.erase(key);
            return key;
        }
    }
    std::size_t size() const { return frequency_.size(); }

  private:
    std::size_t small_target_, ghost_;
    std::deque<int> small_, main_, ghosts_;
    std::map<int, int> frequency_;
};

TEST(S3FifoTest, AgreesWithTheRulesWrittenPlainly) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        S3Fifo<int> policy(50);
        Oracle oracle(50);
        for (int step = 0; step < 5000; ++step) {
            const int key = static_cast<int>(random() % (random() % 2 == 0 ? 30 : 200));
            if (policy.contains(key)) {
                policy.touch(key);
                oracle.touch(key);
                continue;
            }
            if (policy.size() >= 50) {
                ASSERT_EQ(policy.evict(), oracle.evict());
            }
            policy.insert(key, 1);
            oracle.insert(key);
            ASSERT_EQ(policy.size(), oracle.size());
        }
    }
}

}  // namespace s3fifo_test
}  // namespace tierfs
