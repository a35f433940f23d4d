#include "backends/nfs/mounting.hpp"

#include <poll.h>

#include <algorithm>
#include <random>

#include "backends/nfs/reply_stream.hpp"

namespace tierfs::nfs {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kPortmapPort = 111;

/// The one reply that is waited for.
class OneReply final : public ReplySink {
  public:
    explicit OneReply(std::uint32_t xid) : xid_(xid) {}
    std::optional<Expected> expected(std::uint32_t xid) override {
        if (xid != xid_ || has_come) return std::nullopt;
        return Expected{};
    }
    void replied(std::uint32_t, const Reply& reply) override {
        has_come = true;
        acceptance = reply.acceptance;
        body.assign(reply.body.begin(), reply.body.end());
    }
    bool has_come = false;
    Acceptance acceptance;
    std::vector<std::byte> body;

  private:
    const std::uint32_t xid_;
};

/// A TCP connection for a few calls, one after the other.
class MountCall {
  public:
    MountCall(const Address& to, std::string what, Clock::time_point deadline)
        : to_(to), what_(std::move(what)), deadline_(deadline) {}

    /// The procedure's own part of the reply.
    Result<std::vector<std::byte>> call(const Procedure& procedure, std::string_view credential,
                                        std::string_view arguments);

  private:
    Result<void> connect();
    Result<void> wait_for(short events);
    [[nodiscard]] Error problem(int code, const std::string& why) const {
        return Error{code, what_ + " at " + to_.text() + ": " + why};
    }

    const Address to_;
    const std::string what_;
    const Clock::time_point deadline_;
    FileDescriptor socket_;
};

Result<void> MountCall::wait_for(short events) {
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
        if (left.count() <= 0) return fail(problem(ETIMEDOUT, "no answer"));
        pollfd wanted{socket_.get(), events, 0};
        if (::poll(&wanted, 1, static_cast<int>(std::min<std::int64_t>(left.count() + 1, 60000))) > 0)
            return {};
    }
}

Result<void> MountCall::connect() {
    auto made = begin_connect(to_);
    if (!made) return fail(problem(made.error().code, made.error().message));
    socket_ = std::move(*made);
    if (auto ready = wait_for(POLLOUT); !ready) return ready;
    if (const int code = connect_outcome(socket_.get()); code != 0)
        return fail(problem(code, system_error(code, "connecting").message));
    return {};
}

Result<std::vector<std::byte>> MountCall::call(const Procedure& procedure, std::string_view credential,
                                               std::string_view arguments) {
    if (!socket_) {
        if (auto connected = connect(); !connected) return fail(connected.error());
    }
    const std::uint32_t xid = std::random_device{}();
    const auto body = make_call(xid, procedure, credential, arguments);
    XdrWriter mark;
    mark.u32(0x80000000U | static_cast<std::uint32_t>(body.size()));
    const std::string record = mark.text() + body;
    for (std::size_t sent = 0; sent < record.size();) {
        if (auto ready = wait_for(POLLOUT); !ready) return fail(ready.error());
        const auto count = ::send(socket_.get(), record.data() + sent, record.size() - sent, MSG_NOSIGNAL);
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            return fail(problem(errno, system_error(errno, "sending").message));
        if (count > 0) sent += static_cast<std::size_t>(count);
    }
    OneReply reply(xid);
    ReplyStream stream(reply, 0);
    while (!reply.has_come) {
        if (auto ready = wait_for(POLLIN); !ready) return fail(ready.error());
        const auto space = stream.space();
        const auto count = ::recv(socket_.get(), space[1].iov_base, space[1].iov_len, 0);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (count < 0) return fail(problem(errno, system_error(errno, "receiving").message));
        if (count == 0) return fail(problem(ECONNRESET, "the connection was closed"));
        if (auto taken = stream.received(static_cast<std::size_t>(count)); !taken)
            return fail(problem(EIO, "the reply makes no sense: " + taken.error().message));
    }
    if (reply.acceptance.code != 0)
        return fail(problem(reply.acceptance.code, std::string(reply.acceptance.what)));
    return std::move(reply.body);
}

/// The port of a program; 0: the portmapper does not know it.
Result<unsigned> ask_port(const Address& host, const Procedure& of, Clock::time_point deadline) {
    MountCall caller(host.with_port(kPortmapPort), "the portmapper", deadline);
    XdrWriter arguments;
    arguments.u32(of.program);
    arguments.u32(of.version);
    arguments.u32(IPPROTO_TCP);
    arguments.u32(0);
    const auto body = caller.call(kGetport, auth_sys("", 0, 0, {}), arguments.text());
    if (!body) return fail(body.error());
    XdrReader in(*body);
    const auto port = in.u32();
    if (!in.ok() || port > 65535) return fail(EIO, "the portmapper at " + host.text() + " makes no sense");
    return port;
}

Result<unsigned> port_of(const Address& host, const Procedure& of, unsigned given, std::string_view setting,
                         Clock::time_point deadline) {
    if (given != 0) return given;
    const std::string advice =
        "; where no portmapper can be reached, give the port: -o " + std::string(setting) + "=N";
    const auto port = ask_port(host, of, deadline);
    if (!port) return fail(port.error().code, port.error().message + advice);
    if (*port == 0)
        return fail(EOPNOTSUPP, "the portmapper at " + host.text() + " knows no " +
                                    (of.program == kMountProgram ? "mount service" : "NFS") +
                                    " of version 3 over TCP" + advice);
    return *port;
}

/// What the server exports; empty when it does not say.
std::vector<std::string> exports_of(MountCall& caller, const std::string& credential) {
    const auto body = caller.call(kExport, credential, "");
    if (!body) return {};
    XdrReader in(*body);
    auto paths = read_exports(in);
    if (!in.ok()) paths.clear();
    return paths;
}

/// The refusal in words. Servers say "no access" for what is not there too.
Error refusal(const MountRequest& request, std::uint32_t status, const std::vector<std::string>& exports) {
    std::string list;
    bool is_covered = exports.empty();
    for (const auto& path : exports) {
        list += (list.empty() ? "; it exports " : ", ") + path;
        is_covered =
            is_covered || request.path == path || request.path.starts_with(path == "/" ? path : path + "/");
    }
    const int code = !is_covered || to_errno(status) == ESTALE ? ENOENT : to_errno(status);
    const std::string why = code == ENOENT   ? "there is no such export"
                            : code == EACCES ? "it lets others mount it, but not this host"
                                             : status_name(status);
    return Error{code, "the server refuses to mount '" + request.path + "' (" + why + ")" + list};
}

/// What is mounted, and what of the path is left to be looked up.
struct Start {
    Handle handle;
    std::string rest;
};

Result<Start> ask_mount(MountCall& caller, const MountRequest& request) {
    std::uint32_t first_status = 0;
    for (std::string path = request.path;;) {
        XdrWriter arguments;
        arguments.opaque(path);
        const auto body = caller.call(kMnt, request.credential, arguments.text());
        if (!body) return fail(body.error());
        XdrReader in(*body);
        auto reply = read_mount(in);
        if (!in.ok()) return fail(EIO, "the mount service's reply makes no sense");
        if (reply.status == kOk) {
            if (!reply.flavors.empty() && std::count(reply.flavors.begin(), reply.flavors.end(), 1U) == 0)
                return fail(EACCES, "export " + path + " wants another security than AUTH_SYS (sec=sys)");
            return Start{std::move(reply.handle), request.path.substr(path == "/" ? 0 : path.size())};
        }
        if (first_status == 0) first_status = reply.status;
        const auto slash = path.rfind('/');
        if (path == "/" || slash == std::string::npos) break;
        path.resize(std::max<std::size_t>(slash, 1));
    }
    return fail(refusal(request, first_status, exports_of(caller, request.credential)));
}

Result<Handle> look_up_rest(MountCall& caller, const MountRequest& request, Start start) {
    std::size_t at = 0;
    while (at < start.rest.size()) {
        if (start.rest[at] == '/') {
            ++at;
            continue;
        }
        const auto end = std::min(start.rest.find('/', at), start.rest.size());
        const auto name = start.rest.substr(at, end - at);
        const auto body = caller.call(kLookup, request.credential, lookup_arguments(start.handle, name));
        if (!body) return fail(body.error());
        XdrReader in(*body);
        const auto reply = read_lookup(in);
        if (!in.ok()) return fail(EIO, "the server's reply to LOOKUP makes no sense");
        if (reply.status != kOk)
            return fail(to_errno(reply.status), "'" + name + "' of '" + request.path +
                                                    "' on the server: " + status_name(reply.status));
        start.handle = reply.handle;
        at = end;
    }
    return std::move(start.handle);
}

/// Nobody is there, or nobody answers: another address of the server may do.
bool is_absence(int code) {
    return code == ETIMEDOUT || code == ECONNREFUSED || code == EHOSTUNREACH || code == ENETUNREACH ||
           code == ECONNRESET || code == EHOSTDOWN;
}

/// At the first of the hosts, which are addresses of one server.
Result<Mounted> mount_at(const std::vector<Address>& hosts, const MountRequest& request,
                         Clock::time_point deadline) {
    const auto& host = hosts.front();
    const auto mount_port = port_of(host, kMnt, request.mount_port, "nfs.mount_port", deadline);
    if (!mount_port) return fail(mount_port.error());
    const auto nfs_port = port_of(host, kGetattr, request.nfs_port, "nfs.port", deadline);
    if (!nfs_port) return fail(nfs_port.error());
    Mounted mounted;
    for (const auto& each : hosts) mounted.addresses.push_back(each.with_port(*nfs_port));
    MountCall mounter(host.with_port(*mount_port), "the mount service", deadline);
    auto start = ask_mount(mounter, request);
    if (!start) return fail(start.error());
    MountCall caller(mounted.addresses[0], "the NFS server", deadline);
    auto root = look_up_rest(caller, request, std::move(*start));
    if (!root) return fail(root.error());
    mounted.root = std::move(*root);
    const auto body = caller.call(kFsinfo, request.credential, handle_arguments(mounted.root));
    if (!body) return fail(body.error());
    XdrReader in(*body);
    mounted.sizes = read_fsinfo(in);
    if (!in.ok()) return fail(EIO, "the server's reply to FSINFO makes no sense");
    if (mounted.sizes.status != kOk)
        return fail(to_errno(mounted.sizes.status), "FSINFO: " + status_name(mounted.sizes.status));
    return mounted;
}

}  // namespace

Result<Mounted> mount_export(const MountRequest& request, Clock::time_point deadline) {
    Error unresolved{EHOSTUNREACH, "no host"};
    std::vector<Address> hosts;
    for (const auto& name : request.hosts) {
        auto host = resolve(name);
        if (host) {
            hosts.push_back(*host);
        } else {
            unresolved = host.error();
        }
    }
    if (hosts.empty()) return fail(unresolved);
    Result<Mounted> mounted = fail(unresolved);
    for (auto left = static_cast<int>(hosts.size()); left > 0; --left) {
        const auto now = Clock::now();
        mounted = mount_at(hosts, request, left == 1 ? deadline : now + (deadline - now) / left);
        if (mounted || !is_absence(mounted.error().code)) break;
        std::rotate(hosts.begin(), hosts.begin() + 1, hosts.end());
    }
    return mounted;
}

}  // namespace tierfs::nfs
