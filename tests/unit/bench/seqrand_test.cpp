#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/suites/seqrand_reader.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {
namespace seqrand_test {

namespace fs = std::filesystem;

constexpr std::uint64_t kSize = 1'000'001;  // no multiple of any block

/// The kind after its options were read from a command line.
std::unique_ptr<SuiteKind> with(std::vector<std::string> words) {
    auto kind = seqrand_kind();
    CLI::App app;
    kind->add_options(app);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(words);
    return kind;
}

class SeqRandTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        DatasetPlan plan;
        plan.directory = root_ + "/data";
        plan.kind = Kind::random;
        plan.files = 2;
        plan.size = 70000;
        plan.large = {{"big", kSize}};
        auto made = make_dataset(plan);
        ASSERT_TRUE(made);
        manifest_ = made->manifest;
        ASSERT_TRUE(write_manifest(root_ + "/manifest", manifest_));
        options_.path = plan.directory;
        options_.manifest = root_ + "/manifest";
        files_ = {{plan.directory + "/big", "big", kSize},
                  {plan.directory + "/class_000/00000002.bin", "class_000/00000002.bin", 70000}};
    }
    void TearDown() override { fs::remove_all(root_); }

    std::vector<Content> contents(std::uint64_t unit) {
        std::vector<Content> contents;
        for (const auto& file : files_)
            for (const auto& entry : manifest_)
                if (entry.path == file.relative) {
                    auto content = Content::of(file, entry, unit, 1);
                    EXPECT_TRUE(content) << content.error().message;
                    if (content) contents.push_back(std::move(*content));
                }
        EXPECT_EQ(contents.size(), files_.size());
        return contents;
    }

    /// What there is here: a container may forbid io_uring, a file system may have no O_DIRECT.
    std::vector<ReadCase> possible_cases(std::uint64_t block) {
        std::vector<ReadCase> cases;
        const auto all = cases_of({.blocks = {block},
                                   .modes = {"buffered", "direct", "mmap"},
                                   .engines = {"pread", "io_uring"},
                                   .depths = {1, 7}});
        EXPECT_TRUE(all);
        for (const auto& one : *all) {
            if (one.engine == Engine::iouring && !check_iouring()) continue;
            if (one.mode == Mode::direct && !check_direct(files_[0], block)) continue;
            cases.push_back(one);
        }
        EXPECT_GE(cases.size(), 4U);
        return cases;
    }

    Result<Tally> read_all(
        const ReadCase& one, const std::vector<Content>& contents,
        const std::function<void()>& before = [] {}) {
        auto reader = make_reader({files_, one, contents});
        if (!reader) return fail(reader.error());
        before();
        Feed feed(files_, one, 0, 3, {.seconds = 3600});
        auto tally = std::make_unique<Tally>();
        if (auto done = (*reader)->read(feed, *tally); !done) return fail(done.error());
        return *tally;
    }

    void write_byte(std::uint64_t at, char byte) {
        const Fd file(::open(files_[0].path.c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::pwrite(file.get(), &byte, 1, static_cast<off_t>(at)), 1);
        ASSERT_EQ(::fsync(file.get()), 0);  // O_DIRECT reads what is on the device
    }

    std::string root_;
    Manifest manifest_;
    RunOptions options_;
    std::vector<ReadFile> files_;
};

TEST_F(SeqRandTest, EveryWayOfReadingReadsTheRightBytesOnce) {
    const auto known = contents(4096);
    for (const std::uint64_t block : {4096, 65536})
        for (const auto& one : possible_cases(block)) {
            const auto tally = read_all(one, known);
            ASSERT_TRUE(tally) << one.name() << ": " << tally.error().message;
            EXPECT_EQ(tally->bytes, kSize + 70000) << one.name();
            EXPECT_EQ(tally->reads, (kSize + block - 1) / block + (70000 + block - 1) / block) << one.name();
            EXPECT_EQ(tally->latencies.count(), tally->reads) << one.name();
            EXPECT_GT(tally->ended, tally->started) << one.name();
        }
}

TEST_F(SeqRandTest, EveryWayOfReadingFindsOneWrongByte) {
    const auto known = contents(4096);
    std::byte right{};
    std::vector<std::byte> stream(8);
    random_bytes(large_file_seed(1, "big"), 500'000, stream);
    right = stream[0];
    write_byte(500'000, static_cast<char>(std::to_integer<int>(right) ^ 1));
    for (const auto& one : possible_cases(65536)) {
        const auto tally = read_all(one, known);
        ASSERT_FALSE(tally) << one.name();
        EXPECT_EQ(tally.error().code, EIO);
        EXPECT_NE(tally.error().message.find("/big: its content is not what the manifest says, in the 4096 "
                                             "bytes from byte 499712"),
                  std::string::npos)
            << one.name() << ": " << tally.error().message;
    }
}

TEST_F(SeqRandTest, FileThatBecomesShorterIsAnErrorThatSaysSo) {
    for (const auto& one : possible_cases(65536)) {
        if (one.mode == Mode::mmap) continue;  // SIGBUS
        fs::resize_file(files_[0].path, kSize);
        const auto tally = read_all(one, {}, [&] { fs::resize_file(files_[0].path, 300'000); });
        ASSERT_FALSE(tally) << one.name();
        EXPECT_NE(tally.error().message.find("big: ends before its size"), std::string::npos)
            << one.name() << ": " << tally.error().message;
    }
    for (const auto& one : possible_cases(65536)) {  // before it is opened
        const auto tally = read_all(one, {});
        ASSERT_FALSE(tally) << one.name();
        EXPECT_NE(tally.error().message.find("big: has become shorter"), std::string::npos);
    }
}

TEST_F(SeqRandTest, AWholeRunOfEveryWayWithThreadsAndSeveralFiles) {
    std::vector<std::string> words = {
        "--modes", "buffered,mmap",          "--threads", "1,3", "--block-sizes", "4K,64K", "--file", "big",
        "--file",  "class_000/00000002.bin", "--advise"};
    if (check_iouring()) words.insert(words.end(), {"--engines", "pread,io_uring", "--depths", "4"});
    auto suite = with(words)->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    const auto names = (*suite)->cases();
    EXPECT_GE(names.size(), 16U);
    for (std::size_t which = 0; which < names.size(); ++which) {
        const auto metrics = (*suite)->run(which, 1);
        ASSERT_TRUE(metrics) << names[which] << ": " << metrics.error().message;
        const double block = names[which].find("-4k-") != std::string::npos ? 4096 : 65536;
        const double reads = std::ceil(static_cast<double>(kSize) / block) + std::ceil(70000 / block);
        EXPECT_NEAR((*metrics)[0].value / (*metrics)[1].value * reads, (kSize + 70000) / 1e6, 1e-6)
            << names[which];
    }
}

TEST_F(SeqRandTest, MappedFileThatCannotBeReadIsExplained) {
    const auto suite =
        with({"--modes", "mmap", "--block-sizes", "4K", "--time-based", "--seconds", "600"})->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    // Cut while it is being read: the first page that is gone ends the reader.
    const pid_t cutter = fork();
    if (cutter == 0) {
        usleep(200'000);
        _exit(::truncate(files_[0].path.c_str(), 4096) == 0 ? 0 : 1);
    }
    const auto metrics = (*suite)->run(0, 1);
    int status = 0;
    ASSERT_EQ(waitpid(cutter, &status, 0), cutter);
    ASSERT_EQ(status, 0);
    ASSERT_FALSE(metrics);
    const std::string& text = metrics.error().message;
    // A slow machine may open the file after it was cut; a sanitizer reports the signal and ends with a
    // status.
    EXPECT_TRUE(text.find("SIGBUS") != std::string::npos || text.find("shorter") != std::string::npos)
        << text;
}

TEST_F(SeqRandTest, ContentOfOtherFilesIsTakenFromTheFileWhenTheManifestAgrees) {
    const auto known = contents(512);
    ASSERT_EQ(known.size(), 2U);
    EXPECT_FALSE(known[0].was_read());
    EXPECT_TRUE(known[1].was_read());
    const auto other_seed = Content::of(files_[0], manifest_.back(), 512, 2);
    ASSERT_EQ(manifest_.back().path, "big");
    ASSERT_TRUE(other_seed) << other_seed.error().message;
    EXPECT_TRUE(other_seed->was_read());
    write_byte(kSize - 1, 'x');
    write_byte(kSize - 2, 'y');
    EXPECT_FALSE(Content::of(files_[0], manifest_.back(), 512, 2));
    EXPECT_TRUE(Content::of(files_[0], manifest_.back(), 512, 1));  // made again, not read
    ManifestEntry longer = manifest_.back();
    ++longer.size;
    EXPECT_FALSE(Content::of(files_[0], longer, 512, 1));
}

TEST_F(SeqRandTest, FilesThatCannotBeReadSoAreRefusedWithTheReason) {
    const auto refused = [&](std::vector<std::string> words, const std::string& reason) {
        const auto suite = with(std::move(words))->make(options_);
        ASSERT_FALSE(suite) << reason;
        EXPECT_NE(suite.error().message.find(reason), std::string::npos) << suite.error().message;
    };
    refused({"--file", "none"}, "/none: No such file");
    refused({"--file", "class_000"}, "is not a regular file");
    refused({"--block-sizes", "1M"}, "less than one block of 1048576 bytes");
    refused({"--file", "big", "--file", "class_000/00000001.bin", "--block-sizes", "128K"},
            "00000001.bin: its 70000");
    fs::copy_file(files_[0].path, options_.path + "/copy");
    refused({"--file", "copy", "--block-sizes", "4K"}, "copy: is not in ");
    options_.manifest.clear();
    options_.path = root_ + "/empty";
    fs::create_directory(options_.path);
    refused({}, "no file in it to read");
}

TEST_F(SeqRandTest, FileSystemWithoutDirectIoIsNamed) {
    const auto proc = check_direct({"/proc/self/status", "status", 1000}, 4096);
    ASSERT_FALSE(proc);
    EXPECT_EQ(proc.error().code, EINVAL);
    EXPECT_NE(proc.error().message.find("/proc/self/status: this file system (proc) has no O_DIRECT"),
              std::string::npos)
        << proc.error().message;
}

TEST(SeqRandIoUring, ErrorsSayWhoForbidsItAndWhatToDo) {
    EXPECT_NE(iouring_error(EPERM, 2).message.find("kernel.io_uring_disabled = 2"), std::string::npos);
    EXPECT_NE(iouring_error(EPERM, 0).message.find("seccomp"), std::string::npos);
    EXPECT_NE(iouring_error(EPERM, -1).message.find("--engines pread"), std::string::npos);
    EXPECT_NE(iouring_error(ENOSYS, -1).message.find("Linux 5.1"), std::string::npos);
    EXPECT_NE(iouring_error(ENOMEM, 0).message.find("ulimit -l"), std::string::npos);
    EXPECT_EQ(iouring_error(EMFILE, 0).code, EMFILE);
}

}  // namespace seqrand_test
}  // namespace tierfs::iobench
