#include "backends/http/header_line.hpp"

#include <gtest/gtest.h>

namespace tierfs::http {
namespace header_line_test {

Response response_of(std::initializer_list<std::string_view> lines) {
    Response response;
    for (const auto line : lines) take_header_line(response, line);
    return response;
}

TEST(HttpHeaderLine, NamesInLowerCaseAndValuesWithoutBlanks) {
    const auto response =
        response_of({"HTTP/1.1 206 Partial Content\r\n", "ETag:  \"a b\" \r\n", "X:\r\n", "\r\n"});
    EXPECT_EQ(response.status, 206);
    EXPECT_EQ(response.header("etag"), "\"a b\"");
    EXPECT_EQ(response.headers.size(), 2U);
}

TEST(HttpHeaderLine, AStatusLineStartsAnew) {
    const auto response =
        response_of({"HTTP/1.1 100 Continue\r\n", "A: b\r\n", "HTTP/1.1 404 Not Found\r\n"});
    EXPECT_EQ(response.status, 404);
    EXPECT_TRUE(response.headers.empty());
}

TEST(HttpHeaderLine, AStatusThatIsNoNumberIsNone) {
    for (const char* line : {"HTTP/1.1 -200 x", "HTTP/1.1", "HTTP/1.1 x", "HTTP/1.1 99999999999"})
        EXPECT_EQ(response_of({line}).status, 0) << line;
}

TEST(HttpHeaderLine, WhatIsNoHeaderIsLeftOut) {
    EXPECT_TRUE(response_of({"no colon\r\n", "\r\n", ""}).headers.empty());
}

}  // namespace header_line_test
}  // namespace tierfs::http
