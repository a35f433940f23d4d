#include "config/base/glob.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace tierfs {
namespace glob_test {

bool matches(std::string_view pattern, std::string_view path) {
    const auto glob = Glob::compile(pattern);
    EXPECT_TRUE(glob) << pattern << ": " << glob.error().message;
    return glob && glob->matches(path);
}

struct Case {
    const char* pattern;
    const char* path;
};

TEST(ConfigGlob, Matches) {
    for (const auto& [pattern, path] : std::initializer_list<Case>{
             {"/**", "a"},
             {"/**", "a/b/c"},
             {"/a", "/a"},
             {"/train/**", "train/n01/x.jpg"},
             {"/train/*/*.jpg", "train/n01/x.jpg"},
             {"**/*.idx", "a.idx"},
             {"**/*.idx", "/deep/in/a.idx"},
             {"/a/**/b", "a/b"},
             {"/a/**/b", "a/x/y/b"},
             {"/a/**/**/b", "a/b"},
             {"/**/a/*/c/**", "x/a/a/b/c/d"},
             {"/**/x/**/y/z", "x/y/x/y/q/y/z"},
             {"/shard-?????.tar", "shard-00017.tar"},
             {"/[a-c]x[!0-9]", "bxq"},
             {"/[]x]", "]"},
             {"/[a-]", "-"},
             {"/?", "\xc3\xa9"},
             {"/*\xc3\xa9?", "caf\xc3\xa9s"},
             {"/[!a]", "\xe2\x82\xac"},
             {"/a\\*b", "a*b"},
             {"/*a*b*c", "xxaxxbxxbxxc"},
             {"/a/**", "a/.hidden"},
             {"/**/**.b", "x/a.b"},
             {"/\xff", "\xff"},
         }) {
        EXPECT_TRUE(matches(pattern, path)) << pattern << " " << path;
    }
}

TEST(ConfigGlob, DoesNotMatch) {
    for (const auto& [pattern, path] : std::initializer_list<Case>{
             {"/a", "a/b"},
             {"/a", "b/a"},
             {"/*", "a/b"},
             {"/a/**", "a"},
             {"/a/**", "ab/c"},
             {"**/*.idx", "a.idx/b"},
             {"/a/**/b", "a/xb"},
             {"/a/**/b", "b"},
             {"/a?b", "a/b"},
             {"/a[!x]b", "a/b"},
             {"/[a-c]", "d"},
             {"/[!a-c]", "b"},
             {"/?", "ab"},
             {"/?", "\xc3\xa9\xc3\xa9"},
             {"/*??", "\xe2\x82\xac"},
             {"/A", "a"},
             {"/a\\*b", "axb"},
             {"/**/x/**/y/z", "x/y/x/y/q/y"},
         }) {
        EXPECT_FALSE(matches(pattern, path)) << pattern << " " << path;
    }
}

TEST(ConfigGlob, RefusesWhatMeansNothing) {
    for (const std::string pattern : {"", "a", "*.idx", "**", "**a/b", "/", "//", "/a//b", "/a/", "/[a",
                                      "/[a/b]", "/[]", "/[z-a]", "/[\xc3\xa9]", "/a\\", "/a\\/b"}) {
        EXPECT_FALSE(Glob::compile(pattern)) << pattern;
    }
    EXPECT_FALSE(Glob::compile("/" + std::string(Glob::kLongest, 'a')));
}

TEST(ConfigGlob, HostilePatternsTakeNoLongTime) {
    std::string names, stars = "/";
    for (int i = 0; i < 100; ++i) names += "/**/a";
    while (stars.size() + 8 < Glob::kLongest) stars += "*a";
    std::string path;
    for (int i = 0; i < 2000; ++i) path += "a/";
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_FALSE(matches(names + "/b", path + "c"));
    EXPECT_FALSE(matches(stars + "b", std::string(4000, 'a')));
    EXPECT_FALSE(matches("/**/" + stars.substr(1) + "b", std::string(4000, 'a')));
    // Backtracking over each star would take longer than anybody lives.
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

}  // namespace glob_test
}  // namespace tierfs
