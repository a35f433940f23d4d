#include "backends/http/retry.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

namespace tierfs::http {

bool is_throttling(int status) {
    return status == 429 || status == 503;
}

bool worth_repeating(const Response& response) {
    switch (response.failure) {
        case Failure::stalled:
        case Failure::connect:
        case Failure::reset:
        case Failure::truncated:
            return true;
        case Failure::protocol:  // the rest of an earlier reply, for it was HTTP before
            return response.reused_connection;
        case Failure::none:
            break;
        default:
            return false;
    }
    const int status = response.status;
    return is_throttling(status) || status == 500 || status == 502 || status == 504;
}

std::chrono::milliseconds backoff(unsigned attempt, double random) {
    constexpr double kBase = 50, kCap = 5000;
    const double ceiling = std::min(kCap, kBase * std::exp2(std::min(attempt, 20U)));
    return std::chrono::milliseconds(static_cast<std::int64_t>(ceiling * random));
}

std::optional<std::time_t> parse_http_date(std::string_view text) {
    const std::string copy(text);
    for (const char* format :
         {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"}) {
        std::tm parts{};
        const char* end = ::strptime(copy.c_str(), format, &parts);
        if (end != nullptr && *end == '\0') return ::timegm(&parts);
    }
    return std::nullopt;
}

std::optional<std::chrono::milliseconds> retry_after(std::string_view value, std::time_t now) {
    constexpr std::int64_t kLongest = 3600;
    if (value.empty()) return std::nullopt;
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (error != std::errc{} || end != value.data() + value.size()) {
        const auto date = parse_http_date(value);
        if (!date) return std::nullopt;
        seconds = static_cast<std::int64_t>(*date - now);
    }
    return std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kLongest));
}

void RetryBudget::earned() {
    const MutexLock lock(mutex_);
    tokens_ = std::min(kBurst, tokens_ + kShare);
}

std::chrono::milliseconds RetryBudget::take(Clock::time_point now) {
    const MutexLock lock(mutex_);
    if (filled_) {
        const std::chrono::duration<double> passed = now - *filled_;
        tokens_ = std::min(kBurst, tokens_ + std::max(0.0, passed.count()) * kPerSecond);
    }
    filled_ = now;
    tokens_ -= 1;
    if (tokens_ >= 0) return std::chrono::milliseconds(0);
    return std::chrono::milliseconds(static_cast<std::int64_t>(-tokens_ / kPerSecond * 1000));
}

void RetryBudget::refund() {
    const MutexLock lock(mutex_);
    tokens_ = std::min(kBurst, tokens_ + 1);
}

}  // namespace tierfs::http
