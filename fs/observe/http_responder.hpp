// The smallest HTTP server that Prometheus can fetch from.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/listen_address.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

/// Makes what is served. Called on the responder's thread.
using MetricsContent = std::function<std::string()>;

/// The whole answer to the head of a request (RFC 9112), up to and with the empty line: GET and HEAD of
/// /metrics are served, all else is refused with the status that says why. Never fails whatever comes.
std::string answer_http(std::string_view head, const MetricsContent& content);

/// Answers clients on a thread of its own, each for at most kPatience and one request, then closes; a slow one costs the others
/// nothing. A UNIX socket has mode 0660; its folder says who may come to it.
class HttpResponder {
  public:
    static constexpr std::size_t kLongestHead = 8 << 10;
    static constexpr std::chrono::seconds kPatience{2};
    static constexpr std::size_t kMostClients = 32;  ///< one more: the oldest is let go

    /// Errors: EADDRINUSE and its like, with the address. A socket that is left over is replaced.
    static Result<std::unique_ptr<HttpResponder>> open(const ListenAddress& address, MetricsContent content);
    ~HttpResponder();
    HttpResponder(const HttpResponder&) = delete;
    HttpResponder& operator=(const HttpResponder&) = delete;

  private:
    HttpResponder(FileDescriptor listener, FileDescriptor wake, std::string path, MetricsContent content);
    using Clock = std::chrono::steady_clock;
    struct Client {
        enum class State : std::uint8_t { asks, is_answered, ends };
        FileDescriptor socket;
        Clock::time_point deadline;
        std::string text;  ///< its request, then the answer
        std::size_t sent = 0;
        State state = State::asks;
        [[nodiscard]] short events() const { return state == State::is_answered ? POLLOUT : POLLIN; }
    };
    void run();
    void accept();
    bool advance(Client& client);
    bool read_request(Client& client);
    bool send_answer(Client& client);

    FileDescriptor listener_, wake_;
    std::string path_;  ///< of a UNIX socket
    std::optional<SocketIdentity> identity_;
    MetricsContent content_;
    std::vector<Client> clients_;  ///< of the thread alone; in the order in which they came
    std::thread thread_;
};

/// metrics.listen of a daemon: serves, and while it cannot, since somebody else has the port, tries again.
/// One thread calls it, but for the content.
class MetricsServer {
  public:
    /// `listen`: the setting; empty: nothing is ever served.
    MetricsServer(const std::string& listen, MetricsContent content);

    /// To be called about once a second.
    void tick();
    void stop() { responder_.reset(); }

  private:
    const std::string listen_;
    const MetricsContent content_;
    std::unique_ptr<HttpResponder> responder_;
    bool told_ = false;  ///< that it does not work
};

}  // namespace tierfs
