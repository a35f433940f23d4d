#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;

Result<void> make_folder_of_sockets(const std::string& directory) {
    if (TIERFS_FAULT_CALL("control.folder", ::mkdir(directory.c_str(), 0755)) != 0 && errno != EEXIST) {
        return fail(system_error(errno, "the control directory " + directory + " cannot be made"));
    }
    const FileDescriptor held(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat found {};
    if (!held || ::fstat(held.get(), &found) != 0 || found.st_uid != ::geteuid()) {
        return fail(EPERM, "the control directory " + directory +
                               " is a link, or belongs to somebody else: remove it");
    }
    // Who may write to it could put a socket of his own in the place of a mount's.
    if ((found.st_mode & 0022U) != 0 && ::fchmod(held.get(), 0755) != 0)
        return fail(system_error(errno, "the control directory " + directory));
    return {};
}

bool may_ask(int client) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (TIERFS_FAULT_CALL("control.peer", ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size)) != 0)
        return false;
    return peer.uid == 0 || peer.uid == ::geteuid();
}

std::string reply_line(const Json& reply) {
    // Names and paths need not be UTF-8: what is not is replaced, never thrown over.
    return reply.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string control_answer(const Json& result) {
    return reply_line(Json{{"ok", true}, {"result", result}});
}

std::string control_refusal(const std::string& why) {
    return reply_line(Json{{"ok", false}, {"error", why}});
}

std::string control_directory() {
    if (::geteuid() == 0) return "/run/tierfs";
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/tierfs";
    return "/tmp/tierfs-" + std::to_string(::geteuid());
}

Result<void> make_control_directory() {
    return make_folder_of_sockets(control_directory());
}

std::string control_path(const std::string& device) {
    return control_directory() + "/" + device + ".sock";
}

std::optional<SocketIdentity> socket_identity(const std::string& path) {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) return std::nullopt;
    return SocketIdentity(found.st_dev, found.st_ino, found.st_ctim.tv_sec, found.st_ctim.tv_nsec);
}

void remove_socket(const std::string& path, const std::optional<SocketIdentity>& expected) {
    if (!expected || socket_identity(path) != expected) return;
    // Another mount may take the name at this very moment: what is moved aside is looked at once more.
    const auto aside = path + "." + std::to_string(::getpid()) + ".ending";
    if (::rename(path.c_str(), aside.c_str()) != 0) return;
    const auto moved = socket_identity(aside);
    const bool is_ours = moved && std::get<0>(*moved) == std::get<0>(*expected) &&
                         std::get<1>(*moved) == std::get<1>(*expected);
    // Unless it is there again.
    if (!is_ours && ::link(aside.c_str(), path.c_str()) != 0 && errno != EEXIST)
        log::warning(system_error(errno, "the control socket " + path).message);
    ::unlink(aside.c_str());
}

std::string answer_control_line(std::string_view line, const ControlHandler& handler) {
    // No request has reason to be deep, and each level costs whoever looks at it.
    const auto shallow = [](int depth, Json::parse_event_t /*event*/, Json& /*parsed*/) {
        return depth <= 4;
    };
    const auto request = Json::parse(line, shallow, false);
    if (!request.is_object()) return control_refusal("a request is one JSON object on a line");
    const auto command = request.find("command");
    if (command == request.end() || !command->is_string())
        return control_refusal("the request has no \"command\"");
    auto result = handler(command->get<std::string>(), request);
    if (result) return control_answer(*result);
    return result.error().code == EINPROGRESS ? std::string() : control_refusal(result.error().message);
}

Result<FileDescriptor> listen_control(const std::string& path) {
    if (auto made = make_folder_of_sockets(path.substr(0, path.find_last_of('/'))); !made)
        return fail(made.error());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
        return fail(ENAMETOOLONG, path + " is too long for a socket");
    std::memcpy(address.sun_path, path.data(), path.size());

    FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) return fail(system_error(errno, "the control socket"));
    // A device number is used by one mount at a time, so a socket of its name is left over.
    ::unlink(path.c_str());
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    // The file takes the mode of the socket (unix(7), Linux); umask would be everybody's.
    ::fchmod(listener.get(), 0600);
    if (TIERFS_FAULT_CALL("control.bind", ::bind(listener.get(), generic, sizeof(address))) != 0) {
        return fail(system_error(errno, "the control socket " + path));
    }
    if (::listen(listener.get(), 16) != 0) return fail(system_error(errno, "the control socket " + path));
    return listener;
}

FileDescriptor accept_control(int listener) {
    FileDescriptor client(TIERFS_FAULT_CALL(
        "control.accept", ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
    if (!client || may_ask(client.get())) return client;
    errno = EACCES;
    return FileDescriptor{};
}

Result<std::unique_ptr<ControlServer>> ControlServer::open(FileDescriptor listener, const std::string& path,
                                                           ControlHandler handler, PassOn pass_on) {
    FileDescriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) return fail(system_error(errno, "the control socket"));
    std::unique_ptr<ControlServer> server(new ControlServer(path, std::move(listener), std::move(wake),
                                                            std::move(handler), std::move(pass_on)));
    server->identity_ = socket_identity(path);
    server->thread_ = std::thread([raw = server.get()] { raw->run(); });
    return server;
}

ControlServer::ControlServer(std::string path, FileDescriptor listener, FileDescriptor wake,
                             ControlHandler handler, PassOn pass_on)
    : path_(std::move(path)),
      listener_(std::move(listener)),
      wake_(std::move(wake)),
      handler_(std::move(handler)),
      pass_on_(std::move(pass_on)) {}

ControlServer::~ControlServer() {
    stop();
}

void ControlServer::stop() {
    if (!thread_.joinable()) return;
    leave();
    remove_socket(path_, identity_);
}

void ControlServer::leave() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
    thread_.join();
    listener_.reset();
}

bool ControlServer::wait_for(int descriptor, short events, std::chrono::steady_clock::time_point deadline) {
    using std::chrono::milliseconds;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 2> wanted{pollfd{descriptor, events, 0}, pollfd{wake_.get(), POLLIN, 0}};
    const int ready = ::poll(wanted.data(), wanted.size(), static_cast<int>(left));
    if (ready < 0) return errno == EINTR;
    return ready > 0 && wanted[1].revents == 0;
}

void ControlServer::run() {
    while (true) {
        std::array<pollfd, 2> wanted{pollfd{listener_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
        if (TIERFS_FAULT_CALL("control.poll", ::poll(wanted.data(), wanted.size(), -1)) < 0 &&
            errno != EINTR) {
            log::error(system_error(errno, path_).message + ": `tierfs status` works no more");
            return;
        }
        if (wanted[1].revents != 0) return;
        FileDescriptor client = accept_control(listener_.get());
        if (client) {
            serve(std::move(client));
        } else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED && errno != EACCES) {
            // Out of descriptors, or of memory: the connection stays in the queue, so do not spin on it.
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    }
}

void ControlServer::serve(FileDescriptor owned) {
    const int client = owned.get();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::string input;
    std::string output;
    bool last = false;
    while (true) {
        while (!output.empty()) {
            const auto sent = TIERFS_FAULT_CALL(
                "control.send",
                ::send(client, output.data(), TIERFS_FAULT_SHORT(output.size()), MSG_NOSIGNAL));
            if (sent > 0) {
                output.erase(0, static_cast<std::size_t>(sent));
            } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(client, POLLOUT, deadline)) {
                return;
            }
        }
        if (last) return;
        if (const auto end = input.find('\n'); end != std::string::npos) {
            output = answer_control_line(std::string_view(input).substr(0, end), handler_);
            input.erase(0, end + 1);
            if (!output.empty()) continue;
            if (pass_on_) pass_on_(std::move(owned));
            return;
        }
        if (input.size() > kLongestRequest) {
            output = control_refusal("the request is too long");
            last = true;
            continue;
        }
        if (!wait_for(client, POLLIN, deadline)) return;
        std::array<char, 4096> piece{};
        const auto got = TIERFS_FAULT_CALL("control.receive", ::recv(client, piece.data(), piece.size(), 0));
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
        if (got > 0) input.append(piece.data(), static_cast<std::size_t>(got));
    }
}

}  // namespace tierfs
