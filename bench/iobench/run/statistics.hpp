// Medians, percentiles and intervals of small samples. Everything here is a pure function: the same values
// give the same figures on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tierfs::iobench {

/// The p-quantile, 0 <= p <= 1, between neighbours in proportion (Hyndman and Fan, "Sample quantiles in
/// statistical packages", The American Statistician 50, 1996: type 7); 0 of nothing.
double quantile(std::vector<double> values, double p);

double median(const std::vector<double>& values);

/// From the least to the largest value that is plausible.
using Interval = std::array<double, 2>;

/// Resamples of every interval here: the ends of a 95 % interval then vary by less than a rank or two.
constexpr unsigned kResamples = 4000;

/// The 95 % interval of the median by the percentile bootstrap (Efron and Tibshirani, "An introduction to the
/// bootstrap", 1993, chapter 13): the 2.5 % and 97.5 % quantiles of the medians of kResamples samples drawn
/// from `values` with replacement, by a generator with a fixed seed. {v, v} of one value, {0, 0} of nothing.
/// With 5 values it mostly runs from the least to the largest: so little is known from 5 runs.
Interval median_interval(const std::vector<double>& values);

/// A ratio with its 95 % interval.
struct Ratio {
    double value = 0;
    Interval interval{};

    bool operator==(const Ratio&) const = default;
};

/// median(values) / median(base) and the percentile bootstrap of that, both resampled independently: for runs
/// that have nothing to do with each other. Zero when a median of `base` is not over 0.
Ratio ratio(const std::vector<double>& values, const std::vector<double>& base);

/// The median of values[i] / base[i] and its interval: for runs taken in turns, where what slowed a round
/// down slowed both sides. The longer one is cut to the shorter. Rounds whose base is not over 0 are left
/// out.
Ratio paired_ratio(const std::vector<double>& values, const std::vector<double>& base);

/// Indices, rising, of values outside Tukey's fences: more than 1.5 times the distance of the quartiles below
/// the lower or above the upper one (Tukey, "Exploratory data analysis", 1977). They are shown, never left
/// out.
std::vector<std::size_t> outliers(const std::vector<double>& values);

/// What a figure says about its runs.
struct Summary {
    double median = 0, p95 = 0, min = 0, max = 0;
    Interval ci95{};  ///< of the median
    std::vector<std::size_t> outliers;

    bool operator==(const Summary&) const = default;
};

Summary summarize(const std::vector<double>& values);

}  // namespace tierfs::iobench
