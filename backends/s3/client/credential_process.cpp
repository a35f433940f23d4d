// Running credential_process: no shell, a deadline, bounded output.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "backends/s3/client/credential_chain.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::size_t kOutputLimit = 64U << 10;
constexpr std::chrono::milliseconds kTick{20};

/// Closes a descriptor at the end of the scope.
class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    void close() {
        if (number_ >= 0) ::close(number_);
        number_ = -1;
    }
    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

/// What posix_spawn is told: output into the pipe, nothing else of ours, a process group of its own to be
/// killed by.
class SpawnPlan {
  public:
    explicit SpawnPlan(int output) {
        posix_spawn_file_actions_init(&actions_);
        posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
        // What it says on standard error may hold a secret.
        posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        // libcurl's sockets among others, which are not close-on-exec.
        posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
        posix_spawnattr_init(&attributes_);
        sigset_t signals;
        sigemptyset(&signals);
        posix_spawnattr_setsigmask(&attributes_, &signals);
        sigfillset(&signals);
        posix_spawnattr_setsigdefault(&attributes_, &signals);
        posix_spawnattr_setpgroup(&attributes_, 0);
        posix_spawnattr_setflags(&attributes_,
                                 POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~SpawnPlan() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;

    int spawn(pid_t& child, std::vector<std::string> words, const Environment& environment) {
        std::vector<std::string> variables;
        for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
        return ::posix_spawnp(&child, words.front().c_str(), &actions_, &attributes_, pointers(words).data(),
                              pointers(variables).data());
    }

  private:
    static std::vector<char*> pointers(std::vector<std::string>& texts) {
        std::vector<char*> list;
        for (auto& text : texts) list.push_back(text.data());
        list.push_back(nullptr);
        return list;
    }

    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t attributes_{};
};

/// Reads to the end of the pipe; false when it takes too long, or is too much.
bool read_all(int pipe, std::string& output, http::Clock::time_point deadline,
              const std::atomic<bool>& stopping) {
    std::array<char, 4096> buffer{};
    while (!stopping && http::Clock::now() < deadline) {
        pollfd ready{pipe, POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>(kTick.count()) * 5) <= 0) continue;
        const auto count = TIERFS_FAULT_CALL("credentials.output",
                                             ::read(pipe, buffer.data(), TIERFS_FAULT_SHORT(buffer.size())));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count == 0;
        output.append(buffer.data(), static_cast<std::size_t>(count));
        if (output.size() > kOutputLimit) return false;
    }
    return false;
}

/// Exit status; nothing when it does not end in time. A parent that ignores SIGCHLD learns no status: then
/// the output alone decides.
std::optional<int> wait_for(pid_t child, http::Clock::time_point deadline,
                            const std::atomic<bool>& stopping) {
    while (true) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (ended < 0 && errno == ECHILD) return 0;
        if (stopping || http::Clock::now() >= deadline) return std::nullopt;
        std::this_thread::sleep_for(kTick);
    }
}

}  // namespace

Result<std::vector<std::string>> split_words(const std::string& line) {
    std::vector<std::string> words;
    std::string word;
    bool within = false;  // a word has begun, perhaps an empty one in quotes
    char quote = '\0';
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote == '\'' && c != '\'') {
            word += c;
        } else if (c == '\\' && i + 1 < line.size() &&
                   (quote == '\0' || line[i + 1] == '"' || line[i + 1] == '\\')) {
            word += line[++i];
            within = true;
        } else if (quote != '\0') {
            if (c == quote) {
                quote = '\0';
            } else {
                word += c;
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            within = true;
        } else if (c == ' ' || c == '\t') {
            if (within) words.push_back(std::move(word));
            word.clear();
            within = false;
        } else {
            word += c;
            within = true;
        }
    }
    if (quote != '\0') return fail(EINVAL, "a quote is not closed");
    if (within) words.push_back(std::move(word));
    return words;
}

Result<std::string> run_program(const std::vector<std::string>& words, const Environment& environment,
                                std::chrono::milliseconds timeout, const std::atomic<bool>& stopping) {
    if (words.empty()) return fail(EINVAL, "the command is empty");
    std::array<int, 2> ends{};
    if (TIERFS_FAULT_CALL("credentials.pipe", ::pipe2(ends.data(), O_CLOEXEC)) != 0)
        return fail(system_error(errno, "pipe"));
    const Descriptor reading(ends[0]);
    Descriptor writing(ends[1]);
    pid_t child = 0;
    int code = TIERFS_FAULT("credentials.spawn");
    if (code == 0) code = SpawnPlan(writing.number()).spawn(child, words, environment);
    if (code != 0) return fail(system_error(code, words.front()));
    writing.close();
    const auto deadline = http::Clock::now() + timeout;
    std::string output;
    const bool whole = read_all(reading.number(), output, deadline, stopping);
    const auto status = whole ? wait_for(child, deadline, stopping) : std::nullopt;
    if (!status) {
        ::kill(-child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        if (output.size() > kOutputLimit) return fail(EIO, words.front() + " printed more than 64 KiB");
        return fail(ETIMEDOUT,
                    words.front() + " did not end within " + std::to_string(timeout.count()) + " ms");
    }
    if (*status != 0) return fail(EIO, words.front() + " failed with status " + std::to_string(*status));
    return output;
}

}  // namespace tierfs::s3
