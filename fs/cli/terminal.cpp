#include "fs/cli/terminal.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

namespace tierfs {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr char kCtrlC = 3;

void put(std::string_view text) {
    while (!text.empty()) {
        const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
        if (written < 0 && errno != EINTR) return;
        if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
}

sigset_t signals_of_interest() {
    sigset_t signals;
    ::sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) ::sigaddset(&signals, signal);
    return signals;
}

}  // namespace

bool Terminal::is_there() {
    return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

Terminal::Terminal() {
    const sigset_t signals = signals_of_interest();
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    signals_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    ::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    put(kEnter);
}

Terminal::~Terminal() {
    put(kLeave);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    const sigset_t signals = signals_of_interest();
    signals_.reset();
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

Terminal::Size Terminal::size() {
    winsize found{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0 || found.ws_row == 0) return {};
    return {found.ws_col, found.ws_row};
}

void Terminal::draw(const std::vector<std::string>& lines) {
    std::string text = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) text += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
    put(text + "\x1b[J");
}

Terminal::Event Terminal::wait_until(std::chrono::steady_clock::time_point when) {
    using std::chrono::milliseconds;
    while (true) {
        const auto left =
            std::chrono::duration_cast<milliseconds>(when - std::chrono::steady_clock::now()).count();
        std::array<pollfd, 2> wanted{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0}};
        const int ready = ::poll(wanted.data(), wanted.size(),
                                 static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 60'000)));
        if (ready < 0 && errno != EINTR) return Event::quit;
        signalfd_siginfo signal{};
        if (::read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal))
            return signal.ssi_signo == SIGWINCH ? Event::resized : Event::quit;
        if (ready > 0 && wanted[0].revents != 0) {
            char key = 0;
            if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q' || key == kCtrlC)
                return Event::quit;
        }
        if (std::chrono::steady_clock::now() >= when) return Event::time_passed;
    }
}

}  // namespace tierfs
