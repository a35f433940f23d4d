// HTTP/1.1 requests over libcurl: what backends/http takes. Internal to backends.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/origin/origin.hpp"

namespace tierfs::http {

using Clock = std::chrono::steady_clock;
using Header = std::pair<std::string, std::string>;  ///< name, value

/// A body that is read while it is sent, so that it need not be in memory. Several attempts, one after the
/// other, may read it, each from the start. Called on a reactor's thread: it should not block for long.
class BodySource {
  public:
    virtual ~BodySource() = default;
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    /// Fills `piece` with the bytes from `offset` on; false: they cannot be read, and the attempt fails.
    virtual bool read(std::uint64_t offset, std::span<std::byte> piece) = 0;
};

/// How an attempt ended when it did not end with a reply.
enum class Failure : std::uint8_t {
    none,
    cancelled,   ///< the engine was stopped
    deadline,    ///< Request::deadline passed, in the queue or on the wire
    stalled,     ///< no byte came for the stall limit
    connect,     ///< name not resolved, connection refused or timed out
    reset,       ///< the connection broke before or within the reply
    truncated,   ///< the body ended before its announced length
    too_large,   ///< the body is longer than the destination or the limit
    tls,         ///< certificate or handshake
    protocol,    ///< not HTTP, or a URL that libcurl refuses
    superseded,  ///< AttemptWatch: another attempt was quicker
};

/// Hears how an attempt goes, and may end it early with Failure::superseded. Called on a reactor's thread,
/// without a lock held.
class AttemptWatch {
  public:
    virtual ~AttemptWatch() = default;
    /// The attempt leaves the queue.
    virtual void started(Clock::time_point now) = 0;
    /// The first byte of the body of a 200 or 206 is here: may it, and all that follow, be kept?
    virtual bool takes_body() = 0;
    /// Asked several times a second: is the attempt no longer needed?
    [[nodiscard]] virtual bool abandoned() const = 0;
};

/// One attempt. A plain value; `destination` belongs to the caller and must stay valid until the completion.
struct Request {
    std::string method = "GET";  ///< GET, HEAD, PUT, POST or DELETE
    std::string url;
    std::vector<Header> headers;
    std::string body;  ///< of PUT and POST
    /// Sent instead of `body` when not empty. Belongs to the caller, valid until the completion.
    std::span<const std::byte> upload;
    std::shared_ptr<BodySource> source;  ///< of PUT and POST: sent instead of both when set
    std::span<std::byte>
        destination;  ///< body of a 200 or 206 goes here, if not empty; else to Response::body
    std::size_t body_limit = 16U << 20;
    Clock::time_point deadline = Clock::time_point::max();
    std::chrono::milliseconds connect_timeout{5000};
    std::chrono::milliseconds stall{0};  ///< longest silence in both directions; 0: as WireOptions says
    Priority priority = Priority::demand;
    bool is_of_names = false;   ///< asks for names or attributes; see Lane
    bool ignore_proxy = false;  ///< metadata services are on this machine or its link: never through a proxy
    bool skip_admission = false;          ///< credentials are fetched even when all connections are taken
    bool fresh_connection = false;        ///< after a failure: do not trust an old connection
    std::shared_ptr<AttemptWatch> watch;  ///< may be null
};

struct Response {
    Failure failure = Failure::none;
    std::string detail;           ///< for people, when `failure` is set: what libcurl says; holds no secret
    int status = 0;               ///< 0: no reply
    std::vector<Header> headers;  ///< names in lower case
    std::string body;
    std::size_t received = 0;  ///< body bytes, wherever they went
    bool reused_connection = false;
    std::chrono::milliseconds silence{
        0};  ///< of an attempt that was cut short: so long nothing had come or gone

    /// Value of the first header of that (lower-case) name; empty if there is none.
    [[nodiscard]] std::string_view header(std::string_view name) const {
        for (const auto& [key, value] : headers) {
            if (key == name) return value;
        }
        return {};
    }
};

using Completion = std::function<void(Response)>;

}  // namespace tierfs::http
