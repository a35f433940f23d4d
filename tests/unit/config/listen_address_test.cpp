#include "config/listen_address.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace listen_address_test {

TEST(ListenAddress, IsOfThisMachineAlone) {
    const auto port = parse_listen_address("127.0.0.1:9464");
    ASSERT_TRUE(port);
    EXPECT_EQ(port->host, "127.0.0.1");
    EXPECT_EQ(port->port, 9464);
    EXPECT_EQ(parse_listen_address("localhost:1").value().host, "127.0.0.1");
    EXPECT_EQ(parse_listen_address("127.1.2.3:65535").value().port, 65535);
    EXPECT_EQ(parse_listen_address("[::1]:80").value().host, "::1");
    EXPECT_EQ(parse_listen_address("/run/x.sock").value().path, "/run/x.sock");
    for (const char* bad : {"", ":80", "9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                            "127.0.0.1:80x", "0.0.0.0:80", "10.0.0.1:80", "[::]:80", "::1:80",
                            "[127.0.0.1]:80", "host:80", "relative/path", "[]:80"})
        EXPECT_FALSE(parse_listen_address(bad)) << bad;
    EXPECT_FALSE(parse_listen_address("/" + std::string(107, 'x')));
    EXPECT_TRUE(parse_listen_address("/" + std::string(106, 'x')));
}

}  // namespace listen_address_test
}  // namespace tierfs
