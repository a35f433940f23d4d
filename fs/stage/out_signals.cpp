#include "fs/stage/out_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tierfs::stage {

OutSignals::OutSignals(StopFlag& stop) : stop_(stop) {
    sigset_t set{};
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction now {};
        if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;  // nohup
        sigaddset(&set, number);
    }
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    quit_.reset(::eventfd(0, EFD_CLOEXEC));
    if (!signals_ || !quit_) throw std::system_error(errno, std::generic_category(), "signalfd");
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    thread_ = std::thread([this] { run(); });
}

OutSignals::~OutSignals() {
    const std::uint64_t one = 1;
    if (::write(quit_.get(), &one, sizeof one) == sizeof one) {
        thread_.join();
    } else {
        thread_.detach();
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void OutSignals::run() {
    for (;;) {
        std::array<pollfd, 2> wait{pollfd{signals_.get(), POLLIN, 0}, pollfd{quit_.get(), POLLIN, 0}};
        if (::poll(wait.data(), wait.size(), -1) < 0) continue;
        if (wait[1].revents != 0) return;
        signalfd_siginfo info{};
        if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
        // All that is needed to go on is in the journal already.
        if (stop_.requested()) ::_exit(1);
        stop_.request();
    }
}

}  // namespace tierfs::stage
