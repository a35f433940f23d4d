#include "backends/origin/sorted_window.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tierfs {
namespace sorted_window_test {

std::vector<std::string> shuffled_names(unsigned count, unsigned seed) {
    std::vector<std::string> names;
    for (unsigned i = 0; i < count; ++i) names.push_back("n" + std::to_string(i * 7919 % count));
    std::shuffle(names.begin(), names.end(), std::mt19937(seed));
    return names;
}

TEST(SortedWindow, StretchesGiveAllNamesInOrderOnceAndKeepTheBound) {
    for (const std::size_t most : {std::size_t{1}, std::size_t{10}, std::size_t{333}, std::size_t{100'000}}) {
        const unsigned count = most == 1 ? 50 : 2000;
        auto names = shuffled_names(count, static_cast<unsigned>(most));
        names.push_back(names.front());  // comes twice
        std::vector<std::string> found;
        bool is_last = false;
        for (unsigned pass = 0; !is_last; ++pass) {
            ASSERT_LE(pass, count);
            SortedWindow<std::string> window(found.empty() ? "" : found.back(), most);
            std::shuffle(names.begin(), names.end(), std::mt19937(pass));
            for (const auto& name : names) window.add(name, 1);
            auto stretch = window.take();
            ASSERT_FALSE(stretch.names.empty());
            EXPECT_LE(stretch.names.size(), std::max<std::size_t>(1, most));
            EXPECT_EQ(stretch.bytes, stretch.names.size());
            found.insert(found.end(), stretch.names.begin(), stretch.names.end());
            is_last = stretch.is_last;
        }
        const std::set<std::string> all(names.begin(), names.end());
        EXPECT_EQ(found, std::vector<std::string>(all.begin(), all.end())) << most;
    }
}

TEST(SortedWindow, NothingBehindTheLastNameIsAnEmptyLastStretch) {
    SortedWindow<std::string> window("z", 10);
    window.add("a", 1);
    window.add("z", 1);
    const auto stretch = window.take();
    EXPECT_TRUE(stretch.names.empty());
    EXPECT_TRUE(stretch.is_last);
}

}  // namespace sorted_window_test
}  // namespace tierfs
