#include "backends/s3/s3_origin.hpp"

#include <thread>

#include "backends/origin/read_pool.hpp"
#include "backends/s3/client/client.hpp"
#include "backends/s3/client/head.hpp"
#include "backends/s3/client/keys.hpp"
#include "backends/s3/client/writer.hpp"
#include "backends/s3/kept_metadata.hpp"
#include "backends/s3/listing_ahead.hpp"
#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/delivery.hpp"
#include "config/base/log.hpp"

namespace tierfs {
namespace {

using namespace s3;

constexpr unsigned kAttemptsOfCheck = 5;
constexpr std::chrono::milliseconds kDeadlineOfCheck{10000};
// S3 closes idle connections after some five seconds; other servers keep them for minutes.
constexpr std::chrono::seconds kIdleAgeAws{4}, kIdleAgeOther{60};
constexpr unsigned kReadersOfCopies = 2, kMostReadersOfCopies = 32;

http::Clock::time_point deadline_in(std::chrono::milliseconds time) {
    return time == kForever ? http::Clock::time_point::max() : http::Clock::now() + time;
}

/// On a writable mount the owner may write, unless the settings say something else than their defaults.
Ownership ownership_of(const Settings& settings) {
    const Settings defaults;
    Ownership ownership{settings.s3_uid, settings.s3_gid, settings.s3_file_mode, settings.s3_directory_mode};
    if (settings.read_only) return ownership;
    if (ownership.file_mode == defaults.s3_file_mode) ownership.file_mode |= 0200U;
    if (ownership.directory_mode == defaults.s3_directory_mode) ownership.directory_mode |= 0200U;
    return ownership;
}

bool is_loopback(const http::Url& url) {
    return url.host == "localhost" || url.host == "[::1]" ||
           (url.is_address() && url.host.starts_with("127."));
}

/// Where what is being written is kept: on a cache device, else where temporary files are that may be large.
std::vector<std::string> folders_of_copies(const Settings& settings) {
    auto folders = split_paths(settings.nvme_path);
    if (!settings.index_path.empty()) folders.push_back(settings.index_path);
    folders.emplace_back("/var/tmp");
    folders.emplace_back("/tmp");
    return folders;
}

/// Before the key behind which the next page begins: no token of a server begins so.
constexpr char kBehind = '\x01';
std::shared_ptr<ListingAhead::Shared> shared_of_listings(const Settings& settings) {
    auto shared = std::make_shared<ListingAhead::Shared>();
    shared->bytes = settings.memory_limit / 32;
    shared->at_once = std::clamp(settings.origin_connections, 1U, shared->at_once);
    return shared;
}

Query list_query(const std::string& prefix, const std::string& token, unsigned limit, bool delimited) {
    Query query{{"list-type", "2"}, {"max-keys", std::to_string(limit)}, {"encoding-type", "url"}};
    if (!prefix.empty()) query.emplace_back("prefix", prefix);
    if (delimited) query.emplace_back("delimiter", "/");
    if (!token.empty()) query.emplace_back("continuation-token", token);
    return query;
}

bool is_empty(const Listing& listing) {
    return listing.objects.empty() && listing.prefixes.empty();
}

/// See Origin. Keys are prefix + path.
class S3Origin final : public Origin {
  public:
    S3Origin(const Settings& settings, Target target, http::EngineOptions engine,
             std::optional<CredentialOptions> credentials, ObjectHeaders headers,
             std::unique_ptr<Journal> journal)
        : target_(target),
          ownership_(ownership_of(settings)),
          deadline_(settings.origin_deadline),
          engine_(std::move(engine)),
          provider_(credentials ? std::make_unique<CredentialProvider>(std::move(*credentials), engine_)
                                : nullptr),
          client_(std::move(target), engine_, provider_.get(), settings.origin_hedge, std::move(headers)),
          writer_(client_, target_, ownership_, deadline_),
          calls_(client_, writer_, target_, ownership_, deadline_),
          kept_(calls_, settings.s3_metadata),
          shared_(shared_of_listings(settings)) {
        if (settings.read_only) return;
        posix_ = std::make_unique<PosixBucket>(
            calls_, LocalCopies(folders_of_copies(settings)),
            PosixBucket::Rules{settings.metadata_ttl, settings.writes_exclusive, settings.writes_link,
                               settings.writes_claim, settings.memory_limit, settings.journal_limit},
            std::move(journal));
        copies_ = std::make_unique<ReadPool>(kReadersOfCopies, kMostReadersOfCopies, deadline_,
                                             [](OriginRead& request) { request.done({}); });
    }

    ~S3Origin() override { S3Origin::stop(); }

    [[nodiscard]] std::string identity() const override { return target_.identity(); }
    [[nodiscard]] std::string kind() const override { return "s3"; }
    [[nodiscard]] OriginStats stats() const override { return client_.stats(); }
    /// A page is one request, as a stat is.
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string&) const override { return 1; }

    Result<void> check() override;
    Result<void> ping() override { return check(); }  // the root is known without a request
    Result<Attributes> stat(const std::string& path) override;
    Result<ListPage> list(const std::string& path, const std::string& token) override;
    void read(OriginRead request) override;
    WritableOrigin* writable() override { return &writer_; }
    PosixOrigin* posix() override { return posix_.get(); }

    Result<std::string> read_link(const std::string& path) override { return kept_.read_link(path); }

    void stop() override {
        if (copies_) copies_->stop();
        if (posix_) posix_->begin_stop();
        if (provider_) provider_->begin_stop();
        engine_.stop();
        if (posix_) posix_->stop();
        if (provider_) provider_->stop();
    }

  private:
    bool read_recent(OriginRead& request);
    [[nodiscard]] Operation list_operation(const std::string& prefix, const std::string& token,
                                           unsigned limit, bool delimited) const {
        Operation operation;
        operation.kind = RequestKind::list;
        operation.query = list_query(prefix, token, limit, delimited);
        operation.deadline = deadline_in(deadline_);
        return operation;
    }
    [[nodiscard]] Operation head_operation(const std::string& path) const {
        Operation operation;
        operation.kind = RequestKind::head;
        operation.key = target_.prefix + path;
        operation.deadline = deadline_in(deadline_);
        return operation;
    }
    /// `checking`: a 404 stays ENOENT, for "no such bucket".
    Result<Listing> run_listing(Operation operation, bool checking = false);
    [[nodiscard]] Result<Listing> listing_of(const Result<http::Response>& response, bool checking) const;
    Result<ListPage> list_behind(const std::string& path, const std::string& key);
    std::shared_ptr<ListingAhead> look_ahead(const std::string& prefix, const std::string& after,
                                             const std::string& token);
    /// The first key with `prefix`; empty: there is none. An empty page that is truncated tells nothing, so the
    /// pages are followed until the operation's deadline.
    Result<std::string> first_key(const std::string& prefix, Operation operation, bool checking = false);
    [[nodiscard]] Error repeated_token() const {
        return Error{EIO, "LIST s3://" + target_.bucket + " at " + target_.endpoint.base() +
                              ": the server repeats its continuation token"};
    }
    [[nodiscard]] Error nothing_there(const std::string& path) const {
        return Error{ENOENT, "s3://" + target_.bucket + "/" +
                                 http::percent_encode(target_.prefix + path, true) +
                                 ": no such object or prefix"};
    }

    const Target target_;
    const Ownership ownership_;
    const std::chrono::milliseconds deadline_;
    http::Engine engine_;
    std::unique_ptr<CredentialProvider> provider_;
    Client client_;
    Writer writer_;
    BucketCalls calls_;
    KeptMetadata kept_;
    const std::shared_ptr<ListingAhead::Shared> shared_;  ///< of listings
    ListingsAhead ahead_;
    std::unique_ptr<PosixBucket> posix_;  ///< of a writable mount; else null
    std::unique_ptr<ReadPool> copies_;    ///< reads what was just written; likewise
};

Result<Listing> S3Origin::run_listing(Operation operation, bool checking) {
    return listing_of(client_.run(std::move(operation)), checking);
}

Result<Listing> S3Origin::listing_of(const Result<http::Response>& response, bool checking) const {
    if (!response) {
        // S3 lists an absent prefix as empty: a 404 means that the bucket is gone or something on the way
        // does not find it. As ENOENT it would make the callers forget names that are only out of reach.
        if (response.error().code == ENOENT && !checking) return fail(EIO, response.error().message);
        return fail(response.error());
    }
    auto listing = parse_listing(response->body);
    if (!listing)
        return fail(listing.error().within("LIST s3://" + target_.bucket + " at " + target_.endpoint.base()));
    return listing;
}

Result<std::string> S3Origin::first_key(const std::string& prefix, Operation operation, bool checking) {
    std::string token;
    for (;;) {
        const auto listing = run_listing(operation, checking);
        if (!listing) return fail(listing.error());
        if (!listing->objects.empty()) return listing->objects.front().key;
        if (listing->next_token.empty()) return std::string();
        if (listing->next_token == token) return fail(repeated_token());
        token = listing->next_token;
        operation.query = list_query(prefix, token, 1, false);
    }
}

/// What whoever mounts may have got wrong, by what the first request came back with; empty: nobody knows.
std::string hint_of_check(const std::string& said, const http::Url& endpoint) {
    const auto has = [&](const char* words) { return said.find(words) != std::string::npos; };
    // A server that wants TLS may just hang up on a plain request.
    if (!endpoint.tls && (has("reset by peer") || has("Empty reply")))
        return " (if the endpoint speaks TLS: use https://)";
    const bool is_aws = endpoint.host.ends_with("amazonaws.com");
    if (is_aws && has("Could not resolve")) return " (for another service than AWS set s3.endpoint)";
    if (has("InvalidAccessKeyId"))
        return std::string(" (the service does not know the access key") +
               (is_aws ? "; for another service than AWS set s3.endpoint)" : ")");
    if (has("SignatureDoesNotMatch")) return " (the secret key is not that of the access key)";
    return {};
}

Result<void> S3Origin::check() {
    auto operation = list_operation(target_.prefix, "", 1, false);
    operation.attempts = kAttemptsOfCheck;
    operation.deadline = deadline_in(std::min(deadline_, kDeadlineOfCheck));
    // A bucket is a root even when it is empty: one page tells that it may be listed.
    Result<std::string> found = target_.bucket;
    if (!target_.prefix.empty()) {
        found = first_key(target_.prefix, std::move(operation), true);
    } else if (const auto listing = run_listing(std::move(operation), true); !listing) {
        found = fail(listing.error());
    }
    if (!found) {
        const auto& error = found.error();
        if (error.code == ENOENT)
            return fail(ENOENT, "bucket " + target_.bucket + " does not exist at " + target_.endpoint.base() +
                                    " (" + error.message + ")");
        return fail(error.code, error.message + hint_of_check(error.message, target_.endpoint));
    }
    // What is written makes the prefix.
    if (!found->empty() || posix_ != nullptr) return {};
    auto nothing = nothing_there("");
    auto key = target_.prefix;
    while (key.ends_with('/')) key.pop_back();
    if (key.empty()) return fail(std::move(nothing));
    auto of_object = head_operation("");
    of_object.key = key;
    of_object.attempts = kAttemptsOfCheck;
    of_object.deadline = deadline_in(std::min(deadline_, kDeadlineOfCheck));
    if (client_.run(std::move(of_object)))
        return fail(ENOTDIR, "s3://" + target_.bucket + "/" + http::percent_encode(key, true) +
                                 " is an object: mount the prefix or the bucket that it is in");
    return fail(std::move(nothing));
}

Result<Attributes> S3Origin::stat(const std::string& path) {
    const bool asks_markers = kept_.is_shown();
    if (path.empty())
        return asks_markers && !target_.prefix.empty() ? kept_.of_directory(path)
                                                       : directory_attributes(ownership_);
    // Both at once: S3 does not tell whether a name is a key, a prefix or both.
    struct Head {
        Mutex mutex;
        std::condition_variable ready;
        std::optional<Result<http::Response>> result TIERFS_GUARDED_BY(mutex);
    };
    if (auto may = may_wait_for("a request to S3"); !may) return fail(std::move(may.error()));
    const auto slot = std::make_shared<Head>();
    auto head_request = head_operation(path);
    head_request.done = [slot](Result<http::Response> result) {
        const MutexLock lock(slot->mutex);
        slot->result = std::move(result);
        slot->ready.notify_all();
    };
    const auto changes = client_.credential_changes();
    client_.start(std::move(head_request));
    const auto prefix = target_.prefix + path + "/";
    const auto beneath = first_key(prefix, list_operation(prefix, "", 1, false));
    if (beneath && *beneath == prefix && asks_markers) return kept_.of_directory(path);
    if (beneath && !beneath->empty()) return directory_attributes(ownership_);
    auto head = [&] {
        MutexLock lock(slot->mutex);
        while (!slot->result) lock.wait(slot->ready);
        return std::move(*slot->result);
    }();
    // HEAD cannot tell a revoked key from a denied object; LIST can, and has brought other credentials.
    if (!head && head.error().code == EACCES && beneath && client_.credential_changes() != changes)
        head = client_.run(head_operation(path));
    if (head) {
        // Who may read but not list still gets files by name.
        if (!beneath && beneath.error().code != EACCES) return fail(beneath.error());
        if (!asks_markers) return attributes_of_head(*head, ownership_);
        const auto facts = calls_.facts_of_head(*head, false);
        return facts ? Result<Attributes>(KeptMetadata::attributes_of(*facts)) : fail(facts.error());
    }
    if (head.error().code != ENOENT) return fail(beneath ? head.error() : beneath.error());
    if (!beneath) return fail(beneath.error());
    return fail(nothing_there(path));
}

std::shared_ptr<ListingAhead> S3Origin::look_ahead(const std::string& prefix, const std::string& after,
                                                   const std::string& token) {
    return std::make_shared<ListingAhead>(
        prefix, after, token, shared_,
        [this, prefix](const ListingAhead::Question& question, std::function<void(Result<Listing>)> done) {
            auto operation = list_operation(prefix, question.token, 1000, true);
            if (question.token.empty()) operation.query.emplace_back("start-after", question.after);
            operation.done = [this, done = std::move(done)](const Result<http::Response>& response) {
                done(listing_of(response, false));
            };
            client_.start(std::move(operation));
        });
}

/// The page behind a key. Who has been away for so long that his listing gave way begins another one.
Result<ListPage> S3Origin::list_behind(const std::string& path, const std::string& key) {
    const auto prefix = target_.prefix + (path.empty() ? "" : path + "/");
    auto listing = ahead_.take(path, key);
    if (!listing) listing = look_ahead(prefix, key, "");
    const auto next = listing->next();
    if (!next) {
        listing->abandon();
        return fail(next.error());
    }
    auto page = map_listing(next->listing, prefix, ownership_);
    kept_.add(path, kBehind + key, next->listing, page);
    page.age = ListingAhead::Clock::now() - next->asked;
    if (page.next.empty()) return page;
    ahead_.put(path, page.next, std::move(listing));
    page.next = kBehind + page.next;
    return page;
}

Result<ListPage> S3Origin::list(const std::string& path, const std::string& token) {
    if (token.starts_with(kBehind)) return list_behind(path, token.substr(1));
    const auto prefix = target_.prefix + (path.empty() ? "" : path + "/");
    const auto listing = run_listing(list_operation(prefix, token, 1000, true));
    if (!listing) return fail(listing.error());
    if (is_empty(*listing) && token.empty() && listing->next_token.empty() && !prefix.empty()) {
        if (path.empty()) return fail(nothing_there(path));
        const auto head = client_.run(head_operation(path));
        if (head)
            return fail(ENOTDIR, "s3://" + target_.bucket + "/" + http::percent_encode(prefix, true) +
                                     ": an object, not a directory");
        return fail(head.error().code == ENOENT ? nothing_there(path) : head.error());
    }
    if (!token.empty() && listing->next_token == token) return fail(repeated_token());
    auto page = map_listing(*listing, prefix, ownership_);
    kept_.add(path, token, *listing, page);
    if (!token.empty() || page.next.empty() || is_empty(*listing) || !is_sorted(*listing)) return page;
    const auto end = end_of(*listing);
    ahead_.put(path, end, look_ahead(prefix, end, page.next));
    page.next = kBehind + end;
    return page;
}

/// What this mount has just written needs no request. The bytes are read in `done`, which holds what it
/// needs: a thread of the pool may be held by the disk beyond the end of the mount.
bool S3Origin::read_recent(OriginRead& request) {
    if (!posix_) return false;
    auto copy = posix_->recent()->find(request.path, request.version);
    if (!copy) return false;
    request.done = [recent = posix_->recent(), copy = std::move(copy), path = request.path,
                    version = request.version, offset = request.offset, destination = request.destination,
                    done = std::move(request.done)](Result<void> read) {
        if (read) {
            read = copy->read(destination, offset);
            if (read) {
                recent->was_read(path, version, {offset, offset + destination.size()});
            } else {  // a second request gets it from the bucket
                recent->lost(path, version);
            }
        }
        done(std::move(read));
    };
    copies_->submit(std::move(request));
    return true;
}

void S3Origin::read(OriginRead request) {
    if (request.destination.empty()) {
        request.done({});
        return;
    }
    if (read_recent(request)) return;
    Operation operation;
    operation.kind = RequestKind::get;
    operation.key = target_.prefix + request.path;
    operation.version = std::move(request.version);
    operation.offset = request.offset;
    operation.destination = request.destination;
    operation.object_size = request.object_size;
    operation.priority = request.priority;
    operation.deadline = deadline_in(deadline_);
    operation.done = [done = std::move(request.done)](Result<http::Response> response) {
        if (response) {
            done({});
        } else {
            done(fail(std::move(response.error())));
        }
    };
    client_.start(std::move(operation));
}

}  // namespace

Result<std::unique_ptr<Origin>> open_s3_origin(const Settings& settings) {
    return open_s3_origin(settings, process_environment());
}

Result<std::unique_ptr<Origin>> open_s3_origin(const Settings& settings,
                                               const std::map<std::string, std::string>& environment) {
    const auto name = profile_name(settings.s3_profile, environment);
    const auto profile = ProfileFiles::load(environment).profile(name);
    auto target = resolve_target(settings, environment, profile);
    if (!target) return fail(std::move(target.error()));
    auto headers = ObjectHeaders::from(settings, target->endpoint.tls || is_loopback(target->endpoint));
    if (!headers) return fail(std::move(headers.error()));
    http::EngineOptions engine;
    engine.connections = settings.origin_connections;
    engine.threads = std::thread::hardware_concurrency() >= 8 && settings.origin_connections >= 16 ? 2 : 1;
    engine.wire.ca_bundle = resolve_ca_bundle(settings, environment, profile);
    engine.wire.idle_age = target->aws ? kIdleAgeAws : kIdleAgeOther;
    std::optional<CredentialOptions> credentials;
    if (!settings.s3_anonymous) {
        credentials.emplace();
        credentials->environment = environment;
        credentials->profile = settings.s3_profile;
        credentials->region = target->region;
    }
    std::unique_ptr<Journal> journal;
    if (!settings.read_only && settings.writes == "back") {
        auto opened = Journal::open(settings.journal_path, target->identity());
        if (!opened) return fail(std::move(opened.error()));
        journal = std::move(*opened);
    }
    if (!journal) {
        const auto left = Journal::count(settings.journal_path, target->identity());
        const auto text = "the journal in " + settings.journal_path + " holds " + std::to_string(left) +
                          " changes that an earlier mount has acknowledged and the bucket does not have";
        if (left != 0 && !settings.read_only)
            return fail(EBUSY, text + ": mount with writes=back, or remove what stands there");
        if (left != 0) log::warning(text + ": a writable mount with writes=back brings them to it");
    }
    try {
        return std::make_unique<S3Origin>(settings, std::move(*target), std::move(engine),
                                          std::move(credentials), std::move(*headers), std::move(journal));
    } catch (const std::exception& error) {
        return fail(EIO, std::string("cannot start the S3 client: ") + error.what());
    }
}

}  // namespace tierfs
