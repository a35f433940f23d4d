// The small parts that writable mounts of a bucket are made of.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <random>
#include <thread>

#include "backends/s3/readwrite/byte_ranges.hpp"
#include "backends/s3/readwrite/file_metadata.hpp"
#include "backends/s3/readwrite/inode_numbers.hpp"
#include "backends/s3/readwrite/known_names.hpp"
#include "backends/s3/readwrite/part_sizes.hpp"
#include "backends/s3/readwrite/path_locks.hpp"

namespace tierfs::s3 {
namespace parts_test {

using namespace std::chrono_literals;

TEST(PartSizesTest, TenThousandHoldTheLargestObjectAndNoneIsTooLarge) {
    std::uint64_t end = 0;
    for (unsigned number = 1; number <= PartSizes::kMost; ++number) {
        const auto range = PartSizes::range(number);
        ASSERT_EQ(range.begin, end) << number;
        end = range.end;
        ASSERT_GE(end - range.begin, 5U << 20U);
        ASSERT_LE(end - range.begin, std::uint64_t{5} << 30U);
        ASSERT_EQ(PartSizes::number(range.begin), number);
        ASSERT_EQ(PartSizes::number(range.end - 1), number);
    }
    EXPECT_GE(end, PartSizes::kLargestObject);
}

TEST(ByteRangesTest, AreASetOfBytes) {
    std::minstd_rand chance(1);
    for (int round = 0; round < 200; ++round) {
        ByteRanges ranges;
        std::vector<bool> model(64);
        for (int step = 0; step < 40; ++step) {
            std::uint64_t begin = chance() % 64, end = chance() % 65;
            if (begin > end) std::swap(begin, end);
            const bool adds = chance() % 2 == 0;
            adds ? ranges.add(begin, end) : ranges.remove(begin, end);
            std::fill(model.begin() + static_cast<long>(begin), model.begin() + static_cast<long>(end), adds);
            const std::uint64_t from = chance() % 64, to = from + chance() % (65 - from);
            std::vector<bool> found(64, true);
            for (const auto& gap : ranges.gaps(from, to)) {
                ASSERT_LT(gap.begin, gap.end);
                for (auto at = gap.begin; at < gap.end; ++at) found[at] = false;
            }
            for (auto at = from; at < to; ++at) ASSERT_EQ(found[at], model[at]) << at;
        }
    }
}

TEST(InodeNumbersTest, WhatIsRenamedKeepsItsNumber) {
    InodeNumbers numbers;
    const auto a = place_of(1, "a"), b = place_of(1, "b");
    EXPECT_EQ(numbers.number(a), a);
    numbers.renamed(a, b);
    EXPECT_EQ(numbers.number(b), a);
    EXPECT_NE(numbers.number(a), a);  // a new one at the old place
    numbers.renamed(b, a);
    EXPECT_EQ(numbers.number(a), a);
    numbers.exchanged(a, b);
    EXPECT_EQ(numbers.number(b), a);
    numbers.removed(b);
    EXPECT_NE(numbers.number(b), b);  // which is at the other place now
    EXPECT_NE(numbers.number(b), a);
}

TEST(KnownNamesTest, ForgetsInTimeAndAfterChanges) {
    KnownNames known(10s);
    const auto now = KnownNames::Clock::now();
    Facts there;
    there.kind = Facts::Kind::file;
    known.put(1, there, now);
    known.put(2, Facts(), now);
    EXPECT_TRUE(known.get(1, now + 9s));
    EXPECT_FALSE(known.get(1, now + 10s));
    EXPECT_TRUE(known.get(2, now + 4s));
    EXPECT_FALSE(known.get(2, now + 5s));
    const auto asked = known.moment(3);
    known.drop(3);
    known.put_answer(3, there, asked);  // asked before, answered after
    EXPECT_FALSE(known.get(3, now));
    for (Place place = 10; place < 10 + KnownNames::kMost; ++place) known.put(place, there, now);
    known.put(5, there, now);
    EXPECT_FALSE(known.get(10, now));  // the one used longest ago
    EXPECT_TRUE(known.get(11, now));
}

TEST(PathLocksTest, ATreeWaitsForWhatIsBelow) {
    PathLocks locks;
    std::atomic<bool> got = false;
    std::thread other;
    {
        const PathLocks::Held held(locks, {{"a/b", false}, {"x", false}});
        const PathLocks::Held beside(locks, {{"a/bc", true}, {"a/c", false}});
        other = std::thread([&] {
            const PathLocks::Held tree(locks, {{"a", true}});
            got = true;
        });
        std::this_thread::sleep_for(20ms);
        EXPECT_FALSE(got);
    }
    other.join();
    EXPECT_TRUE(got);
}

http::Response reply_with(const std::vector<http::Header>& headers) {
    http::Response response;
    response.status = 200;
    for (auto [name, value] : headers) {
        std::transform(name.begin(), name.end(), name.begin(), ::tolower);
        response.headers.emplace_back(name, value);
    }
    return response;
}

TEST(FileMetadataTest, ComesBackAsItWas) {
    FileMetadata metadata{S_IFREG | 04755U, 1, 2, -1, 1'700'000'000'000'000'001, 5, {}};
    metadata.xattrs = {{"user.a", std::string("\0\xff", 2)}, {"user.%2F é", ""}};
    EXPECT_EQ(metadata_of_head(reply_with(metadata_headers(metadata)), {}, false), metadata);
    metadata.mode = S_IFLNK | 0777U;
    EXPECT_EQ(metadata_of_head(reply_with(metadata_headers(metadata)), {}, false), metadata);
    metadata.mode = S_IFDIR | 01777U;
    EXPECT_EQ(metadata_of_head(reply_with(metadata_headers(metadata)), {}, true), metadata);
}

TEST(FileMetadataTest, NonsenseIsAsNothing) {
    const Ownership ownership{7, 8, 0640, 0750};
    const auto plain =
        metadata_of_head(reply_with({{"Last-Modified", "Mon, 06 May 2024 07:08:09 GMT"}}), ownership, false);
    EXPECT_EQ(plain.mode, S_IFREG | 0640U);
    EXPECT_EQ(plain.uid, 7U);
    EXPECT_EQ(plain.mtime_ns, 1'714'979'289'000'000'000);
    const auto odd = metadata_of_head(reply_with({{"Last-Modified", "Mon, 06 May 2024 07:08:09 GMT"},
                                                  {"x-amz-meta-mode", "-1"},
                                                  {"x-amz-meta-uid", "4294967295"},
                                                  {"x-amz-meta-gid", ""},
                                                  {"x-amz-meta-mtime", "99999999999999999999"},
                                                  {"x-amz-meta-ctime", "1.2.3"},
                                                  {"x-amz-meta-xattr", "%7B%22a%22:5"}}),
                                      ownership, false);
    EXPECT_EQ(odd, plain);
    // A device is not made of metadata.
    const auto device = metadata_of_head(reply_with({{"x-amz-meta-mode", std::to_string(S_IFBLK | 0666U)}}),
                                         ownership, false);
    EXPECT_EQ(device.mode, S_IFREG | 0666U);
    EXPECT_EQ(parse_xattrs("%7B%22user.a%22:%22!!%22,%22user.b%22:%22YQ==%22%7D").size(), 1U);
}

}  // namespace parts_test
}  // namespace tierfs::s3
