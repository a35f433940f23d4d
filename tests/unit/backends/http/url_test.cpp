#include "backends/http/url.hpp"

#include <gtest/gtest.h>

namespace tierfs::http {
namespace url_test {

TEST(HttpUrl, EncodesAllButUnreserved) {
    EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
    EXPECT_EQ(percent_encode("a b/c+d%e"), "a%20b%2Fc%2Bd%25e");
    EXPECT_EQ(percent_encode("a b/c", true), "a%20b/c");
    EXPECT_EQ(percent_encode(std::string("\xff\n\0", 3)), "%FF%0A%00");
}

TEST(HttpUrl, DecodesAndKeepsWhatIsNoEscape) {
    EXPECT_EQ(percent_decode("a%20b+c"), "a b+c");
    EXPECT_EQ(percent_decode("a%20b+c%2B", true), "a b c+");
    EXPECT_EQ(percent_decode("100%"), "100%");
    EXPECT_EQ(percent_decode("%zz%4"), "%zz%4");
    EXPECT_EQ(percent_decode("%2f%00"), std::string("/\0", 2));
}

TEST(HttpUrl, EveryByteSurvivesTheRoundTrip) {
    std::string all;
    for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
    EXPECT_EQ(percent_decode(percent_encode(all)), all);
    EXPECT_EQ(percent_decode(percent_encode(all), true), all);
}

TEST(HttpUrl, ParsesParts) {
    const auto url = parse_url("https://Example.COM:8443/a/b?c=d#e");
    ASSERT_TRUE(url);
    EXPECT_TRUE(url->tls);
    EXPECT_EQ(url->authority(), "example.com:8443");
    EXPECT_EQ(url->path, "/a/b");
    EXPECT_EQ(url->query, "c=d");
    EXPECT_EQ(parse_url("http://h:80")->authority(), "h");
    EXPECT_EQ(parse_url("http://h")->base(), "http://h");
    EXPECT_EQ(parse_url("http://[::1]:9000")->authority(), "[::1]:9000");
}

TEST(HttpUrl, TellsAddressesFromNames) {
    EXPECT_TRUE(parse_url("http://127.0.0.1:1")->is_address());
    EXPECT_TRUE(parse_url("http://[::1]")->is_address());
    EXPECT_FALSE(parse_url("http://127.0.0.1.example.com")->is_address());
}

TEST(HttpUrl, RefusesWhatIsNone) {
    for (const char* text : {"", "h", "ftp://h", "http://", "http://:80", "http://h:0", "http://h:65536",
                             "http://h:8x", "http://::1:80", "http://a]", "http://[::1", "http://[h]",
                             "http://[::1]x", "http://u:p@h", "http://a b", "http://a\r\nX: y"})
        EXPECT_FALSE(parse_url(text)) << text;
}

}  // namespace url_test
}  // namespace tierfs::http
