#include "fs/stage/copy/out.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/s3/s3_origin.hpp"
#include "config/base/mutex.hpp"
#include "fs/stage/copy/out_books.hpp"
#include "tests/unit/backends/s3/client/fake_bucket.hpp"
#include "tests/unit/read_file.hpp"

namespace tierfs::stage {
namespace out_test {

namespace fs = std::filesystem;
using namespace tierfs::test;
using testing::HasSubstr;

/// Keeps the fates; `at_file` is called before each is kept.
class Recorder final : public OutObserver {
  public:
    std::function<void(const OutEvent&)> at_file;

    void planned(std::uint64_t, std::uint64_t) override {}
    void remark(const std::string&) override {}
    void progress(std::uint64_t) override {}
    void file(const OutEvent& event) override {
        if (at_file) at_file(event);
        const MutexLock lock(mutex_);
        fates_[event.path] = event;
    }
    std::map<std::string, OutEvent> fates() {
        const MutexLock lock(mutex_);
        return fates_;
    }

  private:
    Mutex mutex_;
    std::map<std::string, OutEvent> fates_ TIERFS_GUARDED_BY(mutex_);
};

class StageOut : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "tierfs-out-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        fs::create_directories(base_ / "from/sub");
        write("small", "hello");
        write("sub/empty", "");
        write("sub/large", large(33U << 20));
        options_.directory = (base_ / "from").string();
        options_.workers = 3;
        settings_.source = "s3://bkt/pre";
        settings_.s3_anonymous = true;
    }
    void TearDown() override { fs::remove_all(base_); }

    void write(const std::string& path, const std::string& content) const {
        std::ofstream(base_ / "from" / path, std::ios::binary) << content;
    }
    static std::string large(std::size_t size) {
        std::string text(size, '.');
        for (std::size_t i = 0; i < size; i += 4096) text.replace(i, 8, std::to_string(10'000'000 + i));
        return text;
    }

    Result<OutSummary> run(OutObserver* observer = nullptr) {
        // One server for all runs: its port is part of what the journal is for.
        if (!server_) server_ = std::make_unique<ScriptedServer>(bucket_.handler());
        settings_.s3_endpoint = server_->url();
        auto origin = open_s3_origin(settings_, environment_);
        if (!origin) return fail(origin.error());
        auto summary = stage_out(options_, **origin, observer != nullptr ? *observer : recorder_, stop_);
        (*origin)->stop();
        return summary;
    }
    /// The manifest of the bucket: path -> size.
    std::map<std::string, std::uint64_t> manifest() {
        std::map<std::string, std::uint64_t> sizes;
        const auto objects = bucket_.objects();
        const auto found = objects.find(std::string("pre/") + kOutManifest);
        if (found == objects.end()) return sizes;
        std::istringstream lines(found->second.body);
        std::string line;
        std::getline(lines, line);
        EXPECT_TRUE(parse_header(line));
        while (std::getline(lines, line)) {
            const auto record = parse_record(line);
            EXPECT_TRUE(record) << line;
            sizes[record->path] = record->size;
        }
        return sizes;
    }
    [[nodiscard]] std::string content(const std::string& path) const {
        return read_file(base_ / "from" / path);
    }
    void expect_all_there() {
        const auto objects = bucket_.objects();
        for (const auto* path : {"small", "sub/empty", "sub/large"}) {
            ASSERT_TRUE(objects.contains(std::string("pre/") + path)) << path;
            EXPECT_TRUE(objects.at(std::string("pre/") + path).body == content(path)) << path;
        }
        EXPECT_EQ(bucket_.uploads(), 0U);
    }

    fs::path base_;
    FakeBucket bucket_;
    std::unique_ptr<ScriptedServer> server_;
    OutOptions options_;
    Settings settings_;
    std::map<std::string, std::string> environment_{{"HOME", "/nonexistent"},
                                                    {"AWS_EC2_METADATA_DISABLED", "true"}};
    Recorder recorder_;
    StopFlag stop_;
};

TEST_F(StageOut, SendsEverythingAndThenTheManifest) {
    fs::create_symlink("small", base_ / "from/latest");
    const auto summary = run();
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_EQ(summary->files, 3U);
    EXPECT_EQ(summary->sent, 3U);
    EXPECT_EQ(summary->links, 1U);
    EXPECT_TRUE(summary->manifest_written);
    expect_all_there();
    EXPECT_EQ(bucket_.parts_received(), 3U);
    EXPECT_EQ(manifest(), (std::map<std::string, std::uint64_t>{
                              {"latest", 0}, {"small", 5}, {"sub/empty", 0}, {"sub/large", 33U << 20}}));
}

TEST_F(StageOut, WhatIsThereIsSkippedAndWhatChangedIsSent) {
    ASSERT_TRUE(run());
    write("small", "HELLO");
    const auto second = run();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->skipped, 2U);
    EXPECT_EQ(second->sent, 1U);
    EXPECT_EQ(bucket_.parts_received(), 3U);
    expect_all_there();
    const auto before = bucket_.objects().at(std::string("pre/") + kOutManifest).body;
    // Without a journal the bytes decide.
    fs::remove_all(base_ / "from" / kOutState);
    const auto third = run();
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(third->skipped, 3U);
    EXPECT_EQ(bucket_.objects().at(std::string("pre/") + kOutManifest).body, before)
        << "it is the same still";
    EXPECT_EQ(bucket_.parts_received(), 3U);
}

TEST_F(StageOut, AnObjectThatWasReplacedThereIsSentAgain) {
    ASSERT_TRUE(run());
    bucket_.put("pre/small", "jello");
    bucket_.put("pre/sub/large", "short");
    const auto second = run();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->sent, 2U);
    expect_all_there();
}

TEST_F(StageOut, AfterAFailureOnlyWhatIsMissingIsSent) {
    options_.workers = 1;
    bucket_.set_fault([](const ReceivedRequest& request) -> std::optional<Reply> {
        if (request.target.find("partNumber=3") == std::string::npos) return std::nullopt;
        return Reply{403, {}, "<Error><Code>AccessDenied</Code></Error>"};
    });
    const auto first = run();
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code, EACCES);
    EXPECT_EQ(bucket_.parts_received(), 2U);
    EXPECT_EQ(bucket_.uploads(), 1U);
    EXPECT_TRUE(manifest().empty());
    bucket_.set_fault(nullptr);
    const auto second = run();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->resumed, 1U);
    EXPECT_EQ(second->parts_found, 2U);
    EXPECT_EQ(bucket_.parts_received(), 3U);
    expect_all_there();
}

TEST_F(StageOut, AnUnfinishedUploadOfAFileThatChangedIsAborted) {
    options_.workers = 1;
    bucket_.set_fault([](const ReceivedRequest& request) -> std::optional<Reply> {
        if (request.target.find("partNumber=2") == std::string::npos) return std::nullopt;
        return Reply{403, {}, "<Error><Code>AccessDenied</Code></Error>"};
    });
    ASSERT_FALSE(run());
    EXPECT_EQ(bucket_.uploads(), 1U);
    bucket_.set_fault(nullptr);
    write("sub/large", "small now");
    const auto second = run();
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->resumed, 0U);
    expect_all_there();
}

TEST_F(StageOut, AFileThatChangesWhileItIsSentFailsAndNothingIsSeenOfIt) {
    bucket_.put("pre/sub/large", "the old one");
    bucket_.set_fault([&, done = false](const ReceivedRequest& request) mutable -> std::optional<Reply> {
        if (!done && request.target.find("partNumber=2") != std::string::npos) {
            done = true;
            std::ofstream(base_ / "from/sub/large", std::ios::in | std::ios::binary) << "changed";
        }
        return std::nullopt;
    });
    const auto summary = run();
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_EQ(summary->failed, 1U);
    EXPECT_FALSE(summary->manifest_written);
    EXPECT_THAT(recorder_.fates().at("sub/large").error, HasSubstr("changed"));
    EXPECT_EQ(bucket_.objects().at("pre/sub/large").body, "the old one");
    EXPECT_EQ(bucket_.uploads(), 0U);
    const auto second = run();
    ASSERT_TRUE(second && second->manifest_written);
    expect_all_there();
}

TEST_F(StageOut, DamageOnTheWayIsFoundByReadingBack) {
    options_.verify = OutVerify::full;
    bucket_.set_fault([this](const ReceivedRequest& request) -> std::optional<Reply> {
        if (request.method == "GET" && request.target == "/bkt/pre/small")
            return Reply{206,
                         {{"ETag", bucket_.objects().at("pre/small").etag}, {"Content-Range", "bytes 0-4/5"}},
                         "hellO"};
        return std::nullopt;
    });
    const auto summary = run();
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_EQ(summary->failed, 1U);
    EXPECT_THAT(recorder_.fates().at("small").error, HasSubstr("other bytes"));
    EXPECT_FALSE(bucket_.objects().contains("pre/small"));
}

TEST_F(StageOut, WhatAnEarlierRunSentIsReadBackToo) {
    ASSERT_TRUE(run());
    options_.verify = OutVerify::full;
    bool damaged = false;
    bucket_.set_fault([&](const ReceivedRequest& request) -> std::optional<Reply> {
        if (request.method != "GET" || request.target != "/bkt/pre/small" || damaged) return std::nullopt;
        damaged = true;
        return Reply{206,
                     {{"ETag", bucket_.objects().at("pre/small").etag}, {"Content-Range", "bytes 0-4/5"}},
                     "hellO"};
    });
    const auto summary = run();
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_TRUE(damaged);
    EXPECT_EQ(recorder_.fates().at("small").fate, OutFate::sent);
    EXPECT_EQ(recorder_.fates().at("sub/large").fate, OutFate::skipped);
    EXPECT_EQ(summary->sent, 1U);
    EXPECT_EQ(summary->failed, 0U);
}

TEST_F(StageOut, RemovesOnlyWhatItSentItself) {
    bucket_.put("pre/foreign", "not ours");
    ASSERT_TRUE(run());
    fs::remove(base_ / "from/small");
    ASSERT_TRUE(run());
    EXPECT_TRUE(bucket_.objects().contains("pre/small"));
    EXPECT_TRUE(manifest().contains("small")) << "it is there still";
    options_.remove_vanished = true;
    const auto summary = run();
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_EQ(summary->removed, 1U);
    EXPECT_FALSE(bucket_.objects().contains("pre/small"));
    EXPECT_TRUE(bucket_.objects().contains("pre/foreign"));
    EXPECT_FALSE(manifest().contains("small"));
}

TEST_F(StageOut, ADryRunWritesNothing) {
    options_.dry_run = true;
    options_.remove_vanished = true;
    const auto summary = run();
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_TRUE(bucket_.objects().empty());
    EXPECT_FALSE(fs::exists(base_ / "from" / kOutState));
    EXPECT_EQ(recorder_.fates().at("small").fate, OutFate::would_send);
}

TEST_F(StageOut, AStopIsSoonAndTheNextRunGoesOn) {
    options_.workers = 1;
    Recorder stopping;
    stopping.at_file = [&](const OutEvent&) { stop_.request(); };
    const auto first = run(&stopping);
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code, ECANCELED);
    EXPECT_TRUE(manifest().empty());
    StopFlag no;
    auto origin = open_s3_origin(settings_, environment_);
    const auto second = stage_out(options_, **origin, recorder_, no);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_GE(second->skipped, 1U);
    (*origin)->stop();
    expect_all_there();
}

TEST_F(StageOut, AServerThatIsAwayEndsTheRun) {
    int port = 0;
    { port = ScriptedServer(bucket_.handler()).port(); }
    settings_.s3_endpoint = "http://127.0.0.1:" + std::to_string(port);
    settings_.origin_deadline = std::chrono::milliseconds(1000);
    auto origin = open_s3_origin(settings_, environment_);
    const auto summary = stage_out(options_, **origin, recorder_, stop_);
    ASSERT_FALSE(summary);
    EXPECT_THAT(summary.error().message, HasSubstr(std::to_string(port)));
}

TEST_F(StageOut, AManifestThatIsNoneIsNotReplaced) {
    bucket_.put(std::string("pre/") + kOutManifest, "somebody's notes\n");
    const auto summary = run();
    ASSERT_FALSE(summary);
    EXPECT_EQ(summary.error().code, EINVAL);
    EXPECT_EQ(bucket_.objects().size(), 1U);
}

TEST_F(StageOut, ADirectoryIsADestinationToo) {
    fs::create_directory(base_ / "to");
    settings_.source = (base_ / "to").string();
    auto destination = open_origin(settings_);
    ASSERT_TRUE(destination);
    options_.verify = OutVerify::full;
    const auto summary = stage_out(options_, **destination, recorder_, stop_);
    ASSERT_TRUE(summary) << summary.error().message;
    EXPECT_EQ(summary->sent, 3U);
    for (const auto* path : {"small", "sub/empty", "sub/large"}) {
        std::string text(fs::file_size(base_ / "to" / path), '\0');
        std::ifstream(base_ / "to" / path, std::ios::binary)
            .read(text.data(), static_cast<std::streamsize>(text.size()));
        EXPECT_TRUE(text == content(path)) << path;
        EXPECT_EQ(fs::last_write_time(base_ / "to" / path), fs::last_write_time(base_ / "from" / path));
    }
    EXPECT_TRUE(fs::exists(base_ / "to" / kOutManifest));
    const auto second = stage_out(options_, **destination, recorder_, stop_);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->skipped, 3U);
    settings_.source = (base_ / "from/sub").string();
    auto inside = open_origin(settings_);
    EXPECT_EQ(stage_out(options_, **inside, recorder_, stop_).error().code, EINVAL);
}

}  // namespace out_test
}  // namespace tierfs::stage
