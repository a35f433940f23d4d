#include "bench/iobench/run/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tierfs::iobench {

Progress::Progress(std::string what, std::uint64_t total)
    : what_(std::move(what)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() {
    if (shown_ && terminal_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::uint64_t bytes) {
    const auto now = Clock::now();
    if (now - last_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::milliseconds(10000))) return;
    last_ = now;
    shown_ = true;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(bytes) / seconds;
    const double share =
        total_ == 0 ? 1.0 : std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total_));
    const double left = rate > 0 ? static_cast<double>(total_ - std::min(bytes, total_)) / rate : 0;
    char line[200];
    std::snprintf(line, sizeof line, "%5.1f %% of %.1f MB, %.1f MB/s, %.0f s left", share * 100,
                  static_cast<double>(total_) / 1e6, rate / 1e6, left);
    if (!terminal_) {
        std::fprintf(stderr, "%s: %s\n", what_.c_str(), line);
        return;
    }
    constexpr int kWidth = 30;
    const int full = static_cast<int>(share * kWidth);
    std::fprintf(stderr, "\r\x1b[K%s [%.*s%*s] %s", what_.c_str(), full, "##############################",
                 kWidth - full, "", line);
}

}  // namespace tierfs::iobench
