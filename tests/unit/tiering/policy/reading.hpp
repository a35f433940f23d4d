// Ways to read a dataset, as the recogniser sees them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tiering/policy/dataset_policy.hpp"
#include "tiering/policy/pattern.hpp"

namespace tierfs::reading {

inline std::string path_of(std::uint64_t number) {
    char text[40];
    std::snprintf(text, sizeof(text), "d%03llu/f%08llu", static_cast<unsigned long long>(number / 1000),
                  static_cast<unsigned long long>(number));
    return text;
}

inline ContentId id_of(std::uint64_t number) {
    return content_id("test", std::to_string(number), "1");
}

/// A whole small file in one read.
inline bool read_file(PatternRecogniser& recogniser, std::uint64_t number, std::uint64_t size = 16384) {
    const std::string path = path_of(number);
    return recogniser.observe({UnitKey{id_of(number), 0}, path, 1, 0, size, size, false});
}

/// What the windows were judged to be.
struct Judged {
    std::map<Pattern, unsigned> count;
    unsigned windows = 0;
    PatternEvidence last;

    void take(const PatternRecogniser& recogniser) {
        last = recogniser.window();
        ++count[PatternRecogniser::judge(last)];
        ++windows;
    }
    [[nodiscard]] double share(Pattern pattern) const {
        const auto found = count.find(pattern);
        return found == count.end() ? 0.0 : static_cast<double>(found->second) / windows;
    }
};

inline std::vector<std::uint64_t> in_order(std::uint64_t items) {
    std::vector<std::uint64_t> order(items);
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    return order;
}

inline std::vector<std::uint64_t> shuffled(std::uint64_t items, std::mt19937_64& random) {
    auto order = in_order(items);
    std::shuffle(order.begin(), order.end(), random);
    return order;
}

/// So many readers, each with an order of its own in each epoch, take turns by chance.
inline Judged read_epochs(PatternRecogniser& recogniser, std::uint64_t items, unsigned readers,
                          unsigned epochs, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<std::uint64_t>> left(readers);
    std::vector<unsigned> begun(readers, 0);
    Judged judged;
    for (std::uint64_t visit = 0; visit < items * readers * epochs; ++visit) {
        unsigned reader = static_cast<unsigned>(random() % readers);
        while (left[reader].empty() && begun[reader] == epochs) reader = (reader + 1) % readers;
        if (left[reader].empty()) {
            left[reader] = shuffled(items, random);
            ++begun[reader];
        }
        if (read_file(recogniser, left[reader].back())) judged.take(recogniser);
        left[reader].pop_back();
    }
    return judged;
}

/// Numbers below `items`, n with a probability in proportion to (n + 1)^-exponent, which their names hide.
class Zipf {
  public:
    Zipf(std::uint64_t items, double exponent, std::uint64_t seed) : random_(seed) {
        double sum = 0;
        for (std::uint64_t n = 0; n < items; ++n) {
            sum += std::pow(static_cast<double>(n + 1), -exponent);
            sums_.push_back(sum);
        }
        names_ = shuffled(items, random_);
    }
    std::uint64_t next() {
        const double place = std::uniform_real_distribution<double>(0, sums_.back())(random_);
        const auto found = std::lower_bound(sums_.begin(), sums_.end(), place);
        return names_[static_cast<std::size_t>(found - sums_.begin())];
    }

  private:
    std::mt19937_64 random_;
    std::vector<double> sums_;
    std::vector<std::uint64_t> names_;
};

}  // namespace tierfs::reading
