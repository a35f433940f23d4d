// Credentials for S3: the credential chain of the AWS SDKs, kept fresh.
// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "backends/http/engine.hpp"
#include "backends/s3/client/profile.hpp"
#include "backends/s3/client/sigv4.hpp"

namespace tierfs::s3 {

using WallClock = std::chrono::system_clock;

/// What a place of the chain gave.
struct ResolvedCredentials {
    Credentials credentials;
    std::optional<WallClock::time_point> expiry;  ///< empty: for good
    std::string source;                           ///< "environment", …: for logs
};

struct CredentialOptions {
    Environment environment;
    std::string profile;  ///< s3.profile; empty: AWS_PROFILE, then "default". When set, the environment's key
                          ///< is not used
    std::string region;   ///< for STS
    std::string default_imds = "http://169.254.169.254";
    std::string default_container = "http://169.254.170.2";
    std::chrono::milliseconds service_timeout{5000};   ///< STS, container
    std::chrono::milliseconds imds_timeout{1000};      ///< each of IMDS's requests
    std::chrono::milliseconds process_timeout{30000};  ///< credential_process
};

/// Looks for credentials in the SDKs' order and renews them in the background, five minutes or more before
/// they expire. While a renewal fails the old ones serve until they expire.
///
/// Thread-safe. A thread of its own does what blocks. `engine` must outlive this object. Errors: EACCES that
/// names each place that was looked at; never a secret.
class CredentialProvider {
  public:
    using Ready = std::function<void(Result<Credentials>)>;

    CredentialProvider(CredentialOptions options, http::Engine& engine);
    ~CredentialProvider();
    CredentialProvider(const CredentialProvider&) = delete;
    CredentialProvider& operator=(const CredentialProvider&) = delete;

    /// Calls `ready` once: at once if there are valid credentials, else on the thread, or at the stop with
    /// ECANCELED.
    void get(Ready ready) TIERFS_EXCLUDES(mutex_);

    /// The server refused `used` as unknown or expired. True: get() waits for new ones, so a repeat is worth
    /// it; false: they were renewed a moment ago, and it would not help.
    bool reject(const Credentials& used) TIERFS_EXCLUDES(mutex_);

    /// Tells the thread to end, without waiting; blocked requests end when the engine stops.
    void begin_stop() TIERFS_EXCLUDES(mutex_);
    /// Waits for the thread, calls all that wait with ECANCELED. Idempotent. Not from `ready`.
    void stop() TIERFS_EXCLUDES(mutex_);

  private:
    void run() TIERFS_EXCLUDES(mutex_);
    void resolved(Result<ResolvedCredentials> result) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool usable() const TIERFS_REQUIRES(mutex_);

    const CredentialOptions options_;
    http::Engine& engine_;
    std::atomic<bool> stopping_{false};

    Mutex mutex_;
    std::condition_variable wake_;
    std::vector<Ready> waiting_ TIERFS_GUARDED_BY(mutex_);
    std::optional<ResolvedCredentials> current_ TIERFS_GUARDED_BY(mutex_);
    bool refused_ TIERFS_GUARDED_BY(mutex_) = false;  ///< `current_`, by the server: the next walk decides
    std::optional<Error> failure_ TIERFS_GUARDED_BY(mutex_);
    http::Clock::time_point failed_at_ TIERFS_GUARDED_BY(mutex_);
    std::optional<http::Clock::time_point> rejected_at_ TIERFS_GUARDED_BY(mutex_);
    std::optional<http::Clock::time_point> renew_at_ TIERFS_GUARDED_BY(mutex_);

    std::thread thread_;
};

/// One walk through the chain; blocks. `stopping` ends it early. Used by the provider.
Result<ResolvedCredentials> resolve_credentials(const CredentialOptions& options, http::Engine& engine,
                                                const std::atomic<bool>& stopping);

/// Without a line break or a zero, which would end a header.
bool fits_in_header(const std::string& text);

}  // namespace tierfs::s3
