#include "bench/iobench/run/run_progress.hpp"

#include <cmath>
#include <cstdio>

namespace tierfs::iobench {

std::string progress_line(const RunStep& step, std::size_t done, std::size_t all,
                          std::chrono::duration<double> spent) {
    const auto of = [](std::size_t one, std::size_t whole) {
        return std::to_string(one) + " of " + std::to_string(whole);
    };
    std::string line = "case " + of(step.test_number, step.tests) + ", " + step.test + ": " + step.target +
                       (step.warm_up ? ", warm-up " : ", run ") + of(step.run, step.runs);
    if (done == 0) return line;
    const double left =
        spent.count() / static_cast<double>(done) * static_cast<double>(all - std::min(done, all));
    if (left < 120) return line + ", " + std::to_string(std::lround(left)) + " s left";
    return line + ", " + std::to_string(std::lround(left / 60)) + " min left";
}

RunProgress::~RunProgress() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
}

void RunProgress::begin(const RunStep& step) {
    if (shown_)
        std::fprintf(stderr, "\r\x1b[K%s", progress_line(step, done_, all_, Clock::now() - start_).c_str());
}

void RunProgress::end() {
    ++done_;
}

}  // namespace tierfs::iobench
