#include "backends/s3/client/client.hpp"

#include "backends/s3/client/keys.hpp"
#include "backends/s3/client/verdict.hpp"
#include "backends/s3/client/xml.hpp"
#include "config/base/delivery.hpp"
#include "config/base/log.hpp"

namespace tierfs::s3 {
namespace {

using http::Clock;

// A wrong range or length is a fault of something on the way; it is not waited for until the deadline.
constexpr unsigned kMostBrokenReplies = 4;

const char* method_of(RequestKind kind) {
    switch (kind) {
        case RequestKind::head:
            return "HEAD";
        case RequestKind::put:
            return "PUT";
        case RequestKind::post:
            return "POST";
        case RequestKind::remove:
            return "DELETE";
        default:
            return "GET";
    }
}

bool is_write(RequestKind kind) {
    return kind == RequestKind::put || kind == RequestKind::post || kind == RequestKind::remove;
}

/// What belongs to a kind of failure: keep the cause of the last attempt when time is up.
Error timed_out(const Error& last) {
    return Error{ETIMEDOUT, "no answer in time: the deadline passed; last: " + last.message};
}

}  // namespace

/// One operation on its way from attempt to attempt. Only one callback of it is pending at any time, so its
/// members need no lock; the claim in `finish` is for the race between credentials and their deadline alone.
class Client::Running : public std::enable_shared_from_this<Running> {
  public:
    Running(Client& client, Operation operation) : client_(client), operation_(std::move(operation)) {}

    void begin() {
        if (client_.provider_ == nullptr) {
            send(Credentials{});
            return;
        }
        const auto wait = std::make_shared<Wait>();
        auto self = shared_from_this();
        client_.provider_->get([self, wait](Result<Credentials> credentials) {
            if (wait->claimed.exchange(true)) return;
            if (!credentials) {
                self->finish(fail(std::move(credentials.error())));
                return;
            }
            self->send(std::move(*credentials));
        });
        if (wait->claimed || operation_.deadline == Clock::time_point::max()) return;
        client_.engine_.at(operation_.deadline, [self, wait](bool cancelled) {
            if (wait->claimed.exchange(true)) return;
            self->finish(
                cancelled ? fail(ECANCELED, "stopped")
                          : fail(ETIMEDOUT,
                                 "no answer in time: the deadline passed while waiting for S3 credentials"));
        });
    }

  private:
    struct Wait {
        std::atomic<bool> claimed{false};
    };

    void send(Credentials credentials) {
        const auto aim = client_.aim();
        what_ = describe(aim.target);
        credentials_ = std::move(credentials);
        skew_ = aim.skew;
        auto request = make_request(aim);
        ++attempt_;
        ++client_.counter_of(operation_.kind);
        client_.hedger_.send(std::move(request),
                             [self = shared_from_this(), target = aim.target](http::Response response) {
                                 self->received(std::move(response), target);
                             });
    }

    [[nodiscard]] std::string describe(const Target& target) const {
        const std::string name = operation_.kind == RequestKind::list ? "LIST" : method_of(operation_.kind);
        return name + " s3://" + target.bucket + "/" + http::percent_encode(operation_.key, true) + " at " +
               target.endpoint.base();
    }

    [[nodiscard]] http::Request make_request(const Aim& aim) const {
        SigningInput input;
        input.method = method_of(operation_.kind);
        input.host = aim.target.host();
        input.path = aim.target.path(operation_.key);
        input.query = canonical_query(operation_.query);
        input.headers = operation_.headers;
        client_.headers_.add_to(operation_, input.headers);
        if (operation_.kind == RequestKind::get) {
            const auto last = operation_.offset + operation_.destination.size() - 1;
            input.headers.emplace_back(
                "Range", "bytes=" + std::to_string(operation_.offset) + "-" + std::to_string(last));
            if (is_strong_etag(operation_.version))
                input.headers.emplace_back("If-Match", operation_.version);
        }
        if (operation_.kind == RequestKind::list && operation_.key.empty() && aim.target.aws)
            input.headers.emplace_back("x-amz-optional-object-attributes", "RestoreStatus");
        http::Request request;
        request.headers = input.headers;
        if (client_.provider_ != nullptr) {
            static const std::string kNoPayload = sha256_hex("");
            input.payload_sha256 = operation_.payload_sha256.empty() ? kNoPayload : operation_.payload_sha256;
            // In seconds: a server may say that it is in the year 9999, which nanoseconds cannot hold.
            const auto now = WallClock::to_time_t(WallClock::now()) + aim.skew.count();
            for (auto& header : aim.signer->sign(input, credentials_, now))
                request.headers.push_back(std::move(header));
        }
        request.method = input.method;
        request.url = aim.target.base() + input.path;
        if (!input.query.empty()) request.url += "?" + input.query;
        request.destination = operation_.destination;
        request.body_limit = kLongestReply;
        request.upload = operation_.payload;
        request.source = operation_.source;
        request.stall = operation_.stall;
        request.deadline = operation_.deadline;
        if (request.deadline != Clock::time_point::max()) request.deadline += operation_.transfer_time;
        request.priority = operation_.priority;
        request.is_of_names = operation_.kind == RequestKind::head || operation_.kind == RequestKind::list;
        request.fresh_connection = fresh_;
        return request;
    }

    void received(http::Response response, const Target& target) {
        const bool get = operation_.kind == RequestKind::get;
        if (get && response.status / 100 == 2) client_.counters_.bytes_read += response.received;
        if (response.status / 100 == 2) client_.counters_.bytes_written += bytes_sent();
        if (http::is_throttling(response.status)) ++client_.counters_.throttled;
        client_.budget_.earned();
        client_.note_reachability(response, target);
        const Expectation expected{operation_.offset, get ? operation_.destination.size() : 0,
                                   operation_.version, is_write(operation_.kind), operation_.object_size};
        auto judgement = judge(response, expected, target, what_);
        fresh_ = response.failure != http::Failure::none;
        switch (judgement.verdict) {
            case Verdict::good:
                if (client_.provider_ != nullptr) client_.remember_good(credentials_);
                finish(std::move(response));
                return;
            case Verdict::repeat:
                repeat(response, judgement.error);
                return;
            case Verdict::other_region:
                if (target.aws && !moved_ && client_.move_to(judgement.region)) {
                    moved_ = true;
                    repair();
                    return;
                }
                break;
            case Verdict::wrong_clock:
                if (adjust_clock(response)) return;
                break;
            case Verdict::renew_credentials:
                if (response.body.empty() && adjust_clock(response)) return;
                // A policy denies the key, or hides that it is missing from who may not list. HEAD tells of
                // an expired token by 400.
                if (response.status == 403 && response.body.empty() && client_.brought_good(credentials_))
                    break;
                if (!renewed_ && client_.provider_ != nullptr && client_.provider_->reject(credentials_)) {
                    renewed_ = true;
                    repair();
                    return;
                }
                break;
            case Verdict::final_error:
                if (response.failure == http::Failure::deadline && last_error_)
                    judgement.error = timed_out(*last_error_);
                break;
        }
        finish(fail(std::move(judgement.error)));
    }

    [[nodiscard]] std::uint64_t bytes_sent() const {
        return operation_.source ? operation_.source->size() : operation_.payload.size();
    }

    bool adjust_clock(const http::Response& response) {
        if (adjusted_ || client_.provider_ == nullptr ||
            !client_.correct_clock(response.header("date"), skew_))
            return false;
        adjusted_ = true;
        repair();
        return true;
    }

    /// The cause is removed: again at once.
    void repair() {
        ++client_.counters_.retries;
        begin();
    }

    void repeat(const http::Response& response, const Error& error) {
        last_error_ = error;
        // An idle connection that the server closed meanwhile says nothing about its health.
        if (response.failure == http::Failure::reset && response.reused_connection && !reset_forgiven_) {
            reset_forgiven_ = true;
            repair();
            return;
        }
        const bool good_reply = response.failure == http::Failure::none && response.status / 100 == 2;
        if (good_reply) ++broken_replies_;
        if (attempt_ >= operation_.attempts || broken_replies_ >= kMostBrokenReplies) {
            finish(fail(error));
            return;
        }
        const auto now = Clock::now();
        auto delay = client_.budget_.take(now) + http::backoff(attempt_ - 1, client_.random());
        if (const auto asked = http::retry_after(response.header("retry-after"), std::time(nullptr)))
            delay = std::max(delay, *asked);
        if (operation_.deadline != Clock::time_point::max() && delay >= operation_.deadline - now) {
            client_.budget_.refund();
            finish(fail(timed_out(error)));
            return;
        }
        ++client_.counters_.retries;
        client_.engine_.at(now + delay, [self = shared_from_this()](bool cancelled) {
            if (cancelled) {
                self->finish(fail(ECANCELED, "stopped"));
            } else {
                self->begin();
            }
        });
    }

    void finish(Result<http::Response> result) {
        const int code = result ? 0 : result.error().code;
        if (code != 0 && code != ENOENT && code != EEXIST && code != ECANCELED) ++client_.counters_.errors;
        auto done = std::move(operation_.done);
        operation_.done = nullptr;
        if (done) done(std::move(result));
    }

    Client& client_;
    Operation operation_;
    Credentials credentials_;
    unsigned broken_replies_ = 0;   ///< of them, that came whole and made no sense
    std::chrono::seconds skew_{0};  ///< what the last attempt was signed with
    std::string what_;
    std::optional<Error> last_error_;
    unsigned attempt_ = 0;
    bool fresh_ = false, moved_ = false, adjusted_ = false, renewed_ = false, reset_forgiven_ = false;
};

Client::Client(Target target, http::Engine& engine, CredentialProvider* provider, unsigned hedge_percent,
               ObjectHeaders headers)
    : engine_(engine), hedger_(engine, hedge_percent), provider_(provider), headers_(std::move(headers)) {
    aim_.signer = std::make_shared<Signer>(target.region, "s3");
    aim_.target = std::move(target);
}

void Client::start(Operation operation) {
    std::make_shared<Running>(*this, std::move(operation))->begin();
}

Result<http::Response> Client::run(Operation operation) {
    struct Slot {
        Mutex mutex;
        std::condition_variable ready;
        std::optional<Result<http::Response>> result TIERFS_GUARDED_BY(mutex);
    };
    if (auto may = may_wait_for("a request to S3"); !may) return fail(std::move(may.error()));
    const auto slot = std::make_shared<Slot>();
    operation.done = [slot](Result<http::Response> result) {
        const MutexLock lock(slot->mutex);
        slot->result = std::move(result);
        slot->ready.notify_all();
    };
    start(std::move(operation));
    MutexLock lock(slot->mutex);
    while (!slot->result) lock.wait(slot->ready);
    return std::move(*slot->result);
}

std::atomic<std::uint64_t>& Client::counter_of(RequestKind kind) {
    switch (kind) {
        case RequestKind::get:
            return counters_.get;
        case RequestKind::head:
            return counters_.head;
        case RequestKind::list:
            return counters_.list;
        case RequestKind::put:
            return counters_.put;
        case RequestKind::remove:
            return counters_.remove;
        default:
            return counters_.other;
    }
}

Client::Aim Client::aim() {
    const MutexLock lock(mutex_);
    return aim_;
}

std::string Client::region() {
    const MutexLock lock(mutex_);
    return aim_.target.region;
}

bool Client::move_to(const std::string& region) {
    {
        const MutexLock lock(mutex_);
        if (aim_.target.region == region) return true;  // another operation was first
        aim_.target.move_to(region);
        aim_.signer = std::make_shared<Signer>(region, "s3");
    }
    log::warning("S3: the bucket is in region " + region + "; set s3.region to save a request");
    return true;
}

bool Client::correct_clock(std::string_view date, std::chrono::seconds used) {
    const auto alike = [](std::chrono::seconds a, std::chrono::seconds b) {
        constexpr std::chrono::seconds kTolerance{240};
        return a - b < kTolerance && b - a < kTolerance;
    };
    const auto server = http::parse_http_date(date);
    if (!server) return false;
    const auto offset = std::chrono::seconds(*server - WallClock::to_time_t(WallClock::now()));
    if (alike(offset, used)) return false;  // it was the server's time: that is not why it was refused
    {
        const MutexLock lock(mutex_);
        if (alike(offset, aim_.skew)) return true;  // another operation was first
        aim_.skew = offset;
    }
    log::warning("S3: this machine's clock differs from the server's by " + std::to_string(offset.count()) +
                 " s");
    return true;
}

void Client::note_reachability(const http::Response& response, const Target& target) {
    using http::Failure;
    switch (response.failure) {
        case Failure::none:
            return reachability_.answered();
        case Failure::connect:
        case Failure::stalled:
            return reachability_.failed(target.base() + ": " + response.detail,
                                        Reachability::Failure::certain);
        case Failure::reset:
            if (response.reused_connection) return;  // closed for being idle, perhaps
            [[fallthrough]];
        case Failure::deadline:  // which may have passed in the queue
        case Failure::truncated:
        case Failure::tls:
            return reachability_.failed(target.base() + ": " + response.detail,
                                        response.silence >= Reachability::kDoubt
                                            ? Reachability::Failure::certain
                                            : Reachability::Failure::doubtful);
        default:
            return;
    }
}

void Client::remember_good(const Credentials& used) {
    const MutexLock lock(mutex_);
    if (good_ && good_->is_of(used)) return;
    good_ = Identity{used.access_key, used.session_token};
    ++changes_;
}

bool Client::brought_good(const Credentials& used) {
    const MutexLock lock(mutex_);
    return good_ && good_->is_of(used);
}

std::uint64_t Client::credential_changes() {
    const MutexLock lock(mutex_);
    return changes_;
}

double Client::random() {
    const MutexLock lock(mutex_);
    return std::uniform_real_distribution<double>(0, 1)(random_);
}

OriginStats Client::stats() const {
    OriginStats stats;
    const auto hedges = hedger_.stats();
    stats.get = counters_.get + hedges.sent;
    stats.head = counters_.head;
    stats.list = counters_.list;
    stats.put = counters_.put;
    stats.remove = counters_.remove;
    stats.other = counters_.other;
    stats.bytes_read = counters_.bytes_read;
    stats.bytes_written = counters_.bytes_written;
    stats.retries = counters_.retries;
    stats.throttled = counters_.throttled;
    stats.errors = counters_.errors;
    stats.reach = reachability_.state();
    stats.hedged = hedges.sent;
    stats.hedges_won = hedges.won;
    return stats;
}

}  // namespace tierfs::s3
