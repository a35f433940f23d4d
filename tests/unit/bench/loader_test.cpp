#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {
namespace loader_test {

namespace fs = std::filesystem;

/// No torch here: tests/bench has that. Each test writes a Python file of its own.
class LoaderTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-loader-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        options_.path = root_;
        options_.processes = 3;
        options_.trainer.compute_ms = 1;
    }
    void TearDown() override { fs::remove_all(root_); }

    Result<std::unique_ptr<Suite>> make(const std::string& source, std::vector<std::string> words = {}) {
        std::ofstream(root_ + "/user.py")
            << "import os, sys, time, random\nlog = open('" << root_ << "/log', 'a', buffering=1)\n"
            << source;
        kind_ = loader_kind();
        CLI::App app;
        kind_->add_options(app);
        if (std::find(words.begin(), words.end(), "--loader") == words.end())
            words.insert(words.begin(), {"--loader", root_ + "/user.py:make"});
        if (std::find(words.begin(), words.end(), "--batches") == words.end())
            words.insert(words.end(), {"--batches", "5"});
        std::reverse(words.begin(), words.end());  // as CLI11 takes them
        app.parse(words);
        return kind_->make(options_);
    }

    /// Case 0, workers-0, unless told otherwise.
    Result<std::map<std::string, double>> run(const std::string& source, std::vector<std::string> words = {},
                                              std::size_t which = 0) {
        const auto suite = make(source, std::move(words));
        if (!suite) return fail(suite.error());
        auto metrics = (*suite)->run(which, 7);
        if (!metrics) return fail(metrics.error());
        std::map<std::string, double> values;
        for (const auto& metric : *metrics) values[metric.name] = metric.value;
        return values;
    }

    /// The message of a run that has to fail.
    std::string error_of(const std::string& source, std::vector<std::string> words = {}) {
        const auto values = run(source, std::move(words));
        return values ? "it did not fail" : values.error().message;
    }

    [[nodiscard]] std::vector<std::string> log() const {
        std::ifstream file(root_ + "/log");
        std::vector<std::string> lines;
        for (std::string line; std::getline(file, line);) lines.push_back(line);
        return lines;
    }

    std::string root_;
    RunOptions options_;
    std::unique_ptr<SuiteKind> kind_;
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_F(LoaderTest, CasesAreWorkersAndPause) {
    const std::string source = "def make(path, num_workers): return range(9)\n";
    auto suite = make(source, {"--loader-workers", "2"});
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ((*suite)->cases(),
              (std::vector<std::string>{"workers-0", "workers-2", "workers-0-pause", "workers-2-pause"}));
    options_.trainer.compute_ms = 0;
    suite = make(source);
    ASSERT_TRUE(suite);
    EXPECT_EQ((*suite)->cases(), (std::vector<std::string>{"workers-0", "workers-3"}));
}

TEST_F(LoaderTest, PassesAreAlikeAndWarmUpIsNot) {
    const std::string source =
        "def make(path, num_workers):\n"
        "    print('one', path, num_workers, random.random(), file=log)\n"
        "    for batch in range(5):\n"
        "        print('batch', batch, file=log)\n"
        "        yield batch\n";
    const auto values = run(source, {"--loader-reference", "/elsewhere"}, 1);
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_EQ(values->at("batches"), 5);
    std::vector<std::string> made;
    std::size_t batches = 0;
    for (const auto& line : log()) {
        if (line.starts_with("one")) made.push_back(line);
        if (line.starts_with("batch")) ++batches;
    }
    EXPECT_EQ(batches, 2U + 5U + 5U);
    ASSERT_EQ(made.size(), 3U);
    const auto drawn = [](const std::string& line) { return line.substr(line.rfind(' ')); };
    EXPECT_TRUE(made[0].starts_with("one " + root_ + " 0 ")) << made[0];
    EXPECT_TRUE(made[1].starts_with("one " + root_ + " 3 ")) << made[1];
    EXPECT_TRUE(made[2].starts_with("one /elsewhere 3 ")) << made[2];
    EXPECT_NE(drawn(made[0]), drawn(made[1])) << "the warm-up takes other samples";
    EXPECT_EQ(drawn(made[1]), drawn(made[2])) << "both passes take the same samples";
}

TEST_F(LoaderTest, WaitsAreDividedBetweenStorageAndPython) {
    // 5 batches of 40 ms from the path, of 10 ms from the reference, which stands for memory.
    const auto values =
        run("def make(path, num_workers):\n"
            "    for batch in range(5):\n"
            "        time.sleep(0.01 if path == '/memory' else 0.04)\n"
            "        yield batch\n",
            {"--loader-reference", "/memory"});
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_GE(values->at("wait_s"), 5 * 0.04);
    EXPECT_GE(values->at("python_s"), 5 * 0.01);
    EXPECT_NEAR(values->at("storage_s") + values->at("python_s"), values->at("wait_s"), 1e-9);
    EXPECT_GE(values->at("first_batch_s"), 0.04);
    EXPECT_GE(values->at("batch_p50_ms"), 40);
    EXPECT_LE(values->at("batches_per_s"), 25);
    EXPECT_LE(values->at("warm_batches_per_s"), 100);
    EXPECT_LE(values->at("wait_percent"), 100);
}

TEST_F(LoaderTest, PausesAreNoWaits) {
    options_.trainer.compute_ms = 20;
    const auto values = run("def make(path, num_workers): return range(9)\n", {}, 2);
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_LE(values->at("batches_per_s"), 50);
    EXPECT_NEAR(values->at("wait_s") / values->at("wait_percent") * 100 * values->at("batches_per_s"), 5,
                1e-6);
    EXPECT_GE(values->at("wait_s") * (100 / values->at("wait_percent") - 1), 5 * 0.02 - 1e-6);
}

TEST_F(LoaderTest, FunctionMayHaveAnyOfTheseSignatures) {
    const std::string body = ": return [num_workers] * 9\n";
    EXPECT_TRUE(run("def make(path, num_workers)" + body));
    EXPECT_TRUE(run("def make(num_workers)" + body));
    EXPECT_TRUE(run("def make(*, num_workers, batch=3)" + body));
    EXPECT_TRUE(run("def make(root, num_workers=4)" + body));
    EXPECT_TRUE(run("def make(root, /, num_workers=4)" + body));
    EXPECT_TRUE(run("def make(path, num_workers, /)" + body));
    EXPECT_TRUE(run("def make(num_workers, path)" + body));
    EXPECT_TRUE(run("def make(**given): return [given['path'], given['num_workers']] * 9\n"));
    EXPECT_TRUE(run("def make(a, b): assert (a, b) == ('" + root_ + "', 0); return range(9)\n"));
    for (const char* parameters : {"()", "(path)", "(a, b, c)", "(a, b, num_workers)"}) {
        const std::string error = error_of("def make" + std::string(parameters) + ": return range(9)\n");
        EXPECT_TRUE(contains(error, "cannot be called as make(path, num_workers)")) << error;
    }
}

TEST_F(LoaderTest, WhatTheUserDidWrongIsSaid) {
    const std::map<std::string, std::string> wrong = {
        {"def other(path, num_workers): pass\n", "has no function make"},
        {"def make(path, num_workers): pass\n", "returned NoneType, not an iterable of batches"},
        {"def make(path, num_workers): return range(4)\n", "gave 4 batches, 5 were asked for"},
        {"import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'"},
        {"def make(path, num_workers): raise ValueError('bad day')\n", "ValueError: bad day"},
        {"def make(path, num_workers):\n    yield 1\n    yield 2\n    yield 1 / 0\n", "ZeroDivisionError"},
        {"def make(path, num_workers): sys.exit(4)\n", "SystemExit"},
        {"def make(path, num_workers):\n    print('last words', flush=True)\n    os._exit(3)\n",
         "ended with status 3"},
        {"def make(path, num_workers):\n    print('last words', flush=True)\n    os._exit(3)\n",
         "last words"},
        {"def make(path, num_workers): os.kill(os.getpid(), 9)\n", "died of signal 9 in warming up"},
        {"def make(path, num_workers) return\n", "SyntaxError"},
        {"class L:\n    num_workers = 8\n    def __iter__(self): return iter(range(9))\n"
         "def make(path, num_workers): return L()\n",
         "asked for num_workers=0 and returned a loader with 8"},
    };
    for (const auto& [source, message] : wrong) {
        const std::string error = error_of(source);
        EXPECT_TRUE(contains(error, message)) << source << error;
        EXPECT_TRUE(contains(error, root_ + "/user.py:make")) << error;
    }
}

TEST_F(LoaderTest, WhatIsPrintedDisturbsNothing) {
    const auto values =
        run("def make(path, num_workers):\n"
            "    for batch in range(5):\n"
            "        print('{\"error\": \"no\"}\\n' * 20000)\n"
            "        print('x' * 1000000, file=sys.stderr)\n"
            "        yield batch\n");
    EXPECT_TRUE(values) << values.error().message;
}

TEST_F(LoaderTest, ALoaderThatHangsIsEndedAndSaysWhere) {
    const std::string source =
        "def wait_for_ever():\n"
        "    while True: time.sleep(1)\n"
        "def make(path, num_workers):\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), file=log)\n"
        "        wait_for_ever()\n"
        "    yield 1\n"
        "    yield 2\n"
        "    wait_for_ever()\n";
    // Long enough for Python to start under sanitizers' neighbours on a slow machine.
    const std::string error = error_of(source, {"--loader-timeout", "8"});
    EXPECT_TRUE(contains(error, "no end after 8 s (--loader-timeout), in the first pass")) << error;
    EXPECT_TRUE(contains(error, "in wait_for_ever")) << error;
    const auto children = log();
    EXPECT_EQ(children.size(), 2U);
    for (const auto& child : children) {
        // Killed with its group; whoever adopted it may not have reaped it yet.
        std::string state = "R";
        for (int i = 0; i < 600 && state != "Z" && !state.empty(); ++i) {
            std::ifstream file("/proc/" + child + "/stat");
            std::string line;
            std::getline(file, line);
            const auto at = line.rfind(')');
            state = at == std::string::npos ? "" : line.substr(at + 2, 1);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        EXPECT_TRUE(state == "Z" || state.empty()) << child << " is " << state;
    }
}

TEST_F(LoaderTest, WhatCannotStartIsRefused) {
    const std::string source = "def make(path, num_workers): return range(9)\n";
    const std::string error = error_of(source, {"--python", root_ + "/no-python"});
    EXPECT_TRUE(contains(error, "/no-python cannot be started: No such file")) << error;
    for (const char* loader : {"", "user.py", "user.py:", ":make"}) {
        auto kind = loader_kind();
        CLI::App app;
        kind->add_options(app);
        std::vector<std::string> words = {loader, "--loader"};
        app.parse(words);
        const auto suite = kind->make(options_);
        ASSERT_FALSE(suite) << loader;
        EXPECT_TRUE(contains(suite.error().message, "--loader FILE.py:FUNCTION")) << suite.error().message;
    }
    EXPECT_TRUE(contains(error_of(source, {"--loader", "/none.py:make"}), "/none.py"));
    options_.manifest = root_ + "/manifest";
    EXPECT_FALSE(make(source));
}

TEST_F(LoaderTest, NothingIsLeftBesideTheUsersFile) {
    ASSERT_TRUE(run("def make(path, num_workers): return range(9)\n"));
    EXPECT_FALSE(fs::exists(root_ + "/__pycache__"));
}

}  // namespace loader_test
}  // namespace tierfs::iobench
