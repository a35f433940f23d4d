// Medians and percentiles of small samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace tierfs::iobench {

/// The p-quantile, 0 <= p <= 1, between neighbours in proportion (Hyndman and Fan's type 7); 0 of nothing.
inline double quantile(std::vector<double> values, double p) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double at = p * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (at - std::floor(at));
}

inline double median(const std::vector<double>& values) {
    return quantile(values, 0.5);
}

}  // namespace tierfs::iobench
