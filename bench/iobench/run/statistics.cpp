#include "bench/iobench/run/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kSeed = 0x1f5eed;

double quantile_of_sorted(const std::vector<double>& sorted, double p) {
    if (sorted.empty()) return 0;
    const double at = p * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (sorted[high] - sorted[low]) * (at - std::floor(at));
}

/// Of a sample of the same size drawn with replacement. `scratch` saves an allocation a resample.
double resampled_median(const std::vector<double>& values, Random& random, std::vector<double>& scratch) {
    scratch.clear();
    for (std::size_t i = 0; i < values.size(); ++i) scratch.push_back(values[random.below(values.size())]);
    std::sort(scratch.begin(), scratch.end());
    return quantile_of_sorted(scratch, 0.5);
}

Interval percentiles(std::vector<double> estimates) {
    std::sort(estimates.begin(), estimates.end());
    return {quantile_of_sorted(estimates, 0.025), quantile_of_sorted(estimates, 0.975)};
}

}  // namespace

double quantile(std::vector<double> values, double p) {
    std::sort(values.begin(), values.end());
    return quantile_of_sorted(values, p);
}

double median(const std::vector<double>& values) {
    return quantile(values, 0.5);
}

Interval median_interval(const std::vector<double>& values) {
    if (values.empty()) return {};
    Random random(kSeed);
    std::vector<double> estimates, scratch;
    for (unsigned i = 0; i < kResamples; ++i) estimates.push_back(resampled_median(values, random, scratch));
    return percentiles(std::move(estimates));
}

Ratio ratio(const std::vector<double>& values, const std::vector<double>& base) {
    if (values.empty() || !(median(base) > 0)) return {};
    Random random(kSeed);
    std::vector<double> estimates, scratch;
    for (unsigned i = 0; i < kResamples; ++i) {
        const double below = resampled_median(base, random, scratch);
        const double above = resampled_median(values, random, scratch);
        if (below > 0) estimates.push_back(above / below);
    }
    return {median(values) / median(base), percentiles(std::move(estimates))};
}

Ratio paired_ratio(const std::vector<double>& values, const std::vector<double>& base) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(values.size(), base.size()); ++i)
        if (base[i] > 0) ratios.push_back(values[i] / base[i]);
    return {median(ratios), median_interval(ratios)};
}

std::vector<std::size_t> outliers(const std::vector<double>& values) {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const double low = quantile_of_sorted(sorted, 0.25), high = quantile_of_sorted(sorted, 0.75);
    const double reach = 1.5 * (high - low);
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] < low - reach || values[i] > high + reach) found.push_back(i);
    return found;
}

Summary summarize(const std::vector<double>& values) {
    return {.median = median(values),
            .p95 = quantile(values, 0.95),
            .min = quantile(values, 0),
            .max = quantile(values, 1),
            .ci95 = median_interval(values),
            .outliers = outliers(values)};
}

}  // namespace tierfs::iobench
