#include "backends/http/socket_events.hpp"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <stdexcept>

namespace tierfs::http {
namespace {

constexpr std::size_t kAtOnce = 64;  ///< events; what is beyond comes with the next wait

std::uint32_t epoll_events_of(int what) {
    std::uint32_t events = 0;
    if ((what & CURL_POLL_IN) != 0) events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0) events |= EPOLLOUT;
    return events;
}

int curl_events_of(std::uint32_t events) {
    int ready = 0;
    if ((events & EPOLLIN) != 0) ready |= CURL_CSELECT_IN;
    if ((events & EPOLLOUT) != 0) ready |= CURL_CSELECT_OUT;
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) ready |= CURL_CSELECT_ERR;
    return ready;
}

}  // namespace

SocketEvents::SocketEvents(void* multi)
    : multi_(multi), epoll_(epoll_create1(EPOLL_CLOEXEC)), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = wakeup_;
    if (epoll_ < 0 || wakeup_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, wakeup_, &event) != 0) {
        if (epoll_ >= 0) ::close(epoll_);
        if (wakeup_ >= 0) ::close(wakeup_);
        throw std::runtime_error("epoll: no descriptor for the connections of a thread");
    }
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &SocketEvents::socket_changed);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &SocketEvents::timer_changed);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
}

SocketEvents::~SocketEvents() {
    // Cleaning up the handle closes connections, of which it would tell.
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, nullptr);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, nullptr);
    ::close(wakeup_);
    ::close(epoll_);
}

int SocketEvents::socket_changed(void* /*easy*/, int socket, int what, void* self, void* /*of_socket*/) {
    static_cast<const SocketEvents*>(self)->watch(socket, what);
    return 0;
}

int SocketEvents::timer_changed(void* /*multi*/, long milliseconds, void* self) {
    auto& due = static_cast<SocketEvents*>(self)->due_;
    due.reset();
    if (milliseconds >= 0) due = Clock::now() + std::chrono::milliseconds(milliseconds);
    return 0;
}

void SocketEvents::watch(int socket, int what) const {
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(epoll_, EPOLL_CTL_DEL, socket, nullptr);  // closed before: it is gone already
        return;
    }
    epoll_event event{};
    event.events = epoll_events_of(what);
    event.data.fd = socket;
    if (epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event) != 0 && errno == ENOENT)
        epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event);
}

void SocketEvents::run_due() {
    if (!due_ || *due_ > Clock::now()) return;
    due_.reset();  // a time holds once
    int running = 0;
    curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

void SocketEvents::wait(std::chrono::milliseconds most) {
    if (due_) {
        const auto until = std::chrono::ceil<std::chrono::milliseconds>(*due_ - Clock::now());
        most = std::clamp(until, std::chrono::milliseconds{0}, most);
    }
    std::array<epoll_event, kAtOnce> events{};
    const int count =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>(most.count()));
    for (int i = 0; i < count; ++i) {
        const auto& event = events.at(static_cast<std::size_t>(i));
        if (event.data.fd == wakeup_) {
            std::uint64_t times = 0;
            [[maybe_unused]] const auto read = ::read(wakeup_, &times, sizeof times);
            continue;
        }
        // One that a transfer before it in this loop has closed is not known any more, which is no error.
        int running = 0;
        curl_multi_socket_action(multi_, event.data.fd, curl_events_of(event.events), &running);
    }
}

void SocketEvents::wake() const {
    const std::uint64_t once = 1;
    [[maybe_unused]] const auto written = ::write(wakeup_, &once, sizeof once);
}

}  // namespace tierfs::http
