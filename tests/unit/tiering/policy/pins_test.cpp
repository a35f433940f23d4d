#include "tiering/policy/pins.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>

#include "config/base/crc32c.hpp"
#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/policy/datasets.hpp"

namespace tierfs {
namespace pins_test {

namespace fs = std::filesystem;

constexpr std::uint64_t kLimit = 1000;

std::string text_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

class PinsTest : public ::testing::Test {
  protected:
    PinsTest() {
        std::string name = (fs::temp_directory_path() / "tierfs-pins-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
        base_ = name;
        for (const char* each : {"a", "b"}) fs::create_directory(base_ / each);
    }
    ~PinsTest() override {
        std::error_code ignored;
        fs::remove_all(base_, ignored);
    }
    [[nodiscard]] std::vector<fs::path> both() const { return {base_ / "a", base_ / "b"}; }
    fs::path base_;
};

TEST_F(PinsTest, APinCoversAPathAndAllBelowIt) {
    Pins pins;
    EXPECT_EQ(pins.generation(), 0U);
    EXPECT_FALSE(pins.covering("a/b"));
    EXPECT_EQ(pins.add("a/b", {1, 10}, kLimit).value(), Pins::Added::yes);
    EXPECT_NE(pins.generation(), 0U);
    EXPECT_EQ(pins.covering("a/b"), "a/b");
    EXPECT_EQ(pins.covering("a/b/c/d"), "a/b");
    for (const char* other : {"a", "a/bc", "a/b0", "", "b"}) EXPECT_FALSE(pins.covering(other)) << other;
    EXPECT_EQ(pins.add("a/b/c", {1, 10}, kLimit).value(), Pins::Added::before);
    EXPECT_EQ(pins.totals().bytes, 10U);
    EXPECT_EQ(pins.add("", {5, 50}, kLimit).value(), Pins::Added::yes) << "takes the other one in";
    EXPECT_EQ(pins.totals().paths, 1U);
    EXPECT_EQ(pins.totals().bytes, 50U);
    EXPECT_EQ(pins.covering("x"), "");
}

TEST_F(PinsTest, ATreeTakesInWhatIsBelowItAndNothingBeside) {
    Pins pins;
    for (const char* path : {"a", "a!", "a/x", "a/y/z", "a0"}) {
        if (std::string(path) != "a") {
            ASSERT_TRUE(pins.add(path, {1, 10}, kLimit));
        }
    }
    ASSERT_TRUE(pins.add("a", {9, 90}, kLimit));
    EXPECT_EQ(pins.paths(), (std::vector<std::string>{"a", "a!", "a0"}));
    EXPECT_EQ(pins.totals().bytes, 110U);
    const auto part = pins.remove("a/x");
    ASSERT_FALSE(part);
    EXPECT_EQ(part.error().code, EINVAL);
    EXPECT_NE(part.error().message.find("/a: unpin that"), std::string::npos) << part.error().message;
    EXPECT_EQ(pins.remove("b").error().code, ENOENT);
    EXPECT_EQ(pins.remove("").value(), (PinSize{11, 110})) << "all below";
    EXPECT_EQ(pins.totals().paths, 0U);
}

TEST_F(PinsTest, TheLimitIsOfAllTogether) {
    Pins pins;
    ASSERT_TRUE(pins.add("a/x", {1, 600}, kLimit));
    const auto refused = pins.add("b", {1, 401}, kLimit);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOSPC);
    EXPECT_NE(refused.error().message.find("pin.limit"), std::string::npos);
    ASSERT_TRUE(pins.add("b", {1, 400}, kLimit));
    EXPECT_TRUE(pins.add("a", {2, 600}, kLimit)) << "it holds what was pinned before";
    EXPECT_FALSE(pins.add("c", {1, 1}, kLimit));
    EXPECT_FALSE(pins.add("d", {0, 1}, 10)) << "the limit was lowered";
    ASSERT_TRUE(pins.remove("a"));
    EXPECT_TRUE(pins.add("c", {1, 600}, kLimit));
}

TEST_F(PinsTest, NamesOfAnyBytesComeBack) {
    const std::string odd("caf\xe9 %\n\x01\0/x", 11);
    {
        Pins pins(both());
        ASSERT_TRUE(pins.add(odd, {1, 2}, kLimit));
        ASSERT_TRUE(pins.add("plain/path", {3, 4}, kLimit));
        ASSERT_TRUE(pins.commit());
        ASSERT_TRUE(pins.add("not written", {1, 2}, kLimit));
    }
    const Pins again(both());
    EXPECT_NE(again.generation(), 0U);
    EXPECT_EQ(again.paths(), (std::vector<std::string>{odd, "plain/path"}));
    EXPECT_EQ(again.totals().files, 4U);
    EXPECT_EQ(again.totals().bytes, 6U);
}

TEST_F(PinsTest, TheLatestOfSeveralFoldersCounts) {
    {
        Pins pins({base_ / "a", base_ / "b"});
        ASSERT_TRUE(pins.add("old", {1, 1}, kLimit));
        ASSERT_TRUE(pins.commit());
    }
    {
        Pins pins({base_ / "b"});  // the other device is missing
        ASSERT_TRUE(pins.remove("old"));
        ASSERT_TRUE(pins.add("new", {1, 1}, kLimit));
        ASSERT_TRUE(pins.commit());
    }
    EXPECT_EQ(Pins(both()).paths(), (std::vector<std::string>{"new"}));
    fs::remove_all(base_ / "b");
    Pins one(both());  // what is gone does not hinder
    ASSERT_TRUE(one.add("more", {1, 1}, kLimit));
    EXPECT_TRUE(one.commit());
}

TEST_F(PinsTest, WhatCannotBeWrittenDownIsTakenBack) {
    Pins pins({base_ / "a"});
    ASSERT_TRUE(pins.add("kept", {1, 100}, kLimit));
    ASSERT_TRUE(pins.commit());
    fs::remove_all(base_ / "a");
    ASSERT_TRUE(pins.add("x", {1, 10}, kLimit));
    ASSERT_TRUE(pins.remove("kept"));
    ASSERT_TRUE(pins.add("", {1, 10}, kLimit));
    const auto before = pins.generation();
    const auto refused = pins.commit();
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("cannot be written down"), std::string::npos);
    EXPECT_NE(pins.generation(), before);
    EXPECT_EQ(pins.paths(), (std::vector<std::string>{"kept"}));
    EXPECT_EQ(pins.totals().bytes, 100U);
    EXPECT_TRUE(pins.commit()) << "there is nothing to write any more";
}

TEST_F(PinsTest, DamageIsSetAsideAndAnotherVersionLeftAlone) {
    {
        Pins pins({base_ / "a"});
        ASSERT_TRUE(pins.add("x", {1, 10}, kLimit));
        ASSERT_TRUE(pins.commit());
    }
    const fs::path file = base_ / "a" / "pins";
    const std::string good = text_of(file);
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        EXPECT_FALSE(parse_pins(bad)) << at;
        EXPECT_FALSE(parse_pins(std::string_view(good).substr(0, at))) << at;
    }
    write(file, good + " ");
    EXPECT_TRUE(Pins({base_ / "a"}).paths().empty());
    EXPECT_TRUE(fs::exists(base_ / "a" / "pins.damaged"));
    EXPECT_FALSE(fs::exists(file));

    const std::string body = "tierfs pins 2\nsequence 5\nset of pins\n";
    char sum[9];
    std::snprintf(sum, sizeof(sum), "%08x", crc32c(0, std::as_bytes(std::span(body))));
    const std::string foreign = body + "end " + sum + "\n";
    EXPECT_EQ(parse_pins(foreign).error().code, EPROTO);
    write(file, foreign);
    Pins pins({base_ / "a"});
    EXPECT_EQ(pins.add("y", {1, 1}, kLimit).error().code, EPROTO);
    EXPECT_EQ(pins.remove("x").error().code, EPROTO);
    EXPECT_EQ(text_of(file), foreign);
}

TEST_F(PinsTest, LinesThatALaterVersionAddsAreLeftOut) {
    std::string body = format_pins({7, {{"x", {1, 2}}}});
    body.resize(body.rfind("end "));
    body += "colour x red\n";
    char sum[9];
    std::snprintf(sum, sizeof(sum), "%08x", crc32c(0, std::as_bytes(std::span(body))));
    const auto parsed = parse_pins(body + "end " + sum + "\n");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->sequence, 7U);
    EXPECT_EQ(parsed->pins.size(), 1U);
}

TEST_F(PinsTest, DatasetsFindWhatIsPinnedAndForgetItAgain) {
    Pins pins;
    Settings settings;
    Datasets datasets(settings, &pins);
    const auto object = fake::object("a/x", 10);
    EXPECT_EQ(datasets.of(*object).number, 0U);
    ASSERT_TRUE(pins.add("a", {1, 1}, kLimit));
    const DatasetNumber first = datasets.of(*object).number;
    EXPECT_TRUE(datasets.is_pinned_by_path(datasets.of(*object)));
    EXPECT_EQ(datasets.of(*fake::object("b", 1)).number, 0U);
    datasets.turn_pinned();
    EXPECT_NE(datasets.of(*object).number, first);
    EXPECT_EQ(datasets.pinned_before().number, first);
    ASSERT_TRUE(pins.remove("a"));
    EXPECT_EQ(datasets.of(*object).number, 0U);
}

}  // namespace pins_test
}  // namespace tierfs
