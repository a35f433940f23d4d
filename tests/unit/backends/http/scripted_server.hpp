// A little HTTP server for tests: one thread, answers from a function, misbehaves on demand.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "config/base/mutex.hpp"

namespace tierfs::test {

struct ReceivedRequest {
    std::string method, target, body;
    std::map<std::string, std::string> headers;  ///< names in lower case

    [[nodiscard]] std::string header(const std::string& name) const {
        const auto found = headers.find(name);
        return found == headers.end() ? std::string() : found->second;
    }
};

enum class How {
    whole,
    stall,          ///< no byte ever
    stall_in_body,  ///< half of the body, then nothing
    truncate,       ///< half of the body, then the end of the connection
    reset,          ///< RST instead of a reply
    close_after,    ///< the reply, then the end of the connection without having said so
    after_next,     ///< whole, but only after the answer to the next request
    raw,            ///< `body` is all that is sent, then the end of the connection
};

struct Reply {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    How how = How::whole;
};

/// A reply that a test changes while the server runs; use it by std::ref as handler.
class ChangingReply {
  public:
    void set(Reply reply) {
        const MutexLock lock(mutex_);
        reply_ = std::move(reply);
    }
    Reply operator()(const ReceivedRequest&) {
        const MutexLock lock(mutex_);
        return reply_;
    }

  private:
    Mutex mutex_;
    Reply reply_ TIERFS_GUARDED_BY(mutex_);
};

/// Listens on a free port of 127.0.0.1 until it is destroyed. The handler runs on the server's thread; while
/// it blocks, no other request is answered.
class ScriptedServer {
  public:
    using Handler = std::function<Reply(const ReceivedRequest&)>;

    explicit ScriptedServer(Handler handler);
    ~ScriptedServer();
    ScriptedServer(const ScriptedServer&) = delete;
    ScriptedServer& operator=(const ScriptedServer&) = delete;

    [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
    [[nodiscard]] int port() const { return port_; }
    [[nodiscard]] std::vector<ReceivedRequest> requests();
    [[nodiscard]] std::size_t count();
    [[nodiscard]] unsigned connections() const { return connections_; }

    /// Connections that neither side has closed. False when more than that many are left after half a minute.
    [[nodiscard]] bool wait_until_open(std::size_t most);

    /// False when not so many requests came within half a minute.
    [[nodiscard]] bool wait_for_requests(std::size_t number);

  private:
    void run();
    void accept_one();
    void close_one(int socket);
    /// False: the connection is finished.
    bool serve(int socket, std::string& input);
    bool answer(int socket, const Reply& reply, bool head);

    Handler handler_;
    int listener_ = -1, port_ = 0;
    int wake_[2] = {-1, -1};
    std::atomic<unsigned> connections_{0};
    std::map<int, Reply> delayed_;        ///< likewise: answers that come after the next one
    std::map<int, std::string> clients_;  ///< the thread's own: socket -> input not yet used
    Mutex mutex_;
    std::condition_variable arrived_;
    std::vector<ReceivedRequest> requests_ TIERFS_GUARDED_BY(mutex_);
    std::size_t open_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::thread thread_;
};

/// Opened once, waited for with a generous limit.
class Gate {
  public:
    void open() {
        const MutexLock lock(mutex_);
        open_ = true;
        condition_.notify_all();
    }
    [[nodiscard]] bool wait() {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        MutexLock lock(mutex_);
        while (!open_) {
            if (lock.wait_until(condition_, limit) == std::cv_status::timeout) return open_;
        }
        return true;
    }

  private:
    Mutex mutex_;
    std::condition_variable condition_;
    bool open_ TIERFS_GUARDED_BY(mutex_) = false;
};

}  // namespace tierfs::test
