#include "tiering/store/tree_job.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "tests/unit/tiering/store/harness.hpp"

namespace tierfs {
namespace tree_job_test {

DirectoryEntry entry(const std::string& name, ObjectKind kind, std::uint64_t size = 0) {
    DirectoryEntry made;
    made.name = name;
    made.attributes.kind = kind;
    made.attributes.size = size;
    made.attributes.version = "v1";
    return made;
}

TreeJob::Progress wait(const TreeJob& job) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (job.progress().running && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return job.progress();
}

class TreeJobTest : public ::testing::Test {
  protected:
    TreeJobTest() {
        std::vector<DirectoryEntry> many;  // several pages
        for (int i = 0; i < 25; ++i) many.push_back(entry("f" + std::to_string(i), ObjectKind::file, 10));
        many.push_back(entry("link", ObjectKind::symlink));
        origin_.listings = {{"", {entry("a", ObjectKind::directory), entry("top", ObjectKind::file, 5)}},
                            {"a", {entry("deep", ObjectKind::directory), entry("x", ObjectKind::file, 7)}},
                            {"a/deep", many}};
    }
    TreeJob::Action noting() {
        return [this](const std::shared_ptr<const ObjectRef>& object, const TreeJob::Answer& answer,
                      const auto& /*stopped*/) {
            seen_.insert(object->path);  // on the job's thread; looked at when that has ended
            if (object->path == "a/x") return answer(fail(EIO, "is broken"));
            answer(TreeJob::Done{object->size, object->path == "top"});
        };
    }
    fake::FakeOrigin origin_{fake::FakeOrigin::Mode::at_once};
    std::set<std::string> seen_;
};

TEST_F(TreeJobTest, WalksAllBelowAPath) {
    TreeJob job(origin_, noting());
    EXPECT_TRUE(job.add(""));
    job.seal();
    const auto progress = wait(job);
    EXPECT_EQ(seen_.size(), 27U);
    EXPECT_EQ(progress.files, 27U);
    EXPECT_EQ(progress.found_files, 27U);
    EXPECT_EQ(progress.bytes, 262U);
    EXPECT_EQ(progress.found_bytes, 262U);
    EXPECT_EQ(progress.brought, 255U);
    EXPECT_EQ(progress.unchanged, 1U);
    EXPECT_EQ(progress.failed, 1U);
    ASSERT_EQ(progress.failures.size(), 1U);
    EXPECT_EQ(progress.failures[0].path, "a/x");
    EXPECT_EQ(progress.failures[0].message, "is broken");
}

TEST_F(TreeJobTest, NamesPathsThatAreNotThere) {
    TreeJob job(origin_, noting());
    for (int i = 0; i < 30; ++i) EXPECT_TRUE(job.add("gone" + std::to_string(i)));
    job.seal();
    const auto progress = wait(job);
    EXPECT_EQ(progress.failed, 30U);
    EXPECT_EQ(progress.failures.size(), TreeJob::kMostFailures);
    EXPECT_TRUE(seen_.empty());
}

TEST_F(TreeJobTest, RunsUntilAllHaveAnswered) {
    std::vector<TreeJob::Answer> answers;
    auto job = std::make_unique<TreeJob>(
        origin_, [&](const std::shared_ptr<const ObjectRef>&, TreeJob::Answer answer,
                     const auto& /*stopped*/) { answers.push_back(std::move(answer)); });
    EXPECT_TRUE(job->add(""));
    job->seal();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (job->progress().walking && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(job->progress().running);
    for (std::size_t i = 0; i + 1 < answers.size(); ++i) answers[i](TreeJob::Done{});
    EXPECT_TRUE(job->progress().running);
    answers.back()(TreeJob::Done{});
    EXPECT_FALSE(job->progress().running);
}

TEST_F(TreeJobTest, AnswersMayComeWhenItIsGone) {
    TreeJob::Answer last;
    {
        TreeJob job(origin_, [&](const std::shared_ptr<const ObjectRef>&, TreeJob::Answer answer,
                                 const auto& /*stopped*/) { last = std::move(answer); });
        EXPECT_TRUE(job.add("a/deep"));
    }
    if (last) last(TreeJob::Done{});
}

TEST_F(TreeJobTest, WhatWaitsIsBounded) {
    std::atomic<bool> go{false};
    TreeJob job(origin_, [&](const std::shared_ptr<const ObjectRef>&, const TreeJob::Answer& answer,
                             const auto& /*stopped*/) {
        while (!go) std::this_thread::yield();
        answer(TreeJob::Done{});
    });
    EXPECT_TRUE(job.add(""));
    const std::string path(1 << 20, 'x');
    int taken = 0;
    while (taken < 100 && job.add(path)) ++taken;
    EXPECT_LT(taken, 20);
    go = true;
    job.seal();
    EXPECT_EQ(wait(job).failed, static_cast<std::uint64_t>(taken));
}

TEST_F(TreeJobTest, EndsWhenWhoBeganItHasGone) {
    TreeJob job(origin_, noting(), std::chrono::milliseconds(20));
    EXPECT_TRUE(job.add("a/deep"));
    const auto progress = wait(job);
    EXPECT_FALSE(progress.running);
    EXPECT_EQ(progress.failures.back().message, "who named the paths has gone");
}

TEST_F(TreeJobTest, StopsOnTheWay) {
    TreeJob job(origin_, noting());
    job.stop();
    EXPECT_EQ(wait(job).failures.at(0).message, "stopped before the end");
}

TEST_F(TreeJobTest, StepsAreDoneWithAllPathsBeforeAnyFile) {
    std::vector<std::string> events;
    TreeJob::Steps steps;
    steps.space = [](std::uint64_t size) { return 2 * size; };
    steps.admit = [&](const std::string& path, std::uint64_t files, std::uint64_t bytes) -> Result<void> {
        events.push_back(path + " " + std::to_string(files) + " " + std::to_string(bytes));
        return {};
    };
    steps.settle = [&]() -> Result<void> {
        events.emplace_back("settled");
        EXPECT_TRUE(seen_.empty());
        return {};
    };
    TreeJob job(origin_, noting(), steps);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(job.add(""));
    job.seal();
    const auto progress = wait(job);
    EXPECT_TRUE(progress.settled);
    EXPECT_EQ(events, (std::vector<std::string>{" 27 524", " 27 524", "settled"}));
    EXPECT_EQ(seen_.size(), 27U);
}

TEST_F(TreeJobTest, WhatCannotBeSettledIsNotDone) {
    TreeJob::Steps steps;
    steps.settle = []() -> Result<void> { return fail(EIO, "no disk"); };
    TreeJob job(origin_, noting(), steps);
    EXPECT_TRUE(job.add(""));
    job.seal();
    const auto progress = wait(job);
    EXPECT_TRUE(seen_.empty());
    EXPECT_EQ(progress.failed, 1U);
    EXPECT_EQ(progress.failures[0].message, "no disk");
}

TEST_F(TreeJobTest, APathThatIsDoneWithIsNotWalked) {
    TreeJob::Steps steps;
    steps.enter = [](const std::string& path) -> Result<std::optional<TreeJob::Done>> {
        if (path == "bad") return fail(EINVAL, "is bad");
        if (path.empty()) return std::nullopt;
        return TreeJob::Done{7, false};
    };
    std::uint64_t counted = 0;
    steps.admit = [&](const std::string&, std::uint64_t files, std::uint64_t) -> Result<void> {
        counted = files;
        return {};
    };
    TreeJob job(origin_, noting(), steps);
    for (const char* path : {"done", "bad", ""}) EXPECT_TRUE(job.add(path));
    job.seal();
    const auto progress = wait(job);
    EXPECT_EQ(counted, 27U);
    EXPECT_EQ(seen_.size(), 27U);
    EXPECT_EQ(progress.files, 28U);
    EXPECT_EQ(progress.failed, 2U) << "the broken file, and the bad path";
}

TEST_F(TreeJobTest, EndsBeforeMoreThanThereIsRoomFor) {
    TreeJob::Steps steps;
    steps.most_bytes = 30;
    TreeJob job(origin_, noting(), std::move(steps));
    EXPECT_TRUE(job.add(""));
    job.seal();
    const auto progress = wait(job);
    EXPECT_LE(progress.found_bytes, 30U);
    EXPECT_LT(seen_.size(), 5U);
    ASSERT_FALSE(progress.failures.empty());
    EXPECT_NE(progress.failures.back().message.find("30"), std::string::npos)
        << progress.failures.back().message;
}

TEST_F(TreeJobTest, LeavesOutAFileThatNoTierCanHold) {
    TreeJob::Steps steps;
    steps.most_bytes = 6;
    TreeJob job(origin_, noting(), std::move(steps));
    EXPECT_TRUE(job.add(""));
    job.seal();
    const auto progress = wait(job);
    EXPECT_EQ(seen_, (std::set<std::string>{"top"})) << "of five bytes";
    EXPECT_EQ(progress.failed, 26U);
}

TEST_F(TreeJobTest, StopsAnActionThatTakesLong) {
    std::atomic<bool> began = false;
    TreeJob job(origin_, [&](const std::shared_ptr<const ObjectRef>&, const TreeJob::Answer& answer,
                             const auto& stopped) {
        began = true;
        while (!stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        answer(fail(ECANCELED, "was stopped"));
    });
    EXPECT_TRUE(job.add(""));
    job.seal();
    for (int i = 0; i < 10000 && !began; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(began);
    EXPECT_TRUE(job.progress().running);
    job.stop();
    EXPECT_FALSE(wait(job).running);
}

}  // namespace tree_job_test
}  // namespace tierfs
