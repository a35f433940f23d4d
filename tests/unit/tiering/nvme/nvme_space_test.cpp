// Limits, eviction, and what happens beside them.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_space_test {

class NvmeSpaceTest : public NvmeTest {};

constexpr std::uint64_t kMiB = 1 << 20;

TEST_F(NvmeSpaceTest, TheLimitHoldsWhileTenTimesAsMuchIsWritten) {
    open();
    std::mt19937 random(11);
    std::vector<std::uint64_t> sizes;
    std::uint64_t written = 0;
    std::uint64_t largest = 0;
    while (written < 10 * options_.limit) {
        const std::uint64_t number = sizes.size();
        sizes.push_back(number % 20 == 0 ? kMiB + random() % (3 * kMiB) : 1 + random() % 200000);
        put(number, sizes.back());
        written += sizes.back();
        EXPECT_LE(tier_->stats().used_bytes, options_.limit);
        if (number % 10 != 0) continue;
        tier_->flush();  // a walk of the folder beside the writer counts what is evicted and what replaces it
        largest = std::max(largest, disk_bytes());
    }
    tier_->flush();
    EXPECT_LE(std::max(largest, disk_bytes()), options_.limit);
    EXPECT_LE(disk_bytes(), tier_->stats().used_bytes);
    EXPECT_GT(disk_bytes(), options_.limit / 2);
    EXPECT_GT(tier_->stats().evicted_bytes, 8 * options_.limit);
    unsigned here = 0;
    for (std::size_t at = 0; at < sizes.size(); ++at) {
        const Got got = get(at, sizes[at]);
        EXPECT_NE(got, Got::wrong);
        if (got == Got::right) ++here;
    }
    EXPECT_GT(here, 20U);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
    // Records of what was evicted are gone.
    EXPECT_LE(index_.size(), here + 20U);
}

TEST_F(NvmeSpaceTest, WhatIsReadOftenStays) {
    open();
    put(0, 3 * kMiB);
    tier_->flush();
    for (std::uint64_t at = 1; at < 100; ++at) {
        put(at, 900000);
        if (at % 4 == 0) {
            tier_->flush();
            ASSERT_EQ(get(0, 3 * kMiB), Got::right) << at;
        }
    }
}

TEST_F(NvmeSpaceTest, AnObjectOfMoreThanHalfTheLimitIsNotAdmitted) {
    open();
    put_piece(1, options_.limit / 2 + 1, 0, kBlockSize);
    tier_->flush();
    EXPECT_TRUE(files_with(".data").empty());
}

TEST_F(NvmeSpaceTest, AnObjectOfHalfTheLimitStaysWholeWhileItIsWritten) {
    open();
    const std::uint64_t size = options_.limit / 2;
    for (std::uint64_t at = 1; at < 30; ++at) put(at, 700000);
    for (std::uint64_t offset = 0; offset < size; offset += kMiB) put_piece(0, size, offset, kMiB);
    tier_->flush();
    EXPECT_EQ(get(0, size), Got::right);
    EXPECT_LE(disk_bytes(), options_.limit);
}

TEST_F(NvmeSpaceTest, ALoweredLimitIsMetAfterOpening) {
    options_.limit = 64 << 20;
    open();
    for (std::uint64_t at = 0; at < 60; ++at) put(at, 900000);
    tier_->close();
    ASSERT_GT(disk_bytes(), 32 * kMiB);
    options_.limit = 16 << 20;
    open();
    tier_->flush();
    EXPECT_LE(disk_bytes(), options_.limit);
    EXPECT_LE(tier_->stats().used_bytes, options_.limit);
    for (std::uint64_t at = 0; at < 60; ++at) EXPECT_NE(get(at, 900000), Got::wrong);
}

TEST_F(NvmeSpaceTest, TooSmallALimitIsRefused) {
    options_.limit = 1 << 20;
    EXPECT_FALSE(NvmeTier::open(options_, index_).has_value());
}

TEST_F(NvmeSpaceTest, RecordsGoBeforeTheirFile) {
    std::atomic<unsigned> checked{0};
    hooks_.before_unlink = [&] {
        std::set<std::uint64_t> named;
        (void)index_.for_each_location([&](const ContentId&, std::string_view text) {
            const auto location = Location::decode(text);
            if (location) named.insert(location->extent);
            return true;
        });
        unsigned unnamed = 0;  // the victim, and perhaps an extent that was just begun
        for (const auto& path : files_with(".extent")) {
            const auto name = parse_extent_file_name(path.filename().native());
            if (name && named.count(name->number) == 0) ++unnamed;
        }
        EXPECT_GE(unnamed, 1U);
        ++checked;
    };
    open();
    for (std::uint64_t at = 0; at < 60; ++at) put(at, 700000);
    tier_->flush();
    EXPECT_GT(checked, 10U);
}

TEST_F(NvmeSpaceTest, AnExtentOfManyTinyObjectsIsTakenInAndGivenUpInSmallBatches) {
    constexpr std::uint64_t kObjects = 12000;
    open();
    for (std::uint64_t at = 0; at < kObjects; ++at) {
        put(at, 10);
        if (at % 1000 == 0) tier_->flush();
    }
    tier_->close();
    ASSERT_EQ(files_with(".extent").size(), 1U);
    index_.lose_everything();
    open();
    EXPECT_TRUE(eventually([&] { return index_.size() == kObjects; }));
    EXPECT_TRUE(tier_->contains(object_id(0), 10, 0));  // not read: what is read often stays
    EXPECT_LE(index_.largest_batch(), 320U * 1024) << "256 KiB, and the rest of a chunk";
    const auto extent = files_with(".extent").at(0);
    for (std::uint64_t at = kObjects; at < kObjects + 100 && std::filesystem::exists(extent); ++at) {
        put(at, 700000);
        tier_->flush();
    }
    EXPECT_FALSE(std::filesystem::exists(extent));
    EXPECT_LE(index_.size(), 100U);
    EXPECT_LE(index_.largest_batch(), 320U * 1024);
}

TEST_F(NvmeSpaceTest, AReadThatIsUnderWayOutlivesItsFile) {
    for (const std::uint64_t size : {std::uint64_t{500000}, 2 * kMiB}) {
        std::atomic<bool> armed{false};
        std::atomic<bool> waiting{false};
        std::atomic<bool> go{false};
        hooks_.after_lookup = [&] {
            if (!armed.exchange(false)) return;
            waiting = true;
            EXPECT_TRUE(eventually([&] { return go.load(); }));
        };
        open();
        put(0, size);
        tier_->flush();
        const auto path = files_with(size > kMiB ? ".data" : ".extent").at(0);
        armed = true;
        Got got = Got::miss;
        std::thread reader([&] { got = get(0, size); });
        EXPECT_TRUE(eventually([&] { return waiting.load(); }));
        for (std::uint64_t at = 1; at < 200 && std::filesystem::exists(path); ++at) {
            put(at, 900000);
            tier_->flush();
            EXPECT_LE(tier_->stats().used_bytes, options_.limit);
        }
        EXPECT_FALSE(std::filesystem::exists(path));
        go = true;
        reader.join();
        EXPECT_EQ(got, Got::right);
        EXPECT_EQ(get(0, size), Got::miss);
        tier_->close();
    }
}

TEST_F(NvmeSpaceTest, ReadersWriterAndEvictionTogether) {
    open();
    constexpr std::uint64_t kObjects = 150;
    const auto size_of = [](std::uint64_t number) {
        return number % 10 == 0 ? kMiB + number * 4097 : 1 + number * 1999;
    };
    std::atomic<bool> stop{false};
    std::atomic<unsigned> hits{0};
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 3; ++seed) {
        threads.emplace_back([&, seed] {
            std::mt19937 random(seed);
            while (!stop) {
                const std::uint64_t number = random() % kObjects;
                const std::uint64_t size = size_of(number);
                const std::uint64_t block = random() % block_count(size);
                const std::uint64_t offset = block * kBlockSize;
                const Got got = get(number, size, offset, std::min<std::uint64_t>(kBlockSize, size - offset));
                if (got == Got::right) ++hits;
                if (got == Got::wrong) ++wrong;
                (void)tier_->contains(object_id(number), size, block);
            }
        });
    }
    std::mt19937 random(99);
    for (int round = 0; round < 600; ++round) {
        const std::uint64_t number = random() % kObjects;
        put(number, size_of(number));
        if (round % 10 == 0) tier_->erase(object_id(random() % kObjects));
        if (round % 30 == 0) tier_->flush();
        EXPECT_LE(tier_->stats().used_bytes, options_.limit);
    }
    tier_->flush();
    EXPECT_TRUE(eventually([&] { return hits > 100; }));
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0U);
    EXPECT_GT(tier_->stats().evicted_bytes, 0U);
    EXPECT_EQ(tier_->stats().state, "normal");
}

}  // namespace nvme_space_test
}  // namespace tierfs::testing
