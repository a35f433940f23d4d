// fs/control/: the socket on which a mount is asked, and mountinfo.hpp, which finds it. fs/daemon serves,
// fs/commands ask.
//
// Protocol: one JSON object a line, {"command": "status"} and what the command needs beside it; the answer is
// one line, {"ok": true, "result": ...} or {"ok": false, "error": "..."}. A connection may send several.
// Paths need not be UTF-8, and JSON is: each byte of a path is sent as the character of that number.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// Where the sockets of this user's mounts lie: /run/tierfs for root, $XDG_RUNTIME_DIR/tierfs (else
/// /tmp/tierfs-UID) for others.
std::string control_directory();

/// Makes that folder. EPERM: it is somebody else's.
Result<void> make_control_directory();

/// The socket of the mount with that device ("0:52").
std::string control_path(const std::string& device);

/// Where a mount is asked. Plain value.
struct ControlAddress {
    ControlAddress() = default;
    ControlAddress(std::string where, std::optional<uid_t> who = {}) : path(std::move(where)), owner(who) {}

    std::string path;
    std::optional<uid_t> owner;  ///< who has to listen there (SO_PEERCRED); nothing: whoever does
};

/// Where the socket of a mount of another user may lie, the likeliest place first: the folders that he has
/// by default, and what is bound elsewhere under such a name (/proc/net/unix). Anybody can make such a
/// socket.
std::vector<std::string> control_paths_of(uid_t owner, const std::string& device);

/// Which file a path leads to: device, inode and the time of its last change, since the kernel reuses inode
/// numbers, and mounts reuse each other's names. Empty: there is none.
using SocketIdentity = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t>;
std::optional<SocketIdentity> socket_identity(const std::string& path);
/// Removes the socket at `path` if it is still that one.
void remove_socket(const std::string& path, const std::optional<SocketIdentity>& expected);

/// Answers a command; `request` is all of the line. Called on the control thread, must not wait for the
/// origin. EINVAL for an unknown one; EINPROGRESS: somebody else will answer (ControlServer::PassOn).
using ControlHandler =
    std::function<Result<nlohmann::json>(const std::string& command, const nlohmann::json& request)>;

/// A path as the protocol has it, and back: nothing when the text holds other characters.
std::string path_to_wire(std::string_view path);
std::optional<std::string> path_from_wire(std::string_view text);

/// One line of the protocol: the request's line to the reply's, never fails whatever comes. Empty: somebody
/// else answers.
std::string answer_control_line(std::string_view line, const ControlHandler& handler);

/// The answers of the protocol, each a line.
std::string control_answer(const nlohmann::json& result);
std::string control_refusal(const std::string& why);

/// A socket at `path` that clients can connect to; they wait until somebody accepts. Makes its directory, and
/// replaces a socket that is left over. Errors: one of them cannot be made.
Result<FileDescriptor> listen_control(const std::string& path);

/// The next client that waits at `listener`, if it may ask: root, and who runs this process (SO_PEERCRED).
/// An empty one: none waits (EAGAIN), or it may not (EACCES); else the errno of accept.
FileDescriptor accept_control(int listener);

/// Serves a listening socket on one thread, one client at a time, each for at most kPatience. Requests longer
/// than kLongestRequest are refused.
class ControlServer {
  public:
    static constexpr std::size_t kLongestRequest = 64 << 10;
    static constexpr std::chrono::seconds kPatience{5};
    /// Takes over a client whose request the handler left to somebody else. On the control thread.
    using PassOn = std::function<void(FileDescriptor client)>;

    /// `path`: where the listener's socket lies. Errors: no descriptors.
    static Result<std::unique_ptr<ControlServer>> open(FileDescriptor listener, const std::string& path,
                                                       ControlHandler handler, PassOn pass_on = {});
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    /// Ends the thread and removes the socket unless another mount has made its own there; idempotent.
    void stop();
    /// Ends the thread; the socket stays, for whoever holds the listener too.
    void leave();

  private:
    ControlServer(std::string path, FileDescriptor listener, FileDescriptor wake, ControlHandler handler,
                  PassOn pass_on);
    void run();
    void serve(FileDescriptor client);
    bool wait_for(int descriptor, short events, std::chrono::steady_clock::time_point deadline);

    std::string path_;
    std::optional<SocketIdentity> identity_;
    FileDescriptor listener_, wake_;
    ControlHandler handler_;
    PassOn pass_on_;
    std::thread thread_;
};

/// "result" of one line that a mount answered with. EIO with what the mount said, or for what is no answer.
Result<nlohmann::json> parse_control_reply(std::string_view line);

/// Sends one command to the socket at `path` and returns "result". Errors: ECONNREFUSED or ENOENT when nobody
/// serves it, EPERM when somebody else does than has to, ETIMEDOUT, EACCES, or what the mount said (EIO).
/// A daemon that dies with the question is asked again, the next one, once.
Result<nlohmann::json> ask_control(const ControlAddress& address, const std::string& command,
                                   std::chrono::milliseconds patience);
/// The same with what the command needs: an object with a member "command".
Result<nlohmann::json> send_control(const ControlAddress& address, const nlohmann::json& request,
                                    std::chrono::milliseconds patience);

/// The process that made the socket: a mount's supervisor. Nothing when nobody, or somebody else, listens
/// there.
std::optional<pid_t> control_owner(const ControlAddress& address);

}  // namespace tierfs
