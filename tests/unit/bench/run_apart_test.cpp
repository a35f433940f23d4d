#include "bench/iobench/run/run_apart.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {
namespace run_apart_test {

namespace fs = std::filesystem;

Result<RunOutcome> apart(const std::function<Result<Metrics>()>& work, const Watch& watch = {}) {
    Interruption stop;
    return run_apart(work, stop, watch);
}

/// Whether a process with that number lives; a zombie does not.
bool lives(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const auto end = text.rfind(") ");
    return end != std::string::npos && text[end + 2] != 'Z';
}

TEST(RunApart, BringsMetricsBackExactly) {
    const auto outcome = apart([]() -> Result<Metrics> {
        return Metrics{
            {"a_s", 0.1, Better::lower}, {"b", 1.0 / 3, Better::neither}, {"c_per_s", 1e300, Better::higher}};
    });
    ASSERT_TRUE(outcome) << outcome.error().message;
    ASSERT_EQ(outcome->metrics.size(), 3);
    EXPECT_EQ(outcome->metrics[0].name, "a_s");
    EXPECT_EQ(outcome->metrics[0].value, 0.1);
    EXPECT_EQ(outcome->metrics[0].better, Better::lower);
    EXPECT_EQ(outcome->metrics[1].value, 1.0 / 3);
    EXPECT_EQ(outcome->metrics[2].value, 1e300);
    EXPECT_EQ(outcome->metrics[2].better, Better::higher);
}

TEST(RunApart, BringsMoreBackThanAPipeHolds) {
    const auto outcome = apart([]() -> Result<Metrics> {
        Metrics metrics;
        for (int i = 0; i < 5000; ++i) metrics.push_back({std::string(50, 'x') + std::to_string(i), 1.0 * i});
        return metrics;
    });
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->metrics.size(), 5000);
}

TEST(RunApart, BringsErrorsBack) {
    const auto failed = apart([]() -> Result<Metrics> { return fail(ENOENT, "no \xff such file"); });
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ENOENT);
    EXPECT_TRUE(failed.error().message.starts_with("no "));
    const auto thrown = apart([]() -> Result<Metrics> { throw std::runtime_error("thrown"); });
    ASSERT_FALSE(thrown);
    EXPECT_EQ(thrown.error().message, "thrown");
    const auto infinite = apart([]() -> Result<Metrics> { return Metrics{{"rate", INFINITY}}; });
    ASSERT_FALSE(infinite);
    EXPECT_EQ(infinite.error().code, EDOM);
    EXPECT_NE(infinite.error().message.find("rate"), std::string::npos);
    const auto died = apart([]() -> Result<Metrics> {
        raise(SIGKILL);
        return Metrics{};
    });
    ASSERT_FALSE(died);
    EXPECT_NE(died.error().message.find("signal 9"), std::string::npos);
}

TEST(RunApart, CountsBytesOfTheChildAndItsWorkers) {
    const auto outcome = apart([]() -> Result<Metrics> {
        Workers workers(2, [](unsigned) -> Result<void> {
            std::ifstream zeros("/dev/zero", std::ios::binary);
            std::vector<char> buffer(1 << 20);
            zeros.rdbuf()->pubsetbuf(nullptr, 0);
            zeros.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
            return {};
        });
        workers.release();
        if (auto done = workers.wait(); !done) return fail(done.error());
        return Metrics{};
    });
    ASSERT_TRUE(outcome);
    if (!outcome->bytes) GTEST_SKIP() << "the kernel does not count bytes of processes";
    EXPECT_GE(*outcome->bytes, 2U << 20);
    EXPECT_LT(*outcome->bytes, 3U << 20);
}

TEST(RunApart, LooksAgainAndAgainMeanwhile) {
    Shared<int> looks(1);
    const auto outcome = apart(
        [&]() -> Result<Metrics> {
            while (__atomic_load_n(&looks[0], __ATOMIC_SEQ_CST) < 3) usleep(1000);
            return Metrics{};
        },
        {.interval = std::chrono::milliseconds(5),
         .look = [&] { __atomic_fetch_add(&looks[0], 1, __ATOMIC_SEQ_CST); }});
    EXPECT_TRUE(outcome);
}

TEST(RunApart, SignalEndsTheRunAndItsWorkersAndLetsItCleanUp) {
    Shared<pid_t> pids(2);
    Shared<int> cleaned(1);
    Interruption stop;
    const pid_t parent = getpid();
    const auto outcome = run_apart(
        [&]() -> Result<Metrics> {
            struct Guard {
                Shared<int>& cleaned;
                ~Guard() { cleaned[0] = 1; }
            } guard{cleaned};
            Workers workers(2, [&](unsigned index) -> Result<void> {
                pids[index] = getpid();
                for (;;) pause();
            });
            workers.release();
            while (__atomic_load_n(&pids[0], __ATOMIC_SEQ_CST) == 0 ||
                   __atomic_load_n(&pids[1], __ATOMIC_SEQ_CST) == 0)
                usleep(1000);
            kill(parent, SIGTERM);
            if (auto done = workers.wait(); !done) return fail(done.error());
            return Metrics{};
        },
        stop, {});
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, ECANCELED);
    EXPECT_EQ(stop.signal(), SIGTERM);
    EXPECT_EQ(cleaned[0], 1);
    EXPECT_FALSE(lives(pids[0]));
    EXPECT_FALSE(lives(pids[1]));
    const auto again = run_apart([]() -> Result<Metrics> { return Metrics{}; }, stop, {});
    ASSERT_FALSE(again) << "a run was begun after the signal";
}

TEST(RunApart, ChildThatDoesNotListenIsKilled) {
    Shared<pid_t> pid(1);
    Interruption stop;
    const pid_t parent = getpid();
    const auto outcome = run_apart(
        [&]() -> Result<Metrics> {
            pid[0] = getpid();
            kill(parent, SIGINT);
            for (;;) pause();
        },
        stop, {});
    ASSERT_FALSE(outcome);
    EXPECT_EQ(stop.signal(), SIGINT);
    EXPECT_FALSE(lives(pid[0]));
}

TEST(RunApart, LeavesNothingBehindThatTheChildStarted) {
    Shared<pid_t> pid(1);
    const auto outcome = apart([&]() -> Result<Metrics> {
        const pid_t left = fork();
        if (left == 0) {
            setpgid(0, 0);  // out of the run's group
            __atomic_store_n(&pid[0], getpid(), __ATOMIC_SEQ_CST);
            for (;;) pause();
        }
        while (__atomic_load_n(&pid[0], __ATOMIC_SEQ_CST) == 0) usleep(1000);
        return Metrics{};
    });
    ASSERT_TRUE(outcome);
    EXPECT_FALSE(lives(pid[0]));
}

TEST(RunApart, LeavesOtherChildrenAlone) {
    const pid_t other = fork();
    if (other == 0)
        for (;;) pause();
    EXPECT_TRUE(apart([]() -> Result<Metrics> { return Metrics{}; }));
    EXPECT_TRUE(lives(other));
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
}

TEST(Interruption, KeepsTheFirstSignal) {
    Interruption stop;
    EXPECT_EQ(stop.signal(), 0);
    raise(SIGHUP);
    EXPECT_EQ(stop.signal(), SIGHUP);
    raise(SIGINT);
    EXPECT_EQ(stop.signal(), SIGHUP);
    sigset_t both{};  // what was not asked for would end the tests
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    const timespec none{};
    sigtimedwait(&both, nullptr, &none);
}

}  // namespace run_apart_test
}  // namespace tierfs::iobench
