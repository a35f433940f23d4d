#include "fs/cli/signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tierfs {

namespace {

constexpr int kSignalStatus = 128;

}  // namespace

Signals::Signals(StopFlag& stop) : stop_(stop) {
    sigset_t set{};
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction now {};
        // Ignored ones stay so (nohup).
        if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
        sigaddset(&set, number);
    }
    if (const int code = pthread_sigmask(SIG_BLOCK, &set, &before_); code != 0)
        throw std::system_error(code, std::generic_category(), "pthread_sigmask");
    signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    end_.reset(eventfd(0, EFD_CLOEXEC));
    if (!signals_ || !end_) throw std::system_error(errno, std::generic_category(), "signalfd");
    thread_ = std::thread([this] { watch(); });
}

Signals::~Signals() {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(end_.get(), &one, sizeof one));
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Signals::watch() {
    for (bool again = false;;) {
        std::array<pollfd, 2> files{{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
        if (::poll(files.data(), files.size(), -1) < 0) continue;
        if (files[1].revents != 0) return;
        signalfd_siginfo info{};
        if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
        if (again) ::_exit(kSignalStatus + static_cast<int>(info.ssi_signo));
        again = true;
        stop_.request();
    }
}

}  // namespace tierfs
