#include "backends/nfs/reply_stream.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace tierfs::nfs {
namespace reply_stream_test {

std::string attributes_text(std::uint32_t type = 1, std::uint64_t size = 77) {
    XdrWriter out;
    for (const std::uint32_t word : {type, 0644U, 1U, 10U, 20U}) out.u32(word);
    out.u64(size);
    for (const std::uint64_t wide : {std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{42}})
        out.u64(wide);
    for (const std::uint32_t word : {1U, 2U, 3U, 4U, 5U, 6U}) out.u32(word);  // atime, mtime, ctime
    return out.take();
}

std::string head_text(std::uint32_t xid) {
    XdrWriter out;
    for (const std::uint32_t word : {xid, 1U, 0U, 0U, 0U, 0U}) out.u32(word);
    return out.take();
}

std::string read_text(std::uint32_t xid, const std::string& data) {
    XdrWriter out;
    out.u32(0);
    out.flag(true);
    const auto attributes = attributes_text();
    XdrWriter rest;
    rest.u32(static_cast<std::uint32_t>(data.size()));
    rest.flag(true);
    rest.opaque(data);
    return head_text(xid) + out.text() + attributes + rest.text();
}

std::string marked(const std::string& fragment, bool last = true) {
    XdrWriter mark;
    mark.u32((last ? 0x80000000U : 0U) | static_cast<std::uint32_t>(fragment.size()));
    return mark.text() + fragment;
}

/// Waits for xids below 100; READs are those below 50.
class Sink final : public ReplySink {
  public:
    std::optional<Expected> expected(std::uint32_t xid) override {
        if (xid >= 100 || replies.contains(xid)) return std::nullopt;
        return xid < 50 ? Expected{true, std::as_writable_bytes(std::span(room))} : Expected{};
    }
    void replied(std::uint32_t xid, const Reply& reply) override {
        const bool is_read = xid < 50 && reply.acceptance.code == 0;
        const auto size = is_read ? reply.read.length : reply.body.size();
        const auto* from = is_read ? room.data() : reinterpret_cast<const char*>(reply.body.data());
        replies[xid] = std::string(from, size);
        codes[xid] = reply.acceptance.code;
    }
    std::string room = std::string(300000, '.');
    std::map<std::uint32_t, std::string> replies;
    std::map<std::uint32_t, int> codes;
};

/// Feeds bytes as a socket would, `step` at a time at most.
Result<void> feed(ReplyStream& stream, std::string_view bytes, std::size_t step) {
    while (!bytes.empty()) {
        std::size_t took = 0;
        for (const auto& part : stream.space()) {
            const auto count = std::min({part.iov_len, step - took, bytes.size()});
            if (count > 0) std::memcpy(part.iov_base, bytes.data(), count);
            bytes.remove_prefix(count);
            took += count;
        }
        if (auto taken = stream.received(took); !taken) return taken;
    }
    return {};
}

TEST(NfsReplyStream, RepliesInPiecesOfAnySize) {
    std::string data(200001, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
    const auto other = head_text(60) + "body";
    const auto whole = read_text(7, data);
    const auto wire = marked(whole) + marked(other) + marked(whole.substr(0, 4) + whole.substr(4)) +
                      marked(read_text(8, ""));
    for (const std::size_t step :
         {std::size_t{1000000}, std::size_t{131072}, std::size_t{4097}, std::size_t{3}}) {
        Sink sink;
        ReplyStream stream(sink, 1 << 20);
        ASSERT_TRUE(feed(stream, wire, step)) << step;
        EXPECT_EQ(sink.replies.at(60), "body");
        EXPECT_EQ(sink.replies.at(7), data) << step;
        EXPECT_EQ(sink.replies.at(8), "");
        EXPECT_FALSE(stream.is_within_record());
    }
}

TEST(NfsReplyStream, RecordsOfSeveralFragments) {
    const std::string data(5000, 'x');
    const auto whole = read_text(7, data);
    for (const std::size_t cut : {std::size_t{3}, std::size_t{100}, std::size_t{600}, std::size_t{3000}}) {
        Sink sink;
        ReplyStream stream(sink, 1 << 20);
        const auto wire =
            marked(whole.substr(0, cut), false) + marked(whole.substr(cut)) + marked(head_text(60) + "next");
        ASSERT_TRUE(feed(stream, wire, 700)) << cut;
        EXPECT_EQ(sink.replies.at(60), "next");
        if (cut == 3) continue;  // even the xid is in two
        EXPECT_EQ(sink.replies.at(7), data) << cut;
    }
}

TEST(NfsReplyStream, NothingIsWrittenForACallThatWasGivenUp) {
    Sink sink;
    ReplyStream stream(sink, 1 << 20);
    const auto wire = marked(read_text(7, std::string(250000, 'x')));
    ASSERT_TRUE(feed(stream, std::string_view(wire).substr(0, 150000), 4096));
    stream.abandon(7);
    sink.room.assign(sink.room.size(), '.');
    ASSERT_TRUE(feed(stream, std::string_view(wire).substr(150000), 4096));
    EXPECT_EQ(sink.room.find('x'), std::string::npos);
    EXPECT_TRUE(sink.replies.empty());
    ASSERT_TRUE(feed(stream, marked(head_text(60) + "next"), 4096));
    EXPECT_EQ(sink.replies.at(60), "next");
}

TEST(NfsReplyStream, WhatCannotBeEndsTheStream) {
    const auto wrong = [](std::string wire) {
        Sink sink;
        ReplyStream stream(sink, 1 << 20);
        return !feed(stream, wire, 5000);
    };
    auto good = read_text(7, std::string(400, 'd'));
    EXPECT_FALSE(wrong(marked(good)));
    const auto with = [&](std::size_t at, std::uint32_t value) {
        XdrWriter word;
        word.u32(value);
        auto other = good;
        return marked(other.replace(at, 4, word.text()));
    };
    EXPECT_TRUE(wrong(with(4, 0))) << "a call";
    EXPECT_TRUE(wrong(with(8, 2))) << "neither accepted nor denied";
    EXPECT_TRUE(wrong(with(16, 0xFFFFFFF0))) << "a verifier longer than anything";
    EXPECT_TRUE(wrong(with(20, 6))) << "no state of acceptance";
    EXPECT_TRUE(wrong(with(28, 2))) << "no truth value";
    EXPECT_TRUE(wrong(with(32, 8))) << "no type of file";
    EXPECT_TRUE(wrong(with(124, 0xFFFFFF00))) << "more data than there are";
    EXPECT_TRUE(wrong(with(124, 399))) << "two lengths";
    EXPECT_TRUE(wrong(marked(""))) << "a record of nothing";
    EXPECT_TRUE(wrong(marked(good, false) + marked(std::string(2 << 20, 'x')))) << "too long in all";
    EXPECT_TRUE(wrong(std::string("\xff\xff\xff\xff", 4))) << "a record of two gigabytes";
    EXPECT_TRUE(wrong(marked(read_text(7, std::string(300001, 'd'))))) << "more than was asked for";
}

TEST(NfsReplyStream, Refusals) {
    Sink sink;
    ReplyStream stream(sink, 1 << 20);
    XdrWriter denied;
    for (const std::uint32_t word : {60U, 1U, 1U, 1U, 5U}) denied.u32(word);
    XdrWriter unknown;
    for (const std::uint32_t word : {61U, 1U, 0U, 0U, 0U, 3U}) unknown.u32(word);
    ASSERT_TRUE(feed(stream, marked(denied.text()) + marked(unknown.text()), 9));
    EXPECT_EQ(sink.codes.at(60), EACCES);
    EXPECT_EQ(sink.codes.at(61), EOPNOTSUPP);
}

TEST(NfsMessages, AListingIsReadWholeOrNotAtAll) {
    XdrWriter out;
    out.u32(0);
    out.flag(false);
    out.fixed("12345678");
    for (int i = 0; i < 3; ++i) {
        out.flag(true);
        out.u64(9);
        out.opaque("name" + std::to_string(i));
        out.u64(static_cast<std::uint64_t>(i));
        out.flag(true);
        const auto before = out.take();
        XdrWriter next;
        next.fixed(before);
        next.fixed(attributes_text(2));
        next.flag(true);
        next.opaque("handle");
        out = next;
    }
    out.flag(false);
    out.flag(true);
    const auto text = out.text();
    XdrReader in(std::as_bytes(std::span(text)));
    const auto reply = read_readdirplus(in);
    ASSERT_TRUE(in.ok());
    ASSERT_EQ(reply.entries.size(), 3U);
    EXPECT_TRUE(reply.at_end);
    EXPECT_EQ(reply.entries[2].name, "name2");
    EXPECT_EQ(reply.entries[2].handle, "handle");
    EXPECT_EQ(reply.entries[2].status->st_mode & S_IFMT, static_cast<mode_t>(S_IFDIR));
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
        XdrReader shorter(std::as_bytes(std::span(text).first(cut)));
        read_readdirplus(shorter);
        EXPECT_FALSE(shorter.ok()) << cut;
    }
}

}  // namespace reply_stream_test
}  // namespace tierfs::nfs
