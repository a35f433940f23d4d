// The line between launcher, supervisor and daemon of one mount.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// A message: what it is, words, and perhaps a descriptor.
struct Message {
    enum class Kind : char {
        prepared = 'P',  ///< daemon: the source answers, the tiers are open: mount now
        failed = 'F',    ///< anyone upwards: it did not work; `text` says why
        mounted = 'M',   ///< supervisor: `descriptor` is /dev/fuse, serve it
        serving = 'S',   ///< daemon, then supervisor to launcher: the mount is served
        unmount = 'U',   ///< daemon: I was asked to end, unmount me
        finish = 'T',    ///< supervisor: the mount is gone from the name space, answer what waits and end
        ending = 'E',    ///< daemon: the mount is gone, I am ending
        // A mount that changes hands. The new program hears request, record and, when it may begin, go.
        reload = 'L',    ///< daemon: `descriptor` is a client that asks for a new program; answer it
        request = 'Q',   ///< supervisor: `descriptor` is a TakeoverRequest; text: kReload or kRestart
        record = 'C',    ///< supervisor: `descriptor` is a ConnectionRecord
        ready = 'Y',     ///< new program: I can take over; text: my version
        retire = 'R',    ///< supervisor: leave the connection to another daemon and end
        go = 'G',        ///< supervisor: the other one has ended, begin
        lock = 'K',      ///< anyone: `descriptor` is the lock of folder `text`; none: it was given up
        listener = 'N',  ///< supervisor: `descriptor` is the control socket
        keeper = 'D',    ///< daemon: `descriptor` is the line to the keeper of generation `text`
    };
    Kind kind = Kind::failed;
    std::string text;
    FileDescriptor descriptor;
};

/// Of Message::Kind::request: whether it is an upgrade, which may be refused, or somebody has to serve.
inline constexpr const char* kReload = "reload";
inline constexpr const char* kRestart = "restart";

/// One end of a socket pair that keeps messages apart (SOCK_SEQPACKET). Any thread may send; else for one.
class Channel {
  public:
    Channel() = default;
    explicit Channel(FileDescriptor socket) : socket_(std::move(socket)) {}

    static Result<std::pair<Channel, Channel>> make();

    /// False when the other end is gone.
    bool send(Message::Kind kind, const std::string& text = {}, int descriptor = -1);
    /// Waits for a message; empty when the other end is gone. Ended early by no signal.
    std::optional<Message> receive();
    /// Whether receive() would not wait.
    [[nodiscard]] bool has_news() const;

    [[nodiscard]] int descriptor() const { return socket_.get(); }
    void close() { socket_.reset(); }

  private:
    FileDescriptor socket_;
};

}  // namespace tierfs
