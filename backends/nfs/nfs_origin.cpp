#include "backends/nfs/nfs_origin.hpp"

#include <unistd.h>

#include <algorithm>

#include "backends/nfs/lister.hpp"
#include "backends/nfs/nfs_writer.hpp"
#include "backends/nfs/posix_export.hpp"
#include "backends/nfs/reader.hpp"
#include "backends/nfs/waiting.hpp"
#include "config/nfs_url.hpp"

namespace tierfs {
namespace {

using namespace nfs;

constexpr std::chrono::milliseconds kDeadlineOfCheck{10000};
constexpr std::chrono::milliseconds kMostSilence{10000}, kLeastSilence{1000};
constexpr std::chrono::hours kLongestTrust{24 * 365};
/// Of memory.limit: handles, what listings of a writable mount brought, listings that somebody is in the
/// middle of, and writes that are not durable.
constexpr std::uint64_t kShareOfHandles = 64, kShareOfEntries = 16, kShareOfListings = 16,
                        kShareOfWrites = 32;
constexpr std::uint64_t kLeastWriteBytes = 4 << 20, kMostWriteBytes = 64 << 20;
constexpr std::size_t kMostHandleBytes = 64 << 20, kMostEntryBytes = 64 << 20, kLeastListingBytes = 32 << 20;

std::vector<std::uint32_t> own_groups(const Settings& settings) {
    std::vector<std::uint32_t> groups;
    if (settings.nfs_uid != ::geteuid() || settings.nfs_gid != ::getegid()) return groups;
    const int count = ::getgroups(0, nullptr);
    if (count <= 0) return groups;
    std::vector<gid_t> ids(static_cast<std::size_t>(count));
    const int got = ::getgroups(count, ids.data());
    groups.assign(ids.begin(), ids.begin() + std::max(got, 0));
    return groups;
}

MountRequest mount_request(const Settings& settings, const NfsUrl& url) {
    MountRequest request;
    request.hosts = url.hosts;
    request.path = url.path;
    request.nfs_port = settings.nfs_port;
    request.mount_port = settings.nfs_mount_port;
    request.credential = auth_sys("tierfs", settings.nfs_uid, settings.nfs_gid, own_groups(settings));
    return request;
}

ConnectionOptions connection_options(const Settings& settings, const std::string& credential) {
    ConnectionOptions options;
    options.credential = credential;
    options.calls = std::max(1U, settings.origin_connections / std::max(1U, settings.nfs_connections));
    options.silence = std::clamp(settings.origin_deadline / 3, kLeastSilence, kMostSilence);
    return options;
}

PosixExport::Options export_options(const Settings& settings) {
    PosixExport::Options options;
    options.uid = settings.nfs_uid;
    options.budget = std::clamp(settings.memory_limit / kShareOfWrites, kLeastWriteBytes, kMostWriteBytes);
    options.entries = static_cast<std::size_t>(
        std::min<std::uint64_t>(settings.memory_limit / kShareOfEntries, kMostEntryBytes));
    options.longest = std::min<std::chrono::milliseconds>(settings.metadata_ttl, kLongestTrust);
    options.deadline = settings.origin_deadline;
    return options;
}

/// See Origin.
class NfsOrigin final : public Origin {
  public:
    NfsOrigin(const Settings& settings, const NfsUrl& url)
        : identity_(url.identity()),
          deadline_(settings.origin_deadline),
          request_(mount_request(settings, url)),
          client_(connection_options(settings, request_.credential), settings.nfs_connections,
                  settings.nfs_uid == 0),
          root_(request_, client_),
          handles_(static_cast<std::size_t>(
              std::min<std::uint64_t>(settings.memory_limit / kShareOfHandles, kMostHandleBytes))),
          resolver_(client_, root_, handles_,
                    std::min<std::chrono::milliseconds>(settings.metadata_ttl, kLongestTrust)),
          reader_(client_, root_, resolver_, handles_),
          lister_(client_, resolver_, handles_,
                  std::max<std::size_t>(settings.memory_limit / kShareOfListings, kLeastListingBytes),
                  deadline_),
          writer_(client_, root_, resolver_, reader_, lister_, deadline_),
          export_(client_, root_, export_options(settings)) {}

    ~NfsOrigin() override { NfsOrigin::stop(); }

    [[nodiscard]] std::string identity() const override { return identity_; }
    [[nodiscard]] std::string kind() const override { return "nfs"; }
    /// A page is one request, as a stat is.
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string&) const override { return 1; }
    [[nodiscard]] OriginStats stats() const override;

    Result<void> check() override;
    Result<struct statvfs> statistics() override { return export_.statistics(); }
    [[nodiscard]] bool has_statistics() const override { return true; }
    Result<Attributes> stat(const std::string& path) override;
    Result<ListPage> list(const std::string& path, const std::string& token) override {
        return lister_.list(path, token);
    }
    Result<std::string> read_link(const std::string& path) override;
    void read(OriginRead request) override { reader_.read(std::move(request), deadline()); }

    WritableOrigin* writable() override { return &writer_; }
    PosixOrigin* posix() override { return &export_; }

    void stop() override {
        root_.stop();
        client_.stop();
    }

  private:
    [[nodiscard]] Clock::time_point deadline() const { return Clock::now() + deadline_; }
    [[nodiscard]] Call call(const Procedure& procedure, const Handle& handle) const {
        Call made;
        made.procedure = procedure;
        made.arguments = handle_arguments(handle);
        made.deadline = deadline();
        return made;
    }
    Result<Found> find(const std::string& path);
    Result<FileAttributes3> attributes_of(const std::string& path, const Handle& handle);

    const std::string identity_;
    const std::chrono::milliseconds deadline_;
    const MountRequest request_;
    Client client_;
    Root root_;
    HandleCache handles_;
    Resolver resolver_;
    Reader reader_;
    Lister lister_;
    NfsWriter writer_;
    PosixExport export_;
};

OriginStats NfsOrigin::stats() const {
    const auto& counted = client_.counters();
    OriginStats stats;
    stats.get = counted.get;
    stats.head = counted.head;
    stats.list = counted.list;
    stats.put = counted.put;
    stats.remove = counted.remove;
    stats.other = counted.other;
    stats.bytes_read = counted.bytes_read;
    stats.bytes_written = counted.bytes_written;
    stats.retries = counted.retries;
    stats.errors = counted.errors;
    stats.reach = counted.reachability.state();
    return stats;
}

Result<void> NfsOrigin::check() {
    const auto until = Clock::now() + std::min<std::chrono::milliseconds>(deadline_, kDeadlineOfCheck);
    if (auto mounted = root_.mount(until); !mounted) return mounted;
    const auto root = stat("");
    if (!root) return fail(root.error());
    if (root->kind != ObjectKind::directory) return fail(ENOTDIR, identity_ + " is no directory");
    return {};
}

Result<Found> NfsOrigin::find(const std::string& path) {
    const Answer<Found> answer;
    const auto until = deadline();
    const auto give = [answer](Result<Found> found) { answer.give(std::move(found)); };
    if (path.empty()) {
        resolver_.directory(path, {until, Priority::demand}, give);
    } else {
        resolver_.look_up(path, {until, Priority::demand}, give);
    }
    return answer.wait(until);
}

Result<FileAttributes3> NfsOrigin::attributes_of(const std::string& path, const Handle& handle) {
    const auto what = "GETATTR of '" + path + "'";
    auto reply = ask(client_, call(kGetattr, handle), what, read_getattr);
    if (!reply) return fail(reply.error());
    if (reply->status != kOk) return fail(to_errno(reply->status), what + ": " + status_name(reply->status));
    return std::move(reply->attributes);
}

Result<Attributes> NfsOrigin::stat(const std::string& path) {
    auto found = find(path);
    if (!found) return fail(found.error());
    if (!found->attributes) {
        auto told = attributes_of(path, found->handle);
        if (!told && told.error().code == ESTALE) {  // the root's handle, or the name, is another one now
            resolver_.distrust(path, found->handle);
            found = find(path);
            if (!found) return fail(found.error());
            told = attributes_of(path, found->handle);
        }
        if (!told) return fail(told.error());
        found->attributes = std::move(*told);
    }
    auto& file = *found->attributes;
    if (file.is_special) return fail(ENOENT, "'" + path + "' is neither file, directory nor symlink");
    if (file.attributes.kind != ObjectKind::directory) file.attributes.version = shown_version_of(file);
    return std::move(file.attributes);
}

Result<std::string> NfsOrigin::read_link(const std::string& path) {
    const auto found = find(path);
    if (!found) return fail(found.error());
    const auto what = "READLINK of '" + path + "'";
    auto reply = ask(client_, call(kReadlink, found->handle), what, read_readlink);
    if (!reply) return fail(reply.error());
    if (reply->status != kOk) return fail(to_errno(reply->status), what + ": " + status_name(reply->status));
    if (reply->target.empty() || reply->target.find('\0') != std::string::npos)
        return fail(EIO, what + ": the server sends no path");
    return std::move(reply->target);
}

}  // namespace

Result<std::unique_ptr<Origin>> open_nfs_origin(const Settings& given) {
    Settings settings = given;
    if (const auto applied = apply_nfs_url(settings); !applied) return fail(applied.error());
    const auto url = parse_nfs_url(settings.source);
    if (!url) return fail(url.error());
    try {
        return std::make_unique<NfsOrigin>(settings, *url);
    } catch (const std::exception& error) {
        return fail(EIO, std::string("cannot start the NFS client: ") + error.what());
    }
}

}  // namespace tierfs
