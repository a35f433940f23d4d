#include "backends/s3/client/keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tierfs::s3 {
namespace keys_test {

using testing::ElementsAre;

ListedObject file(std::string key, std::uint64_t size = 1) {
    ListedObject object;
    object.key = std::move(key);
    object.size = size;
    object.etag = "\"e\"";
    return object;
}

std::vector<std::string> names(const ListPage& page) {
    std::vector<std::string> result;
    for (const auto& entry : page.entries)
        result.push_back(entry.name + (entry.attributes.kind == ObjectKind::directory ? "/" : ""));
    return result;
}

ListPage map(const std::vector<ListedObject>& objects, const std::vector<std::string>& prefixes,
             std::string_view prefix = "") {
    Listing listing;
    listing.objects = objects;
    listing.prefixes = prefixes;
    return map_listing(listing, prefix, Ownership{});
}

TEST(S3Keys, FilesAndDirectoriesSorted) {
    const auto page = map({file("p/b"), file("p/a-b")}, {"p/a/", "p/c/"}, "p/");
    EXPECT_THAT(names(page), ElementsAre("a/", "a-b", "b", "c/"));
    EXPECT_TRUE(page.hidden.empty());
}

struct Hidden {
    const char* what;
    std::string key, reason, prefix;
};

class S3HiddenKeys : public testing::TestWithParam<Hidden> {};

TEST_P(S3HiddenKeys, AreCountedAndLeaveTheirNeighbours) {
    const auto& [what, key, reason, prefix] = GetParam();
    const bool directory = key.ends_with('/');
    const auto page =
        map(directory ? std::vector{file(prefix + "ok")} : std::vector{file(key), file(prefix + "ok")},
            directory ? std::vector{key} : std::vector<std::string>{}, prefix);
    EXPECT_THAT(names(page), ElementsAre("ok"));
    EXPECT_EQ(page.hidden, (std::map<std::string, std::uint64_t>{{reason, 1}}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, S3HiddenKeys,
    testing::Values(Hidden{"empty", "a//", "empty path component", "a/"},
                    Hidden{"leading", "/", "leading /", ""}, Hidden{"dot", "./", "component . or ..", ""},
                    Hidden{"dots", "..", "component . or ..", ""},
                    Hidden{"dots_below", "a/..", "component . or ..", "a/"},
                    Hidden{"long_", std::string(256, 'x'), "name longer than 255 bytes", ""},
                    Hidden{"long_directory", std::string(256, 'x') + "/", "name longer than 255 bytes", ""},
                    Hidden{"nul", std::string("a\0b", 3), "NUL in the name", ""},
                    Hidden{"outside", "other/x", "key outside the listed prefix", "a/"}),
    [](const auto& row) { return std::string(row.param.what); });

TEST(S3Keys, OddButLegalNamesAreServed) {
    const std::string longest(255, 'x');
    const auto page =
        map({file("a\nb"), file("\xff\xfe"), file(longest), file("..."), file(" "), file("\x01")}, {});
    EXPECT_EQ(page.entries.size(), 6U);
    EXPECT_TRUE(page.hidden.empty());
}

TEST(S3Keys, ADirectoryWinsOverAFile) {
    const auto page = map({file("x"), file("y")}, {"x/"});
    EXPECT_THAT(names(page), ElementsAre("x/", "y"));
    EXPECT_EQ(page.hidden.at("file beside a directory of the same name"), 1U);
}

TEST(S3Keys, MarkersAreNoEntries) {
    EXPECT_TRUE(map({file("d/", 0)}, {}, "d/").entries.empty());
    EXPECT_TRUE(map({file("d/", 0)}, {}, "d/").hidden.empty());
    EXPECT_EQ(map({file("d/", 5)}, {}, "d/").hidden.at("directory marker with content"), 1U);
}

TEST(S3Keys, AServerWithoutDelimitersIsUnderstood) {
    const auto page = map({file("d/", 5), file("d/a"), file("d/e/f"), file("g")}, {});
    EXPECT_THAT(names(page), ElementsAre("d/", "g"));
    EXPECT_EQ(page.hidden.at("directory marker with content"), 1U);
}

TEST(S3Keys, AttributesComeFromObjectAndSettings) {
    auto object = file("f", 9);
    object.mtime_s = 5;
    const Ownership ownership{1, 2, 0640, 0750};
    const auto attributes = file_attributes(object, ownership);
    EXPECT_EQ(attributes.size, 9U);
    EXPECT_EQ(attributes.mtime_ns, 5000000000);
    EXPECT_EQ(attributes.mode, 0640U);
    EXPECT_EQ(attributes.uid, 1U);
    EXPECT_EQ(attributes.gid, 2U);
    EXPECT_EQ(attributes.version, "\"e\"");
    EXPECT_EQ(directory_attributes(ownership).mode, 0750U);
}

TEST(S3Keys, ATimeFarAwayDoesNotOverflow) {
    auto object = file("f");
    object.mtime_s = 253402300799;
    EXPECT_GT(file_attributes(object, {}).mtime_ns, 0);
    object.mtime_s = -253402300799;
    EXPECT_LT(file_attributes(object, {}).mtime_ns, 0);
}

TEST(S3Keys, ArchivedUnlessRestored) {
    auto object = file("f");
    EXPECT_FALSE(file_attributes(object, {}).archived);
    for (const char* storage_class : {"GLACIER", "DEEP_ARCHIVE"}) {
        object.storage_class = storage_class;
        object.restored = false;
        EXPECT_TRUE(file_attributes(object, {}).archived);
        object.restored = true;
        EXPECT_FALSE(file_attributes(object, {}).archived);
    }
    object.storage_class = "GLACIER_IR";
    object.restored = false;
    EXPECT_FALSE(file_attributes(object, {}).archived);
}

TEST(S3Keys, VersionsAreTheSameFromListAndHead) {
    EXPECT_EQ(make_version("\"a\"", 1, 2), "\"a\"");
    EXPECT_EQ(make_version("a", 1, 2), "\"a\"");
    EXPECT_EQ(make_version("W/\"a\"", 1, 2), "W/\"a\"");
    EXPECT_EQ(make_version("", 1, 2), "1-2");
    EXPECT_EQ(make_version("\"a\r\nX: y\"", 1, 2), "1-2") << "it goes into If-Match";
    EXPECT_EQ(make_version(std::string(kLongestEtag + 1, 'e'), 1, 2), "1-2") << "it is kept for each name";
    EXPECT_TRUE(is_strong_etag("\"a\""));
    EXPECT_FALSE(is_strong_etag("W/\"a\""));
    EXPECT_FALSE(is_strong_etag("1-2"));
}

}  // namespace keys_test
}  // namespace tierfs::s3
