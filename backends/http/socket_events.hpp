// Ready sockets of a curl_multi handle, asked of epoll(7). Internal to backends/http.
#pragma once

#include <array>
#include <chrono>
#include <optional>

namespace tierfs::http {

/// Drives a multi handle by libcurl's socket interface (curl_multi_socket_action(3)): what it costs depends
/// on the sockets that something has come from, where curl_multi_poll and curl_multi_perform look at each
/// connection each time. Takes over the handle's CURLMOPT_SOCKET… and CURLMOPT_TIMER… options; the handle
/// outlives it. All on one thread but `wake`, which is thread-safe. Throws std::runtime_error where the
/// kernel has no descriptor left.
class SocketEvents {
  public:
    using Clock = std::chrono::steady_clock;

    explicit SocketEvents(void* multi);
    ~SocketEvents();
    SocketEvents(const SocketEvents&) = delete;
    SocketEvents& operator=(const SocketEvents&) = delete;

    /// Lets transfers go on that were added or whose time has come. Does not wait.
    void run_due();
    /// Waits for sockets, libcurl's next time or `wake`, at most so long, and lets those transfers go on.
    void wait(std::chrono::milliseconds most);
    /// Ends the wait that is under way, else the next.
    void wake() const;

  private:
    static int socket_changed(void* easy, int socket, int what, void* self, void* of_socket);
    static int timer_changed(void* multi, long milliseconds, void* self);
    void watch(int socket, int what) const;

    void* multi_;
    int epoll_ = -1, wakeup_ = -1;
    std::optional<Clock::time_point> due_;
};

}  // namespace tierfs::http
