// Tests of a class against a model: random sequences of commands, given to both, made smaller when they
// disagree.
//
// A model test has a struct of small numbers for a command, and a function that runs a list of them against
// the real class and a simple oracle, checking with RC_ASSERT. rapidcheck makes the lists and shrinks a
// failing one. Runs are the same each time, but for threads; TIERFS_TEST_FULL makes twenty times as many,
// from a new seed each time. The parameters of a failing run are printed: RC_PARAMS="seed=...
// max_success=..." repeats it.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/detail/TestListenerAdapter.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tierfs::model {

/// A command: what it means is the test's business. Numbers shrink towards 0.
struct Command {
    unsigned kind = 0;
    unsigned a = 0, b = 0, c = 0;

    /// For rapidcheck's report: as it can be pasted into a list of commands.
    friend void showValue(const Command& command, std::ostream& out) {
        out << '{' << command.kind << ", " << command.a << ", " << command.b << ", " << command.c << '}';
    }
};

using Commands = std::vector<Command>;

/// Lists of up to `longest` commands; kind i comes with weight i; a, b, c lie in [0, 65536).
inline rc::Gen<Commands> commands(int longest, const std::vector<unsigned>& weights) {
    std::vector<unsigned> kinds;
    for (unsigned kind = 0; kind < weights.size(); ++kind) kinds.insert(kinds.end(), weights[kind], kind);
    const auto number = [] { return rc::gen::resize(100, rc::gen::inRange(0U, 65536U)); };
    auto command = rc::gen::build<Command>(
        rc::gen::set(&Command::kind, rc::gen::elementOf(kinds)), rc::gen::set(&Command::a, number()),
        rc::gen::set(&Command::b, number()), rc::gen::set(&Command::c, number()));
    return rc::gen::scale(longest / 100.0, rc::gen::container<Commands>(std::move(command)));
}

inline bool is_full() {
    return std::getenv("TIERFS_TEST_FULL") != nullptr;
}

inline std::uint64_t seed_of(const std::string& name) {
    if (is_full()) return std::random_device()();
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a: the same on every machine
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    return hash;
}

/// Checks a property so many times, as part of the GoogleTest that runs.
template <typename Property>
void check(int cases, Property&& property) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    rc::detail::TestMetadata metadata;
    metadata.id = std::string(test.test_suite_name()) + "/" + test.name();
    metadata.description = metadata.id;
    rc::detail::TestParams params;
    params.seed = seed_of(metadata.id);
    params.maxSuccess = is_full() ? cases * 20 : cases;
    std::unordered_map<std::string, rc::detail::Reproduce> reproduce;
    if (std::getenv("RC_PARAMS") != nullptr) {
        params = rc::detail::configuration().testParams;
        reproduce = rc::detail::configuration().reproduce;
    }
    rc::detail::TestListenerAdapter quiet;
    const rc::detail::TestResult result =
        rc::detail::checkTestable(std::forward<Property>(property), metadata, params, quiet, reproduce);
    if (result.is<rc::detail::SuccessResult>()) return;
    std::ostringstream text;
    rc::detail::printResultMessage(result, text);
    FAIL() << text.str() << "\nTo repeat it: RC_PARAMS=\"seed=" << params.seed
           << " max_success=" << params.maxSuccess
           << "\" unit_tests --gtest_filter=" << test.test_suite_name() << '.' << test.name();
}

/// Checks lists of commands against `run`.
inline void check_commands(int cases, int longest, const std::vector<unsigned>& weights,
                           const std::function<void(const Commands&)>& run) {
    check(cases, [&] { run(*commands(longest, weights)); });
}

}  // namespace tierfs::model
