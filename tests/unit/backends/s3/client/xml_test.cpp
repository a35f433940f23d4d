#include "backends/s3/client/xml.hpp"

#include <gtest/gtest.h>

namespace tierfs::s3 {
namespace xml_test {

std::string listing(const std::string& inside) {
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
           "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>" +
           inside + "</ListBucketResult>";
}

std::string object(const std::string& key, const std::string& size = "1") {
    return "<Contents><Key>" + key +
           "</Key><LastModified>2024-01-31T23:59:59.500Z</LastModified><ETag>&quot;e&quot;" +
           "</ETag><Size>" + size + "</Size><StorageClass>STANDARD</StorageClass></Contents>";
}

TEST(S3Xml, ReadsAListing) {
    const auto result = parse_listing(
        listing("<IsTruncated>true</IsTruncated><NextContinuationToken>t+/=</NextContinuationToken>" +
                object("a", "7") + "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>"));
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->objects.size(), 1U);
    EXPECT_EQ(result->objects[0].key, "a");
    EXPECT_EQ(result->objects[0].size, 7U);
    EXPECT_EQ(result->objects[0].etag, "\"e\"");
    EXPECT_EQ(result->objects[0].mtime_s, 1706745599);
    EXPECT_EQ(result->prefixes, std::vector<std::string>{"d/"});
    EXPECT_EQ(result->next_token, "t+/=");
}

TEST(S3Xml, AnEmptyListingIsOne) {
    const auto result = parse_listing(listing(""));
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->objects.empty());
    EXPECT_TRUE(result->next_token.empty());
}

TEST(S3Xml, DecodesOnlyWhatIsSaidToBeEncoded) {
    EXPECT_EQ(parse_listing(listing(object("a%20b+c")))->objects[0].key, "a%20b+c");
    const std::string url = "<EncodingType>url</EncodingType>";
    EXPECT_EQ(parse_listing(listing(url + object("a+b%2Bc%0A%FF")))->objects[0].key, "a b+c\n\xff");
    EXPECT_EQ(parse_listing(listing(url + object("a%20b+c")))->objects[0].key, "a b+c");
    EXPECT_EQ(parse_listing(listing(url + "<CommonPrefixes><Prefix>x%2Fy+z/</Prefix></CommonPrefixes>"))
                  ->prefixes[0],
              "x/y z/");
}

TEST(S3Xml, KeepsOddKeysAsTheyAre) {
    EXPECT_EQ(parse_listing(listing(object(" ")))->objects[0].key, " ");
    EXPECT_EQ(parse_listing(listing(object("a&amp;b&lt;&#13;&#10;")))->objects[0].key, "a&b<\r\n");
    EXPECT_EQ(parse_listing(listing(object("\x80\xff")))->objects[0].key, "\x80\xff");
    EXPECT_EQ(parse_listing(listing(object("<![CDATA[a<b]]>")))->objects[0].key, "a<b");
}

TEST(S3Xml, RefusesGarbage) {
    for (const std::string body : {"", "hello", "<", "<ListBucketResult>", "<html><body>login</body></html>",
                                   "{}", "<ListBucketResult></Other>", "<Error><Code>X</Code></Error>"})
        EXPECT_FALSE(parse_listing(body)) << body;
    EXPECT_FALSE(parse_listing(std::string("\0\0\0", 3)));
    EXPECT_FALSE(parse_listing(listing("<Contents><Size>1</Size></Contents>")));
    for (const char* size : {"", "x", "-1", "1.5", "99999999999999999999", "18446744073709551615", "1 "})
        EXPECT_FALSE(parse_listing(listing(object("a", size)))) << size;
    EXPECT_FALSE(parse_listing(listing("<IsTruncated>true</IsTruncated>")));
}

TEST(S3Xml, EveryCutOfAListingIsRefusedOrSmaller) {
    const auto whole =
        listing(object("a") + object("b") + "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>");
    for (std::size_t length = 0; length + 1 < whole.size(); ++length)
        EXPECT_FALSE(parse_listing(std::string_view(whole).substr(0, length))) << length;
}

TEST(S3Xml, DeepNestingDoesNoHarm) {
    std::string deep;
    for (int i = 0; i < 200000; ++i) deep += "<a>";
    EXPECT_FALSE(parse_listing(deep));
    EXPECT_EQ(parse_error(deep).code, "");
    std::string closed = deep;
    for (int i = 0; i < 200000; ++i) closed += "</a>";
    EXPECT_FALSE(parse_listing(closed));
    EXPECT_EQ(find_text(closed, "Token"), "");
}

/// A tree takes sixty times the bytes of "<a/>".
TEST(S3Xml, MoreTagsThanAnyPageHasAreRefused) {
    std::string page = "<ListBucketResult><IsTruncated>false</IsTruncated>";
    for (int i = 0; i < 1000; ++i)
        page +=
            "<Contents><Key>k</Key><LastModified>2024-05-06T07:08:09.000Z</LastModified><ETag>e</ETag><Size>1</Size>"
            "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><StorageClass>STANDARD"
            "</StorageClass><Owner><ID>i</ID><DisplayName>n</DisplayName></Owner><RestoreStatus><IsRestoreInProgress>false"
            "</IsRestoreInProgress><RestoreExpiryDate>x</RestoreExpiryDate></RestoreStatus></Contents>";
    EXPECT_EQ(parse_listing(page + "</ListBucketResult>").value().objects.size(), 1000U);
    for (int i = 0; i < 200'000; ++i) page += "<a/>";
    const auto refused = parse_listing(page + "</ListBucketResult>");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("more tags"), std::string::npos) << refused.error().message;
}

TEST(S3Xml, ADtdIsRefusedAndItsEntitiesAreNotExpanded) {
    const std::string dtd = "<!DOCTYPE x [<!ENTITY e \"boom\">]>";
    EXPECT_FALSE(parse_listing(dtd + listing(object("&e;")).substr(39)));
    EXPECT_EQ(parse_error(dtd + "<Error><Code>&e;</Code></Error>").code, "") << "no error of S3";
    EXPECT_EQ(parse_listing(listing(object("&e;")))->objects[0].key, "&e;");
}

TEST(S3Xml, ReadsErrorsOfS3AndSts) {
    const auto error =
        parse_error("<Error><Code>NoSuchKey</Code><Message>gone</Message><Region>r</Region></Error>");
    EXPECT_EQ(error.code, "NoSuchKey");
    EXPECT_EQ(error.message, "gone");
    EXPECT_EQ(error.region, "r");
    EXPECT_EQ(
        parse_error("<ErrorResponse xmlns=\"x\"><Error><Code>AccessDenied</Code></Error></ErrorResponse>")
            .code,
        "AccessDenied");
    EXPECT_EQ(parse_error("<html>no</html>").code, "");
    EXPECT_LE(
        parse_error("<Error><Message>" + std::string(100000, 'x') + "</Message></Error>").message.size(),
        500U);
}

TEST(S3Xml, ReadsTimes) {
    EXPECT_EQ(parse_iso_time("1970-01-01T00:00:10Z"), 10);
    EXPECT_EQ(parse_iso_time("2024-01-31T23:59:59.500Z"), 1706745599);
    EXPECT_EQ(parse_iso_time("yesterday"), std::nullopt);
    EXPECT_EQ(parse_iso_time(""), std::nullopt);
}

}  // namespace xml_test
}  // namespace tierfs::s3
