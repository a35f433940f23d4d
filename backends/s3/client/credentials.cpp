#include "backends/s3/client/credentials.hpp"

#include <algorithm>

#include "config/base/log.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::chrono::seconds kBeforeExpiry{300};
constexpr std::chrono::seconds kAfterFailure{30};    // next attempt in the background
constexpr std::chrono::seconds kRememberFailure{2};  // who asks meanwhile gets the same answer
constexpr std::chrono::seconds kBetweenRejections{30};

/// Five minutes before the end, or half-way for what lives shorter.
http::Clock::time_point renewal_time(WallClock::time_point expiry) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(expiry - WallClock::now());
    if (left <= std::chrono::milliseconds(0)) return http::Clock::now() + kAfterFailure;
    const auto wait = left > 2 * kBeforeExpiry ? left - kBeforeExpiry : left / 2;
    return http::Clock::now() + std::max<std::chrono::milliseconds>(wait, std::chrono::seconds(1));
}

}  // namespace

CredentialProvider::CredentialProvider(CredentialOptions options, http::Engine& engine)
    : options_(std::move(options)), engine_(engine) {
    thread_ = std::thread([this] { run(); });
}

CredentialProvider::~CredentialProvider() {
    stop();
}

bool CredentialProvider::usable() const {
    return current_ && !refused_ && (!current_->expiry || *current_->expiry > WallClock::now());
}

void CredentialProvider::get(Ready ready) {
    std::optional<Result<Credentials>> answer;
    {
        const MutexLock lock(mutex_);
        if (stopping_) {
            answer = fail(ECANCELED, "stopped");
        } else if (usable()) {
            answer = current_->credentials;
        } else if (failure_ && http::Clock::now() - failed_at_ < kRememberFailure) {
            answer = fail(*failure_);
        } else {
            waiting_.push_back(std::move(ready));
            wake_.notify_all();
        }
    }
    if (answer)
        ready(std::move(*answer));  // NOLINT(bugprone-use-after-move): not moved from where there is one
}

bool CredentialProvider::reject(const Credentials& used) {
    const MutexLock lock(mutex_);
    if (!current_ || refused_ || current_->credentials != used)
        return true;  // others are there, or on their way
    const auto now = http::Clock::now();
    if (rejected_at_ && now - *rejected_at_ < kBetweenRejections) return false;
    rejected_at_ = now;
    refused_ = true;
    failure_.reset();
    return true;
}

void CredentialProvider::begin_stop() {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
}

void CredentialProvider::stop() {
    begin_stop();
    if (thread_.joinable()) thread_.join();
    std::vector<Ready> waiting;
    {
        const MutexLock lock(mutex_);
        waiting.swap(waiting_);
    }
    for (auto& ready : waiting) ready(fail(ECANCELED, "stopped"));
}

void CredentialProvider::run() {
    while (true) {
        {
            MutexLock lock(mutex_);
            while (!stopping_ && waiting_.empty() && !(renew_at_ && http::Clock::now() >= *renew_at_)) {
                if (renew_at_) {
                    lock.wait_until(wake_, *renew_at_);
                } else {
                    lock.wait(wake_);
                }
            }
            if (stopping_) return;
        }
        resolved(resolve_credentials(options_, engine_, stopping_));
    }
}

void CredentialProvider::resolved(Result<ResolvedCredentials> result) {
    std::vector<Ready> waiting;
    Result<Credentials> answer;
    std::string line;
    {
        const MutexLock lock(mutex_);
        renew_at_.reset();
        // When no others can be had, the old ones may still do: a refusal need not be the key's fault.
        refused_ = false;
        if (result) {
            line = "S3 credentials: from " + result->source;
            failure_.reset();
            if (result->expiry) renew_at_ = renewal_time(*result->expiry);
            current_ = std::move(*result);
            answer = current_->credentials;
        } else {
            line = "S3 credentials: " + result.error().message;
            failed_at_ = http::Clock::now();
            failure_ = result.error();
            if (usable()) {
                answer = current_->credentials;
                renew_at_ = failed_at_ + kAfterFailure;
            } else {
                answer = fail(result.error());
            }
        }
        waiting.swap(waiting_);
        if (stopping_) answer = fail(ECANCELED, "stopped");
    }
    if (result) {
        log::info(line);
    } else if (!stopping_) {
        log::error(line);
    }
    for (auto& ready : waiting) ready(answer);
}

bool fits_in_header(const std::string& text) {
    return std::none_of(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

}  // namespace tierfs::s3
