#include "bench/iobench/report/gnuplot.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <span>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

namespace {

/// A file without a name. Files and not pipes: neither side ever waits for the other.
Result<Fd> anonymous_file() {
    Fd file(memfd_create("iobench-gnuplot", MFD_CLOEXEC));
    if (file.get() < 0) return fail(system_error(errno, "memfd_create"));
    return file;
}

Result<void> fill(const Fd& file, const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
        if (n < 0) return fail(system_error(errno, "writing gnuplot's script"));
        done += static_cast<std::size_t>(n);
    }
    if (::lseek(file.get(), 0, SEEK_SET) < 0) return fail(system_error(errno, "lseek"));
    return {};
}

Result<std::string> content(const Fd& file) {
    struct stat attributes {};
    if (fstat(file.get(), &attributes) != 0) return fail(system_error(errno, "fstat"));
    std::string text(static_cast<std::size_t>(attributes.st_size), '\0');
    const auto n = read_at(file, std::as_writable_bytes(std::span(text)), 0, "gnuplot's output");
    if (!n) return fail(n.error());
    text.resize(*n);
    return text;
}

class FileActions {
  public:
    FileActions() { posix_spawn_file_actions_init(&actions_); }
    ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
    FileActions(const FileActions&) = delete;
    FileActions& operator=(const FileActions&) = delete;
    void redirect(const Fd& from, int to) { posix_spawn_file_actions_adddup2(&actions_, from.get(), to); }
    const posix_spawn_file_actions_t* get() { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_{};
};

/// Starts `program -d /dev/stdin`: without the user's settings, and as a file and not as a session, so that
/// the first error ends it. The environment is ours alone, since gnuplot takes settings from there too.
Result<pid_t> start(const std::string& program, const Fd& in, const Fd& out, const Fd& err) {
    FileActions actions;
    actions.redirect(in, STDIN_FILENO);
    actions.redirect(out, STDOUT_FILENO);
    actions.redirect(err, STDERR_FILENO);
    std::string name = program, defaults = "-d", from_input = "/dev/stdin", locale = "LC_ALL=C.UTF-8",
                home = "HOME=/";
    char* const arguments[] = {name.data(), defaults.data(), from_input.data(), nullptr};
    char* const environment[] = {locale.data(), home.data(), nullptr};
    pid_t pid = -1;
    const int error = posix_spawnp(&pid, name.c_str(), actions.get(), nullptr, arguments, environment);
    if (error != 0) return fail(system_error(error, program));
    return pid;
}

/// The exit status as wait(2) gives it.
Result<int> finish(pid_t pid, Gnuplot::Milliseconds limit) {
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd ended{process.get(), POLLIN, 0};
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + limit;
    int ready = 0;
    do {
        const auto left = std::chrono::duration_cast<Gnuplot::Milliseconds>(end - Clock::now()).count();
        ready = process.get() < 0 ? -1 : poll(&ended, 1, static_cast<int>(std::max<long>(left, 0)));
    } while (ready < 0 && errno == EINTR);
    const int error = ready < 0 ? errno : 0;
    if (ready <= 0) kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (error != 0) return fail(system_error(error, "waiting for gnuplot"));
    if (ready == 0) return fail(ETIMEDOUT, "gnuplot: no end after " + std::to_string(limit.count()) + " ms");
    return status;
}

}  // namespace

Result<std::string> Gnuplot::run(const std::string& script) const {
    const auto in = anonymous_file(), out = anonymous_file(), err = anonymous_file();
    for (const auto* file : {&in, &out, &err})
        if (!*file) return fail(file->error());
    if (auto filled = fill(*in, script); !filled) return fail(filled.error());
    const auto pid = start(program_, *in, *out, *err);
    if (!pid) return fail(pid.error());
    const auto status = finish(*pid, limit_);
    if (!status) return fail(status.error());
    if (*status == 0) return content(*out);
    const auto said = content(*err);
    if (!said) return fail(said.error());
    return fail(EIO, "gnuplot: " + said->substr(0, 500));
}

}  // namespace tierfs::iobench
