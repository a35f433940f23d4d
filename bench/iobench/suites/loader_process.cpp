#include "bench/iobench/suites/loader_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kOutputKept = 4000;
constexpr std::size_t kLongestLine = 64 << 20;

struct Pipe {
    Fd out, in;
    Pipe() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
        out = Fd(ends[0]);
        in = Fd(ends[1]);
    }
};

void keep_open(const Fd& fd) {
    fcntl(fd.get(), F_SETFD, 0);
}

/// The interpreter and the lines it sends.
class Driver {
  public:
    explicit Driver(const LoaderPlan& plan)
        : plan_(plan), deadline_ns_(now_ns() + static_cast<std::uint64_t>(plan.limit_s * 1e9)) {
        const Json told = {{"file", plan.file},       {"function", plan.function},
                           {"path", plan.path},       {"reference", plan.reference},
                           {"workers", plan.workers}, {"batches", plan.batches},
                           {"warmup", plan.warmup},   {"pause_s", plan.pause_s},
                           {"seed", plan.seed >> 1},  {"results", results_.in.get()},
                           {"go", go_.out.get()}};
        const std::string argument = told.dump(-1, ' ', false, Json::error_handler_t::replace);
        std::fflush(nullptr);
        child_ = fork();
        if (child_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (child_ == 0) become_python(argument);
        setpgid(child_, child_);  // by both: whoever is first
        results_.in.close();
        output_.in.close();  // go_.out stays open: a Python that is gone must not make us die of SIGPIPE
    }

    /// The whole process group, before its number could become another's.
    ~Driver() {
        kill(-child_, SIGKILL);
        kill(child_, SIGKILL);
        while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    void go() { static_cast<void>(!::write(go_.in.get(), "g", 1)); }

    /// The next line that is more than news of a phase, other than "ready".
    Result<Json> next() {
        for (;;) {
            auto line = next_line();
            if (!line) return fail(line.error());
            Json told = Json::parse(*line, nullptr, false);
            if (!told.is_object()) return fail(EPROTO, where() + ": sent what iobench does not understand");
            if (told.contains("error") && told["error"].is_string())
                return fail(EIO, where() + ": " + told["error"].get<std::string>());
            if (!told.contains("phase") || !told["phase"].is_string()) return told;
            phase_ = told["phase"].get<std::string>();
            if (phase_ == "ready") return told;
        }
    }

    [[nodiscard]] std::string where() const { return plan_.file + ":" + plan_.function; }

  private:
    [[noreturn]] void become_python(const std::string& argument) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int nothing = ::open("/dev/null", O_RDONLY);
        dup2(nothing, STDIN_FILENO);
        dup2(output_.in.get(), STDOUT_FILENO);
        dup2(output_.in.get(), STDERR_FILENO);
        keep_open(results_.in);
        keep_open(go_.out);
        execlp(plan_.python.c_str(), plan_.python.c_str(), "-c", loader_driver(), argument.c_str(), nullptr);
        const Json error = {{"error", plan_.python + " cannot be started: " + std::strerror(errno)}};
        const std::string line = error.dump() + "\n";
        static_cast<void>(!::write(results_.in.get(), line.data(), line.size()));
        _exit(127);
    }

    Result<std::string> next_line() {
        for (;;) {
            const std::size_t end = lines_.find('\n');
            if (end != std::string::npos) {
                std::string line = lines_.substr(0, end);
                lines_.erase(0, end + 1);
                return line;
            }
            if (lines_.size() > kLongestLine) return fail(EPROTO, where() + ": sends a line without end");
            if (now_ns() >= deadline_ns_) return fail(ETIMEDOUT, late());
            const bool dead = has_ended();
            const bool got = collect(200);
            if (interrupted_) return fail(EINTR, where() + ": interrupted");
            if (dead && !got) return fail(EIO, died());
        }
    }

    /// Without reaping it: until then its process group keeps its number.
    bool has_ended() {
        siginfo_t info{};
        return waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == child_;
    }

    /// Reads what there is, waiting for it a while; false: nothing came.
    bool collect(int milliseconds) {
        pollfd polled[2] = {{results_.out.get(), POLLIN, 0}, {output_.out.get(), POLLIN, 0}};
        const int ready = poll(polled, 2, milliseconds);
        interrupted_ = ready < 0 && errno == EINTR;
        if (ready <= 0) return false;
        char bytes[65536];
        bool got = false;
        for (int i = 0; i < 2; ++i) {
            if ((polled[i].revents & (POLLIN | POLLHUP)) == 0) continue;
            const ssize_t n = ::read(polled[i].fd, bytes, sizeof bytes);
            if (n <= 0) continue;
            got = true;
            std::string& to = i == 0 ? lines_ : printed_;
            to.append(bytes, static_cast<std::size_t>(n));
        }
        if (printed_.size() > kOutputKept) printed_.erase(0, printed_.size() - kOutputKept);
        if (!got) usleep(10'000);  // both ends are closed: poll does not wait any more
        return got;
    }

    std::string died() {
        int status = 0;
        siginfo_t info{};
        waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
        status = info.si_status;
        const std::string how = info.si_code == CLD_EXITED ? "ended with status " : "died of signal ";
        return where() + ": Python " + how + std::to_string(status) + " in " + phase_ + output();
    }

    /// Where it hangs is the question then: Python answers it, if it still runs its signal handlers.
    std::string late() {
        printed_.clear();
        kill(child_, SIGUSR2);
        for (int i = 0; i < 10 && !has_ended() && printed_.empty(); ++i) collect(200);
        while (collect(50)) {
            if (printed_.size() >= kOutputKept) break;
        }
        char limit[40];
        std::snprintf(limit, sizeof limit, "%g", plan_.limit_s);
        return where() + ": no end after " + limit + " s (--loader-timeout), in " + phase_ + output();
    }

    [[nodiscard]] std::string output() const {
        return printed_.empty() ? "" : "; the last that it printed:\n" + printed_;
    }

    const LoaderPlan& plan_;
    const std::uint64_t deadline_ns_;
    Pipe results_, output_, go_;
    pid_t child_ = -1;
    bool interrupted_ = false;
    std::string phase_ = "starting Python", lines_, printed_;
};

Result<LoaderPass> read_pass(const Json& told, const Driver& driver, std::uint64_t batches) {
    LoaderPass pass;
    const auto waits = told.find("waits_s");
    const auto seconds = told.find("seconds");
    if (waits != told.end() && waits->is_array() && waits->size() == batches && seconds != told.end() &&
        seconds->is_number() &&
        std::all_of(waits->begin(), waits->end(), [](const Json& one) { return one.is_number(); })) {
        pass.waits_s = waits->get<std::vector<double>>();
        pass.seconds = seconds->get<double>();
        if (pass.seconds > 0) return pass;
    }
    return fail(EPROTO, driver.where() + ": sent what iobench does not understand");
}

}  // namespace

Result<LoaderTimes> time_loader(const LoaderPlan& plan, const std::function<Result<void>()>& ready) {
    Driver driver(plan);
    if (auto told = driver.next(); !told) return fail(told.error());
    if (auto done = ready(); !done) return fail(done.error());
    driver.go();
    LoaderTimes times;
    for (LoaderPass* pass : {&times.first, &times.second}) {
        const auto told = driver.next();
        if (!told) return fail(told.error());
        auto read = read_pass(*told, driver, plan.batches);
        if (!read) return fail(read.error());
        *pass = std::move(*read);
    }
    return times;
}

}  // namespace tierfs::iobench
