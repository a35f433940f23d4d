#include "fs/session/thread_stacks.hpp"

#include <cxxabi.h>
#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

namespace tierfs {
namespace {

constexpr int kMostFrames = 32;
constexpr int kOwnFrames = 2;  // the handler, and the kernel's return from it
constexpr std::size_t kMostThreads = 128;
constexpr std::size_t kMostText = 120;                          // of a frame
constexpr auto kPatience = std::chrono::milliseconds(500);      // with one thread
constexpr auto kAllPatience = std::chrono::milliseconds(2000);  // with all of them

int stack_signal() {
    return SIGRTMIN + 5;
}

/// The one slot. `turn` is the question's number while it waits for its thread; the thread that finds its
/// number there owns the slot until it sets `answered`. A thread that comes too late finds another number.
struct Slot {
    std::atomic<int> turn{0};
    std::atomic<int> answered{0};
    int depth = 0;
    std::array<void*, kMostFrames> frames{};
};

// A signal handler has no other place to find it.
Slot& slot() {
    constinit static Slot the_slot;
    return the_slot;
}

void on_signal(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const int code = errno;
    Slot& mine = slot();
    int number = info->si_value.sival_int;
    const int asked = number;
    if (asked != 0 && mine.turn.compare_exchange_strong(number, 0)) {
        mine.depth = ::backtrace(mine.frames.data(), kMostFrames);
        mine.answered.store(asked, std::memory_order_release);
    }
    errno = code;
}

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::vector<pid_t> own_threads() {
    std::vector<pid_t> threads;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/task"), ::closedir);
    if (!folder) return threads;
    while (const dirent* entry = ::readdir(folder.get())) {
        const auto thread = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
        if (thread > 0 && threads.size() < kMostThreads) threads.push_back(thread);
    }
    return threads;
}

/// The thread's frames; empty when it did not answer.
std::vector<void*> ask(pid_t thread, int number, std::chrono::steady_clock::time_point deadline) {
    Slot& mine = slot();
    siginfo_t info{};
    info.si_signo = stack_signal();
    info.si_code = SI_QUEUE;
    info.si_pid = ::getpid();
    info.si_uid = ::getuid();
    info.si_value.sival_int = number;
    mine.turn.store(number);
    bool sent = ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, info.si_signo, &info) == 0;
    while (sent && mine.answered.load(std::memory_order_acquire) != number) {
        int expected = number;
        // Whoever has begun to unwind is waited for: the slot is his.
        if (std::chrono::steady_clock::now() > deadline && mine.turn.compare_exchange_strong(expected, 0))
            sent = false;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    mine.turn.store(0);
    if (!sent) return {};
    const auto skipped = std::min(kOwnFrames, mine.depth);
    return {mine.frames.begin() + skipped, mine.frames.begin() + mine.depth};
}

/// "function+0x12" out of "program(mangled+0x12) [0x5555]".
std::string readable(std::string_view symbol) {
    const auto open = symbol.find('('), plus = symbol.find('+', open), close = symbol.find(')', open);
    std::string text(symbol);
    if (open != std::string_view::npos && plus != std::string_view::npos && plus > open + 1) {
        const std::string mangled(symbol.substr(open + 1, plus - open - 1));
        int status = 0;
        const std::unique_ptr<char, void (*)(void*)> plain(
            abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), ::free);
        text = plain ? plain.get() : mangled;
    } else if (open != std::string_view::npos && close != std::string_view::npos) {
        const auto slash = symbol.rfind('/', open);
        text = std::string(symbol.substr(slash == std::string_view::npos ? 0 : slash + 1,
                                         close - (slash == std::string_view::npos ? 0 : slash)));
    }
    if (text.size() > kMostText) text = text.substr(0, kMostText) + "...";
    return text;
}

std::string text_of(const std::vector<void*>& frames) {
    if (frames.empty()) return " does not answer";
    const std::unique_ptr<char*, void (*)(void*)> symbols(
        ::backtrace_symbols(frames.data(), static_cast<int>(frames.size())), ::free);
    std::string text;
    for (std::size_t i = 0; i < frames.size() && symbols; ++i)
        text += (i == 0 ? " " : " < ") + readable(symbols.get()[i]);
    return text;
}

/// Kernel's side: function it waits in, system call, and the kernel's stack where we may read it.
std::string kernel_side(pid_t thread) {
    const std::string task = "/proc/self/task/" + std::to_string(thread) + "/";
    std::string call = first_line(task + "syscall");
    call = call.substr(0, call.find(' '));
    std::string text = "waits in " + first_line(task + "wchan") + " (system call " + call + ")";
    std::ifstream stack(task + "stack");
    std::string line;
    for (int i = 0; i < 6 && std::getline(stack, line); ++i) {
        const auto space = line.find(' ');
        text += (i == 0 ? " kernel: " : " < ") + (space == std::string::npos ? line : line.substr(space + 1));
    }
    return text;
}

}  // namespace

void ThreadStacks::prepare() {
    std::array<void*, 4> frames{};
    (void)::backtrace(frames.data(), static_cast<int>(frames.size()));  // loads libgcc_s
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigfillset(&action.sa_mask);
    ::sigaction(stack_signal(), &action, nullptr);
}

std::vector<std::string> ThreadStacks::describe(const std::vector<pid_t>& left_out) {
    static std::atomic<int> numbers{0};
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    std::map<std::string, std::vector<pid_t>> groups;
    const auto end = std::chrono::steady_clock::now() + kAllPatience;
    for (const pid_t thread : own_threads()) {
        if (thread == self || std::find(left_out.begin(), left_out.end(), thread) != left_out.end()) continue;
        // First the kernel's side: the signal may end the wait.
        std::string kernel = kernel_side(thread);
        if (::syscall(SYS_tgkill, ::getpid(), thread, 0) != 0) continue;  // it has ended meanwhile
        const int number = ++numbers;
        const auto deadline = std::min(end, std::chrono::steady_clock::now() + kPatience);
        groups[kernel + ";" + text_of(ask(thread, number, deadline))].push_back(thread);
    }
    std::vector<std::string> lines;
    for (const auto& [text, threads] : groups) {
        std::string who = threads.size() == 1 ? "thread" : std::to_string(threads.size()) + " threads";
        for (std::size_t i = 0; i < threads.size() && i < 4; ++i) who += " " + std::to_string(threads[i]);
        if (threads.size() > 4) who += " ...";
        lines.push_back(who + ": " + text);
    }
    return lines;
}

}  // namespace tierfs
