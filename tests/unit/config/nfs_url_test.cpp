#include "config/nfs_url.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace nfs_url_test {

TEST(NfsUrl, SaysWhatItNames) {
    const auto url =
        parse_nfs_url("nfs://Server,10.0.0.2,[FE80::1]:2050/a//b%20c/./?uid=7&gid=0&mode=hard&mountport=9");
    ASSERT_TRUE(url) << url.error().message;
    EXPECT_EQ(url->hosts, (std::vector<std::string>{"server", "10.0.0.2", "fe80::1"}));
    EXPECT_EQ(url->path, "/a/b c");
    EXPECT_EQ(url->nfs_port, 2050U);
    EXPECT_EQ(url->mount_port, 9U);
    EXPECT_EQ(url->uid, 7U);
    EXPECT_EQ(url->gid, 0U);
    EXPECT_EQ(url->mode, NfsMode::hard);
    EXPECT_EQ(url->identity(), "nfs://server/a/b c");
    EXPECT_EQ(parse_nfs_url("nfs://h/")->path, "/");
    EXPECT_EQ(parse_nfs_url("nfs://[::1]/x")->identity(), "nfs://[::1]/x");
}

TEST(NfsUrl, RefusesTheRest) {
    for (const char* source :
         {"nfs://", "nfs:///x", "nfs://h", "nfs://h:0/x", "nfs://h:70000/x", "nfs://h:/x", "nfs://a,,b/x",
          "nfs://user@h/x", "nfs://h/x/../y", "nfs://h/x%00", "nfs://h/x?uid=-1", "nfs://h/x?mode=firm",
          "nfs://h/x?port", "nfs://h/x?version=4.1", "nfs://h/x?nfsport=1&&", "s3://b"}) {
        const auto url = parse_nfs_url(source);
        ASSERT_FALSE(url) << source;
        EXPECT_EQ(url.error().code, EINVAL) << source;
        EXPECT_NE(url.error().message.find("allowed is nfs://HOST"), std::string::npos) << source;
    }
}

TEST(NfsUrl, WinsOverTheSettings) {
    const auto load = [](const std::string& source, std::vector<std::string> options) {
        return load_settings({source, "/mnt/x", std::move(options), {}, false});
    };
    const auto s =
        load("nfs://h/x?nfsport=5&uid=9", {"nfs.port=6", "nfs.mount_port=7", "origin.deadline=5s"}).value();
    EXPECT_EQ(s.nfs_port, 5U);
    EXPECT_EQ(s.nfs_mount_port, 7U);
    EXPECT_EQ(s.nfs_uid, 9U);
    EXPECT_EQ(s.origin_deadline, std::chrono::seconds(5));
    EXPECT_GT(load("nfs://h/x?mode=hard", {}).value().origin_deadline, std::chrono::hours(24 * 365));
    EXPECT_GT(load("nfs://h/x", {"nfs.mode=hard"}).value().origin_deadline, std::chrono::hours(24 * 365));
    EXPECT_EQ(load("/dir", {"nfs.mode=hard", "origin.deadline=5s"}).value().origin_deadline,
              std::chrono::seconds(5));
    EXPECT_TRUE(waits_for_ever(load("nfs://h/x?mode=hard", {}).value()));
    EXPECT_FALSE(waits_for_ever(load("nfs://h/x?mode=soft", {"nfs.mode=hard"}).value()));
    EXPECT_FALSE(waits_for_ever(load("/dir", {"nfs.mode=hard"}).value()));
    EXPECT_FALSE(load("nfs://h", {}));
}

}  // namespace nfs_url_test
}  // namespace tierfs
