// One bucket's requests: signed, sent, repeated within their deadline, judged.
#pragma once

#include <memory>

#include "backends/http/engine.hpp"
#include "backends/http/hedge.hpp"
#include "backends/http/retry.hpp"
#include "backends/s3/client/credentials.hpp"
#include "backends/s3/client/endpoint.hpp"
#include "backends/s3/client/object_headers.hpp"

namespace tierfs::s3 {

enum class RequestKind : std::uint8_t { get, head, list, put, post, remove };

/// One operation. `destination` and `payload` must stay valid until `done`.
struct Operation {
    RequestKind kind = RequestKind::get;
    std::string key;  ///< whole key; empty for lists of keys
    Query query;
    std::string version;  ///< get: pinned
    std::uint64_t offset = 0;
    std::span<std::byte> destination;
    std::optional<std::uint64_t> object_size;  ///< get: of the whole object, see OriginRead
    Priority priority = Priority::demand;
    http::Clock::time_point deadline = http::Clock::time_point::max();
    unsigned attempts = 100;                   ///< at most; the deadline comes first, usually
    std::vector<http::Header> headers;         ///< signed ones besides those that the kind brings
    std::span<const std::byte> payload;        ///< of put and post
    std::shared_ptr<http::BodySource> source;  ///< sent instead of `payload` when set
    std::string payload_sha256;                ///< of what is sent, or UNSIGNED-PAYLOAD; empty: there is none
    /// An attempt that began before the deadline may take so long beyond it: what a payload needs on a slow
    /// line, or a server to put parts together.
    std::chrono::milliseconds transfer_time{0};
    std::chrono::milliseconds stall{0};  ///< http::Request::stall
    std::function<void(Result<http::Response>)> done;
};

/// Repeats what is worth it with full jitter and a budget; refreshes refused credentials, corrects for a
/// wrong clock and follows AWS to the bucket's region, each once an operation. A 403 without a body for
/// credentials that brought the last good reply is about the object: no renewal, which would hold up all.
///
/// Thread-safe. `done` runs on an engine's or the provider's thread, or on the caller's; it must not block.
/// Errors: ENOENT, EACCES, ESTALE (412, 416, another ETag; for
/// writes see errno_of in verdict.cpp), ETIMEDOUT, ECANCELED, EHOSTUNREACH (no connection
/// in `attempts`), EIO; the message names request, endpoint and S3's Code and Message.
class Client {
  public:
    /// `provider` null: anonymous. Engine and provider must outlive all operations.
    /// `hedge_percent`: see http::Hedger; reads of objects alone are hedged.
    Client(Target target, http::Engine& engine, CredentialProvider* provider, unsigned hedge_percent = 0,
           ObjectHeaders headers = {});

    void start(Operation operation);

    /// start(), and waits. Not on an engine's thread.
    Result<http::Response> run(Operation operation);

    /// False: anonymous.
    [[nodiscard]] bool signs() const { return provider_ != nullptr; }
    [[nodiscard]] OriginStats stats() const;
    /// Whether the server is known not to have answered for so long.
    [[nodiscard]] bool is_away(std::chrono::duration<double> least = {}) const {
        return reachability_.is_away() && reachability_.state().away >= least;
    }
    [[nodiscard]] std::string region() TIERFS_EXCLUDES(mutex_);
    /// Grows whenever good replies come with other credentials than before.
    [[nodiscard]] std::uint64_t credential_changes() TIERFS_EXCLUDES(mutex_);

  private:
    class Running;
    struct Counters {
        std::atomic<std::uint64_t> get{0}, head{0}, list{0}, put{0}, remove{0}, other{0}, bytes_read{0},
            bytes_written{0}, retries{0}, throttled{0}, errors{0};
    };
    struct Aim {
        Target target;
        std::shared_ptr<Signer> signer;
        std::chrono::seconds skew{0};
    };
    /// What tells credentials apart, without the secret.
    struct Identity {
        std::string access_key, session_token;
        [[nodiscard]] bool is_of(const Credentials& other) const {
            return access_key == other.access_key && session_token == other.session_token;
        }
    };

    [[nodiscard]] Aim aim() TIERFS_EXCLUDES(mutex_);
    bool move_to(const std::string& region) TIERFS_EXCLUDES(mutex_);
    /// `used`: what the refused request was signed with. Whether signing again is worth it.
    bool correct_clock(std::string_view date, std::chrono::seconds used) TIERFS_EXCLUDES(mutex_);
    void note_reachability(const http::Response& response, const Target& target);
    void remember_good(const Credentials& used) TIERFS_EXCLUDES(mutex_);
    std::atomic<std::uint64_t>& counter_of(RequestKind kind);
    [[nodiscard]] bool brought_good(const Credentials& used) TIERFS_EXCLUDES(mutex_);
    double random() TIERFS_EXCLUDES(mutex_);

    http::Engine& engine_;
    http::Hedger hedger_;
    CredentialProvider* const provider_;
    const ObjectHeaders headers_;
    http::RetryBudget budget_;
    Counters counters_;
    Reachability reachability_;
    Mutex mutex_;
    Aim aim_ TIERFS_GUARDED_BY(mutex_);
    std::optional<Identity> good_ TIERFS_GUARDED_BY(mutex_);  ///< of the last good reply
    std::uint64_t changes_ TIERFS_GUARDED_BY(mutex_) = 0;     ///< of good_
    std::minstd_rand random_ TIERFS_GUARDED_BY(mutex_){std::random_device{}()};
};

}  // namespace tierfs::s3
