#include "tiering/prefetch/recent_listings.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/tiering/store/fakes.hpp"

namespace tierfs {
namespace recent_listings_test {

struct Scene {
    explicit Scene(std::chrono::milliseconds max_age) : listings(origin, max_age) {
        origin.names_of_page = 100'000;
    }
    void put(const std::string& path, std::size_t names, std::size_t length = 20) {
        DirectoryEntry entry;
        origin.listings[path].clear();
        for (std::size_t i = 0; i < names; ++i) {
            entry.name = std::to_string(i) + std::string(length, 'n');
            origin.listings[path].push_back(entry);
        }
    }
    std::size_t names(const std::string& path) {
        const auto page = listings.list(path, "");
        return page ? page->entries.size() : 0;
    }

    fake::FakeOrigin origin{fake::FakeOrigin::Mode::at_once};
    RecentListings listings;
};

constexpr std::chrono::milliseconds kForever = std::chrono::milliseconds::max();

TEST(RecentListings, TheSecondAskerGetsWhatTheFirstGot) {
    Scene scene(kForever);
    scene.put("a", 3);
    scene.put("b", 5);
    EXPECT_EQ(scene.names("a"), 3U);
    EXPECT_EQ(scene.names("b"), 5U);
    scene.put("a", 4);
    EXPECT_EQ(scene.names("a"), 3U);
    EXPECT_EQ(scene.names("b"), 5U);
    EXPECT_EQ(scene.origin.lists, 2U);
}

TEST(RecentListings, WhatIsOldIsListedAgain) {
    Scene scene(std::chrono::milliseconds(1));
    scene.put("a", 3);
    EXPECT_EQ(scene.names("a"), 3U);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    scene.put("a", 4);
    EXPECT_EQ(scene.names("a"), 4U);
}

TEST(RecentListings, ErrorsAreNotKept) {
    Scene scene(kForever);
    EXPECT_FALSE(scene.listings.list("a", "").has_value());
    scene.put("a", 1);
    EXPECT_EQ(scene.names("a"), 1U);
}

TEST(RecentListings, TheOldestGoWhenTheyTakeTooMuch) {
    Scene scene(kForever);
    constexpr std::size_t kPages = 60;
    for (std::size_t i = 0; i < kPages; ++i) scene.put(std::to_string(i), 500, 200);
    const auto page = scene.origin.list("0", "");
    ASSERT_GT(RecentListings::size_of(*page) * kPages, RecentListings::kMost);
    for (std::size_t i = 0; i < kPages; ++i) scene.names(std::to_string(i));
    const std::size_t before = scene.origin.lists;
    scene.names(std::to_string(kPages - 1));
    EXPECT_EQ(scene.origin.lists, before);
    scene.names("0");
    EXPECT_EQ(scene.origin.lists, before + 1);
    scene.put("huge", 40'000, 200);
    scene.names("huge");
    EXPECT_EQ(scene.names("0"), 500U);
    EXPECT_EQ(scene.origin.lists, before + 2) << "what is too large pushes nothing out";
}

}  // namespace recent_listings_test
}  // namespace tierfs
