#include "tiering/index/format.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tierfs {
namespace format_test {

using namespace index_format;

NodeRecord sample_node() {
    NodeRecord record;
    record.parent = 0x0102030405060708U;
    record.name = std::string("a\0b\xff", 4);
    record.inode = 99;
    record.attributes = Attributes{.kind = ObjectKind::symlink,
                                   .size = std::numeric_limits<std::uint64_t>::max(),
                                   .mtime_ns = -1,
                                   .ctime_ns = std::numeric_limits<std::int64_t>::min(),
                                   .mode = 07777,
                                   .acl = kHasAcl | 070,
                                   .uid = 1,
                                   .gid = 2,
                                   .nlink = 3,
                                   .archived = true,
                                   .version = "\"etag-7\""};
    record.content = ContentId{5, 6};
    record.checked_ns = 1234567890123456789;
    return record;
}

TEST(IndexFormat, KeysSortAsNumbersDo) {
    EXPECT_LT(number_key(kNodes, 255), number_key(kNodes, 256));
    EXPECT_LT(name_key(1, "zzz"), name_key(2, ""));
    EXPECT_EQ(parse_number_key(kNodes, number_key(kNodes, ~0ULL)), ~0ULL);
    EXPECT_FALSE(parse_number_key(kNodes, number_key(kListings, 1)));
    EXPECT_FALSE(parse_number_key(kNodes, "I123"));
    const ContentId id{1, 2};
    EXPECT_EQ(parse_location_key(location_key(id)), id);
    EXPECT_FALSE(parse_location_key(location_key(id) + "x"));
}

TEST(IndexFormat, RecordsComeBack) {
    const NodeRecord node = sample_node();
    const auto again = decode_node(encode(node));
    ASSERT_TRUE(again);
    EXPECT_EQ(encode(*again), encode(node));
    EXPECT_EQ(again->name, node.name);
    EXPECT_EQ(again->attributes.version, node.attributes.version);
    EXPECT_EQ(again->attributes.mtime_ns, -1);
    EXPECT_EQ(again->attributes.size, node.attributes.size);
    EXPECT_TRUE(again->attributes.archived);
    EXPECT_EQ(again->content, node.content);

    const auto name = decode_name(encode(NameRecord{77, ObjectKind::directory}));
    ASSERT_TRUE(name);
    EXPECT_EQ(name->node, 77U);
    EXPECT_EQ(name->kind, ObjectKind::directory);

    ListingRecord listing;
    listing.listed_ns = 5;
    listing.entries = 6;
    listing.hidden = {{"", 1}, {"empty path component", 2}};
    const auto listed = decode_listing(encode(listing));
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->hidden, listing.hidden);
    EXPECT_EQ(listed->entries, 6U);
    EXPECT_EQ(listed->listed_ns, 5);

    EXPECT_EQ(decode_next_node(encode_next_node(4112)), 4112U);
    EXPECT_EQ(decode_layout(encode_layout(7)), 7U);
}

TEST(IndexFormat, TruncatedOrExtendedRecordsAreNone) {
    const std::string node = encode(sample_node());
    for (std::size_t size = 0; size < node.size(); ++size) EXPECT_FALSE(decode_node(node.substr(0, size)));
    EXPECT_FALSE(decode_node(node + "x"));
    const std::string name = encode(NameRecord{77, ObjectKind::file});
    for (std::size_t size = 0; size < name.size(); ++size) EXPECT_FALSE(decode_name(name.substr(0, size)));
    EXPECT_FALSE(decode_name(name + '\0'));
    ListingRecord listing;
    listing.hidden = {{"reason", 2}};
    const std::string listed = encode(listing);
    for (std::size_t size = 0; size < listed.size(); ++size) {
        EXPECT_FALSE(decode_listing(listed.substr(0, size)));
    }
    std::string next = encode_next_node(4112);
    next[1] = static_cast<char>(next[1] ^ 1);
    EXPECT_FALSE(decode_next_node(next));
}

TEST(IndexFormat, ImpossibleValuesAreNone) {
    EXPECT_FALSE(decode_name(encode(NameRecord{0, ObjectKind::file})));
    EXPECT_FALSE(decode_name(encode(NameRecord{kRootNode, ObjectKind::file})));
    std::string name = encode(NameRecord{77, ObjectKind::file});
    name.back() = 4;
    EXPECT_FALSE(decode_name(name));
    name.back() = 0;
    EXPECT_FALSE(decode_name(name));
    std::string node = encode(sample_node());
    node[0] = 2;
    EXPECT_FALSE(decode_node(node));
}

TEST(IndexFormat, GarbageNeverCrashesAndNeverRoundTripsWrongly) {
    std::mt19937_64 random(42);
    const std::string good[] = {encode(sample_node()), encode(NameRecord{77, ObjectKind::file}),
                                encode(ListingRecord{1, 2, {{"a", 3}, {"b", 4}}}), encode_next_node(99)};
    for (int round = 0; round < 40000; ++round) {
        std::string bytes = good[random() % 4];
        const std::size_t changes = 1 + random() % 4;
        for (std::size_t i = 0; i < changes; ++i)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 9));
        // What decodes is a whole record: writing it again gives the same bytes.
        if (const auto record = decode_node(bytes)) {
            EXPECT_EQ(encode(*record), bytes);
        }
        if (const auto record = decode_name(bytes)) {
            EXPECT_EQ(encode(*record), bytes);
        }
        if (const auto record = decode_listing(bytes)) {
            EXPECT_LE(encode(*record).size(), bytes.size());
        }
        if (const auto next = decode_next_node(bytes)) {
            EXPECT_EQ(encode_next_node(*next), bytes);
        }
    }
}

}  // namespace format_test
}  // namespace tierfs
