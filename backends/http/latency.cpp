#include "backends/http/latency.hpp"

#include <algorithm>
#include <cmath>

namespace tierfs::http {
namespace {

constexpr double kSmallest = 64e-6;  // seconds
constexpr unsigned kSamplesPerQuantile = 16;

}  // namespace

void RecentLatencies::add(Clock::duration time) {
    const double seconds = std::max(kSmallest, std::chrono::duration<double>(time).count());
    const auto step = static_cast<std::size_t>(std::log2(seconds / kSmallest) * kSteps);
    const MutexLock lock(mutex_);
    ++counts_[std::min(step, counts_.size() - 1)];
    ++total_;
    if (++since_halved_ >= kWindow) {
        since_halved_ = 0;
        total_ = 0;
        for (auto& count : counts_) total_ += count /= 2;
    }
    if (++since_computed_ >= kSamplesPerQuantile) {
        since_computed_ = 0;
        compute();
    }
}

void RecentLatencies::compute() {
    if (total_ < kWindow / 4) return;
    const double wanted = total_ * kQuantile;
    double seen = 0;
    for (std::size_t step = 0; step < counts_.size(); ++step) {
        seen += counts_[step];
        if (seen < wanted) continue;
        const double seconds = kSmallest * std::exp2(static_cast<double>(step + 1) / kSteps);
        quantile_ = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        return;
    }
}

std::optional<Clock::duration> RecentLatencies::high_quantile() {
    const MutexLock lock(mutex_);
    return quantile_;
}

}  // namespace tierfs::http
