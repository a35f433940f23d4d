#include "bench/iobench/run/run_apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// Of this process and of those it has waited for; both directions.
std::optional<std::uint64_t> bytes_moved() {
    std::ifstream file("/proc/self/io");
    std::uint64_t total = 0, value = 0;
    unsigned found = 0;
    for (std::string key; file >> key >> value;)
        if (key == "rchar:" || key == "wchar:") {
            total += value;
            ++found;
        }
    return found == 2 ? std::optional(total) : std::nullopt;
}

Json error_json(int code, const std::string& text) {
    return {{"code", code}, {"text", text}};
}

/// What the child says to its parent.
Json answer_of(const std::function<Result<Metrics>()>& work) {
    try {
        const auto before = bytes_moved();
        const auto metrics = work();
        if (!metrics) return error_json(metrics.error().code, metrics.error().message);
        const auto after = bytes_moved();
        Json list = Json::array();
        for (const Metric& metric : *metrics) {
            if (!std::isfinite(metric.value))
                return error_json(EDOM, metric.name + ": the suite gave no finite number");
            list.push_back({metric.name, metric.value, static_cast<int>(metric.better)});
        }
        return {{"metrics", list}, {"bytes", before && after ? Json(*after - *before) : Json(nullptr)}};
    } catch (const std::exception& error) {
        return error_json(EIO, error.what());
    }
}

[[noreturn]] void run_child(const std::function<Result<Metrics>()>& work, const Interruption& stop, int out) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a parent that was killed leaves nobody behind
    stop.let_through_in_child();
    // Not of the terminal's foreground group any more: reading from it would stop the process.
    if (const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC)); null.get() >= 0)
        dup2(null.get(), STDIN_FILENO);
    const std::string text = answer_of(work).dump(-1, ' ', false, Json::error_handler_t::replace);
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t n = write(out, text.data() + done, text.size() - done);
        if (n < 0 && errno != EINTR) _exit(1);
        done += static_cast<std::size_t>(std::max<ssize_t>(n, 0));
    }
    std::fflush(nullptr);
    _exit(0);
}

Result<RunOutcome> outcome_of(const std::string& text, int status) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        if (WIFSIGNALED(status))
            return fail(EIO, "the run died of signal " + std::to_string(WTERMSIG(status)));
        return fail(EIO, "the run ended without a result");
    }
    if (json.contains("text")) return fail(json["code"].get<int>(), json["text"].get<std::string>());
    RunOutcome outcome;
    for (const Json& metric : json["metrics"])
        outcome.metrics.push_back({metric[0].get<std::string>(), metric[1].get<double>(),
                                   static_cast<Better>(metric[2].get<int>())});
    if (!json["bytes"].is_null()) outcome.bytes = json["bytes"].get<std::uint64_t>();
    return outcome;
}

std::vector<pid_t> children() {
    std::ifstream file("/proc/thread-self/children");
    std::vector<pid_t> pids;
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    return pids;
}

/// The child and what it starts. Not thread-safe.
class RunProcess {
  public:
    RunProcess(const std::function<Result<Metrics>()>& work, const Interruption& stop) : others_(children()) {
        // What the child's processes leave behind becomes our child, to be found and ended.
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
        answers_ = Fd(ends[0]);
        const Fd out(ends[1]);
        std::fflush(nullptr);  // what is buffered would be written twice
        child_ = fork();
        if (child_ == 0) run_child(work, stop, out.get());
        if (child_ < 0) return;
        setpgid(child_, child_);  // by both: whoever is first
        // Not glibc's function: the header of 2.36 does not declare it for C++.
        handle_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, child_, 0)));
        fcntl(answers_.get(), F_SETFL, O_NONBLOCK);
    }
    ~RunProcess() {
        end();
        prctl(PR_SET_CHILD_SUBREAPER, 0);
    }
    RunProcess(const RunProcess&) = delete;
    RunProcess& operator=(const RunProcess&) = delete;

    [[nodiscard]] bool started() const { return handle_.get() >= 0; }

    /// Waits for the child's end, an answer, a signal or the end of the time; true when the child has ended.
    bool wait(std::chrono::milliseconds time, const Interruption& stop) {
        std::array<pollfd, 3> waited = {pollfd{handle_.get(), POLLIN, 0}, pollfd{answers_.get(), POLLIN, 0},
                                        pollfd{stopping() ? -1 : stop.descriptor(), POLLIN, 0}};
        const int ready = poll(waited.data(), waited.size(), static_cast<int>(time.count()));
        take_answers();
        return ready > 0 && waited[0].revents != 0;
    }

    /// SIGTERM first, SIGKILL after the time of grace; called again and again. False when even that is of no
    /// use.
    bool stop() {
        const auto now = Clock::now();
        if (!stopping()) {
            stopped_ = now;
            kill(-child_, SIGTERM);
        }
        if (now - *stopped_ > kGrace) kill(-child_, SIGKILL);
        return now - *stopped_ <= 2 * kGrace;
    }
    [[nodiscard]] bool stopping() const { return stopped_.has_value(); }

    /// Kills what is left and reaps it; the child's wait status.
    int end() {
        if (child_ > 0) {
            kill(-child_, SIGKILL);  // before it is reaped: until then its number is nobody else's
            const auto limit = Clock::now() + kGrace;
            while (waitpid(child_, &status_, WNOHANG) == 0 && Clock::now() < limit)
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            child_ = -1;
        }
        end_orphans();
        return status_;
    }

    [[nodiscard]] const std::string& answer() const { return answer_; }

  private:
    void take_answers() {
        std::array<char, 4096> buffer{};
        for (ssize_t n = 0; (n = read(answers_.get(), buffer.data(), buffer.size())) > 0;)
            answer_.append(buffer.data(), static_cast<std::size_t>(n));
    }

    void end_orphans() {
        const auto limit = Clock::now() + kGrace;
        for (;;) {
            bool left = false;
            for (const pid_t pid : children()) {
                if (std::find(others_.begin(), others_.end(), pid) != others_.end()) continue;
                kill(pid, SIGKILL);
                left = waitpid(pid, nullptr, WNOHANG) == 0 || left;
            }
            if (!left || Clock::now() > limit) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }

    std::vector<pid_t> others_;  // that were there before
    Fd answers_, handle_;
    pid_t child_ = -1;
    int status_ = 0;
    std::optional<Clock::time_point> stopped_;
    std::string answer_;
};

}  // namespace

Result<RunOutcome> run_apart(const std::function<Result<Metrics>()>& work, Interruption& stop,
                             const Watch& watch) {
    if (stop.signal() != 0) return fail(ECANCELED, "interrupted");
    RunProcess process(work, stop);
    if (!process.started()) return fail(system_error(errno, "a process for the run"));
    while (!process.wait(process.stopping() ? std::chrono::milliseconds(100) : watch.interval, stop)) {
        if (watch.look) watch.look();
        if (stop.signal() != 0 && !process.stop()) break;
    }
    const int status = process.end();
    if (stop.signal() != 0) return fail(ECANCELED, "interrupted");
    return outcome_of(process.answer(), status);
}

}  // namespace tierfs::iobench
