#include "fs/daemon/takeover_request.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tierfs {
namespace takeover_request_test {

TakeoverRequest request(std::vector<std::string> options, std::optional<std::string> text = {}) {
    TakeoverRequest made;
    made.sources.source = "/da\xff\"ta";
    made.sources.mountpoint = "/mnt";
    made.sources.options = std::move(options);
    made.config_text = std::move(text);
    made.log_file = "/var/log/x.log";
    made.scratch = "/var/cache/tierfs/mount-1";
    made.supervisor_pid = 42;
    return made;
}

Settings settings_of(const TakeoverRequest& made) {
    auto settings = made.settings({});
    EXPECT_TRUE(settings) << settings.error().message;
    return settings.value_or(Settings{});
}

TEST(TakeoverRequest, ArrivesAsItWasSent) {
    auto sent = request({"config=/etc/x.yaml", "memory.limit=200M"}, "ram.limit: 5M\n# \xfe\n");
    sent.lasting = {{"ro", "true"}, {"nvme.path", "/\xff"}};
    const auto file = sent.write();
    ASSERT_TRUE(file) << file.error().message;
    const auto got = TakeoverRequest::read(*file);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->sources.source, sent.sources.source);
    EXPECT_EQ(got->sources.mountpoint, sent.sources.mountpoint);
    EXPECT_EQ(got->sources.options, sent.sources.options);
    EXPECT_FALSE(got->sources.foreground);
    EXPECT_EQ(got->config_text, sent.config_text);
    EXPECT_EQ(got->log_file, sent.log_file);
    EXPECT_EQ(got->scratch, sent.scratch);
    EXPECT_EQ(got->supervisor_pid, 42);
    EXPECT_EQ(got->lasting, sent.lasting);
}

TEST(TakeoverRequest, OfAnotherFormIsRefused) {
    for (const std::string text : {"", "null", "[]", R"({"form": 2, "source": ""})", R"({"form": "1"})",
                                   R"({"form": 1})", R"({"form": 1, "source": 7})"}) {
        FileDescriptor file(::memfd_create("request", MFD_CLOEXEC));
        ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
        const auto got = TakeoverRequest::read(file);
        ASSERT_FALSE(got) << text;
        EXPECT_EQ(got.error().code, EPROTO);
    }
}

TEST(TakeoverRequest, TakesUpTheTextThatItBrings) {
    const auto settings = settings_of(
        request({"config=/there/is/none", "ram.limit=7M"}, "memory.limit: 300M\nram.limit: 5M\n"));
    EXPECT_EQ(settings.memory_limit, 300U << 20);
    EXPECT_EQ(settings.ram_limit, 7U << 20) << "an option wins over the file";
    EXPECT_EQ(settings.log_file, "/var/log/x.log") << "where the supervisor writes";
    const auto wrong = request({"config=/x.yaml"}, "no.such.key: 1\n").settings({});
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message.find("/x.yaml:1"), std::string::npos) << wrong.error().message;
}

TEST(TakeoverRequest, WhatLastsMustNotChange) {
    const auto first = request({"profile=large", "config=/x.yaml"}, "ram.limit: 5M\n");
    const auto lasting = lasting_settings(settings_of(first));
    const auto with = [&](const std::string& text) {
        auto made = request({"profile=large", "config=/x.yaml"}, text);
        made.lasting = lasting;
        return made.settings({});
    };
    EXPECT_TRUE(with("ram.limit: 6M\nlog.level: debug\nclass: epoch\nmetadata.ttl: 1m\n"));
    EXPECT_TRUE(with("datasets:\n- match: /a/**\n  class: hot\n"));
    for (const std::string text :
         {"metadata.ttl: 5s", "allow_other: true", "allow_suid: true", "supervisor: false",
          "restart.limit: 7", "nvme.path: /nvme", "index.path: /nvme", "s3.endpoint: http://x", "s3.uid: 77",
          "s3.gid: 77", "s3.file_mode: 0400", "s3.directory_mode: 0500", "log.file: /y.log",
          "log.format: json"}) {
        const auto settings = with(text + "\n");
        ASSERT_FALSE(settings) << text;
        EXPECT_EQ(settings.error().code, EINVAL);
        EXPECT_EQ(settings.error().message.find(text.substr(0, text.find(':'))), 0U)
            << settings.error().message;
    }
    EXPECT_FALSE(with("datasets:\n- match: /a/**\n  immutable: true\n"));
}

TEST(TakeoverRequest, RulesThatSayImmutableLastWithAllPatterns) {
    const auto rules = [](const std::string& match, const std::string& rest) {
        return request({"config=/x.yaml"}, "datasets:\n- match: " + match +
                                               "\n  class: hot\n- match: /b/**\n  immutable: true\n" + rest);
    };
    const auto lasting = lasting_settings(settings_of(rules("/a/**", "")));
    const auto same = [&](TakeoverRequest made) {
        made.lasting = lasting;
        return made.settings({}).has_value();
    };
    EXPECT_TRUE(same(rules("/a/**", "  class: epoch\n")));
    EXPECT_FALSE(same(rules("/c/**", ""))) << "other files come to the immutable rule";
    EXPECT_FALSE(same(request({}, {})));
}

TEST(TakeoverRequest, KeysThatOneSideDoesNotKnowAreNoChange) {
    auto made = request({});
    made.lasting = {{"of.another.version", "x"}};
    EXPECT_TRUE(made.settings({}));
}

}  // namespace takeover_request_test
}  // namespace tierfs
