#include "bench/iobench/run/interruption.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tierfs::iobench {

namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

sigset_t set_of_signals() {
    sigset_t set{};
    sigemptyset(&set);
    for (const int number : kSignals) sigaddset(&set, number);
    return set;
}

}  // namespace

Interruption::Interruption() {
    const sigset_t set = set_of_signals();
    if (sigprocmask(SIG_BLOCK, &set, &before_) != 0)
        throw std::system_error(errno, std::generic_category(), "sigprocmask");
    signals_ = Fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    if (signals_.get() >= 0) return;
    const int code = errno;
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    throw std::system_error(code, std::generic_category(), "signalfd");
}

Interruption::~Interruption() {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int Interruption::signal() {
    signalfd_siginfo info{};
    while (first_ == 0 && read(signals_.get(), &info, sizeof info) == sizeof info)
        first_ = static_cast<int>(info.ssi_signo);
    return first_;
}

void Interruption::let_through_in_child() const {
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART: what waits returns
    for (const int number : kSignals) {
        struct sigaction now {};
        if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
        sigaction(number, &action, nullptr);
    }
    sigprocmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace tierfs::iobench
