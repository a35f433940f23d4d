#include "bench/iobench/run/targets.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/iobench/run/peak.hpp"

namespace tierfs::iobench {
namespace targets_test {

namespace fs = std::filesystem;

TEST(Named, HasANameBeforeTheEqualsSign) {
    EXPECT_EQ(parse_named("xfs=/data"), (Named{"xfs", "/data"}));
    EXPECT_EQ(parse_named("/data"), (Named{"", "/data"}));
    EXPECT_EQ(parse_named("/data/a=b"), (Named{"", "/data/a=b"}));
    EXPECT_EQ(parse_named("./a=b"), (Named{"", "./a=b"}));
    EXPECT_EQ(parse_named("x=/data/a=b"), (Named{"x", "/data/a=b"}));
    EXPECT_EQ(parse_named("=b"), (Named{"", "=b"}));
    EXPECT_EQ(parse_named("a="), (Named{"a", ""}));
}

class FakeSuite : public Suite {
  public:
    [[nodiscard]] std::vector<std::string> cases() const override { return {"x"}; }
    Result<Metrics> run(std::size_t, std::uint64_t) override { return Metrics{}; }
};

class FakeKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "fake"; }
    [[nodiscard]] std::string help() const override { return ""; }
    void add_options(CLI::App& app) override { static_cast<void>(app); }
    [[nodiscard]] nlohmann::ordered_json parameters() const override { return {}; }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        made.push_back(options.path);
        return std::make_unique<FakeSuite>();
    }
    mutable std::vector<std::string> made;
};

class Targets : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-targets-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        fs::create_directory(root_ + "/a");
        fs::create_directory(root_ + "/b");
        request_.paths = {"one=" + root_ + "/a", "two=" + root_ + "/b"};
    }
    void TearDown() override { fs::remove_all(root_); }

    Result<std::vector<Target>> make() {
        return make_targets(request_, kind_, {}, [this](const std::string& path) -> Result<double> {
            measured_.push_back(path);
            if (path.ends_with("broken")) return fail(EIO, "broken");
            return 1234;
        });
    }
    std::string error() {
        const auto made = make();
        return made ? "" : made.error().message;
    }
    std::string root_;
    TargetRequest request_;
    FakeKind kind_;
    std::vector<std::string> measured_;
};

TEST_F(Targets, EachHasItsSuite) {
    const auto made = make();
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_EQ(made->size(), 2);
    EXPECT_EQ((*made)[1].description.name, "two");
    EXPECT_EQ((*made)[1].description.path, root_ + "/b");
    EXPECT_FALSE((*made)[1].description.fs_type.empty());
    EXPECT_EQ(kind_.made, (std::vector<std::string>{root_ + "/a", root_ + "/b"}));
    EXPECT_TRUE(measured_.empty());
}

TEST_F(Targets, NameIsTheTypeOfTheFileSystem) {
    request_.paths = {"/proc"};
    const auto made = make();
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)[0].description.name, "proc");
}

TEST_F(Targets, NamesAreToldApart) {
    request_.paths = {root_ + "/a", root_ + "/b"};
    EXPECT_NE(error().find("NAME=DIR"), std::string::npos);
    request_.paths = {"x=" + root_ + "/none"};
    EXPECT_NE(error().find("/none"), std::string::npos);
    std::ofstream(root_ + "/file") << "";
    request_.paths = {root_ + "/file"};
    EXPECT_NE(error().find("is not a directory"), std::string::npos);
    EXPECT_TRUE(kind_.made.empty());
}

TEST_F(Targets, DaemonsBelongToTargets) {
    request_.daemons = {std::to_string(getpid()), "two=" + std::to_string(getppid()),
                        "two=" + std::to_string(getpid())};
    const auto made = make();
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)[0].daemon->pids(), std::vector<pid_t>{getpid()});
    EXPECT_EQ((*made)[1].daemon->pids(), (std::vector<pid_t>{getppid(), getpid()}));
    for (const auto* word : {"", "x", "-1", "0", "1x", "99999999999", "none=1", "two=", "4194999"}) {
        request_.daemons = {word};
        EXPECT_NE(error().find("--daemon-pid"), std::string::npos) << word;
    }
}

TEST_F(Targets, PeaksAreToldOrMeasured) {
    request_.peaks = {"200.5", "two=/dev/other"};
    const auto made = make();
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ((*made)[0].description.device->peak_mb_per_s, 200.5);
    EXPECT_EQ((*made)[1].description.device->peak_mb_per_s, 1234);
    EXPECT_EQ(measured_, std::vector<std::string>{"/dev/other"});
    for (const auto* word : {"", "x", "0", "-5", "inf", "nan", "none=5", "two=", "/dev/broken"}) {
        request_.peaks = {word};
        EXPECT_NE(error().find("--peak"), std::string::npos) << word;
    }
}

TEST_F(Targets, SameDeviceIsMeasuredOnce) {
    request_.peaks = {"/dev/other"};
    request_.measure_peak = true;
    ASSERT_TRUE(make());
    EXPECT_EQ(measured_.size(), 1);
}

TEST_F(Targets, PeakOfWhatHasNoDeviceHasToBeNamed) {
    request_.paths = {"/proc"};
    request_.measure_peak = true;
    EXPECT_NE(error().find("--peak proc=DEVICE"), std::string::npos);
}

TEST_F(Targets, PeakOfAFileIsMeasured) {
    const std::string path = root_ + "/large";
    std::ofstream(path) << std::string(9 << 20, 'x');
    const Fd direct(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (direct.get() < 0) GTEST_SKIP() << "no O_DIRECT here";
    const auto peak = measure_peak(path, std::chrono::milliseconds(1));
    ASSERT_TRUE(peak) << peak.error().message;
    EXPECT_GT(*peak, 0);
    fs::resize_file(path, 1000);
    EXPECT_FALSE(measure_peak(path, std::chrono::milliseconds(1)));
    EXPECT_FALSE(measure_peak(root_ + "/none"));
}

}  // namespace targets_test
}  // namespace tierfs::iobench
