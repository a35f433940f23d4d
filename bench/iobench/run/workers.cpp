#include "bench/iobench/run/workers.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <system_error>
#include <utility>

namespace tierfs::iobench {

std::uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
           static_cast<std::uint64_t>(now.tv_nsec);
}

Workers::Workers(unsigned count, const std::function<Result<void>(unsigned)>& work) : reports_(count) {
    if (pipe(gate_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    std::fflush(nullptr);  // what is buffered would be written once by each child
    for (unsigned i = 0; i < count; ++i) {
        const pid_t child = fork();
        if (child == 0) run_child(i, work);
        if (child < 0) {
            const int code = errno;
            for (const pid_t other : children_) kill(other, SIGKILL);
            throw std::system_error(code, std::generic_category(), "fork");
        }
        children_.push_back(child);
    }
    close(std::exchange(gate_[0], -1));
}

Workers::~Workers() {
    release();
    for (const pid_t child : children_) {
        if (child < 0) continue;
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
}

void Workers::run_child(unsigned index, const std::function<Result<void>(unsigned)>& work) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a parent that was killed leaves nobody behind
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);  // see interruption.hpp
    close(gate_[1]);
    char byte = 0;
    while (read(gate_[0], &byte, 1) < 0 && errno == EINTR) {
    }
    Result<void> result;
    try {
        result = work(index);
    } catch (const std::exception& error) {  // else the child would go on as a second parent
        result = fail(EIO, "worker " + std::to_string(index) + ": " + error.what());
    }
    if (!result) {
        reports_[index].code = result.error().code;
        std::snprintf(reports_[index].text, sizeof reports_[index].text, "%s",
                      result.error().message.c_str());
    }
    _exit(result ? 0 : 1);
}

void Workers::release() {
    if (gate_[0] >= 0) close(std::exchange(gate_[0], -1));
    if (gate_[1] >= 0) close(std::exchange(gate_[1], -1));
}

Result<void> Workers::ended(unsigned index, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    if (reports_[index].code != 0) return fail(reports_[index].code, reports_[index].text);
    return fail(EIO, "worker " + std::to_string(index) + " died of signal " +
                         std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : 0));
}

Result<void> Workers::reap(bool block) {
    for (unsigned i = 0; i < children_.size(); ++i) {
        if (children_[i] < 0) continue;
        int status = 0;
        pid_t reaped = 0;
        do reaped = waitpid(children_[i], &status, block ? 0 : WNOHANG);
        while (reaped < 0 && errno == EINTR);
        if (reaped == 0) continue;
        children_[i] = -1;
        if (reaped < 0) return fail(system_error(errno, "waitpid"));
        if (auto result = ended(i, status); !result) return result;
    }
    return {};
}

Result<void> Workers::check() {
    return reap(false);
}

Result<void> Workers::wait() {
    return reap(true);
}

}  // namespace tierfs::iobench
