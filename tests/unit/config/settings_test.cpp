#include "config/settings.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/settings_table.hpp"

namespace tierfs {
namespace {

using std::chrono_literals::operator""s;

SettingsSources with(std::vector<std::string> options) {
    SettingsSources sources;
    sources.source = "/data";
    sources.mountpoint = "/mnt/data/";
    sources.options = std::move(options);
    return sources;
}

/// The message of a refusal; fails the test when nothing was refused.
std::string refusal(const SettingsSources& sources) {
    const auto settings = load_settings(sources);
    EXPECT_FALSE(settings);
    return settings ? std::string() : settings.error().message;
}

class SettingsFileTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "tierfs-settings-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    std::string file(const std::string& text) {
        const std::string path = (directory_ / "tierfs.yaml").string();
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }

    std::filesystem::path directory_;
};

TEST(SettingsTest, DefaultsAreUsable) {
    const auto settings = load_settings(with({}));
    ASSERT_TRUE(settings);
    EXPECT_TRUE(settings->read_only);
    EXPECT_GE(settings->memory_limit, 96U << 20);
    EXPECT_EQ(settings->metadata_ttl, 60s);
    EXPECT_EQ(settings->mountpoint, "/mnt/data");
    EXPECT_FALSE(settings->ram_limit);
}

TEST(SettingsTest, OptionsSetTypedValues) {
    const auto settings = load_settings(
        with({"ro", "allow_other", "memory.limit=256M", "ram.limit=0", "nvme.path=/c", "nvme.limit=1.5G",
              "metadata.ttl=forever", "profile=large", "s3.file_mode=0640", "origin.connections=7",
              "s3.addressing=virtual", "log.level=debug", "prefetch.window=0"}));
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_TRUE(settings->allow_other);
    EXPECT_EQ(settings->memory_limit, 256U << 20);
    EXPECT_EQ(settings->ram_limit, 0U);
    EXPECT_EQ(settings->nvme_limit, 3ULL << 29);
    EXPECT_EQ(settings->metadata_ttl, kForever);
    EXPECT_EQ(settings->profile, Profile::large);
    EXPECT_EQ(settings->s3_file_mode, 0640U);
    EXPECT_EQ(settings->origin_connections, 7U);
    EXPECT_EQ(settings->s3_addressing, AddressingStyle::virtual_host);
    EXPECT_EQ(settings->prefetch_window, 0U);
}

TEST(SettingsTest, OptionsOfMountAreIgnored) {
    const auto settings = load_settings(
        with({"dev", "suid", "noatime", "_netdev", "nofail", "x-systemd.automount", "comment=mine", ""}));
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_FALSE(settings->allow_suid);
}

TEST(SettingsTest, RefusalsNamePlaceKeyFoundAndAllowed) {
    const std::string limit = refusal(with({"memory.limit=12 parsecs"}));
    for (const char* part : {"-o memory.limit", "12 parsecs", "96M"}) {
        EXPECT_NE(limit.find(part), std::string::npos) << limit;
    }
    EXPECT_NE(refusal(with({"profile=huge"})).find("auto, small or large"), std::string::npos);
    EXPECT_NE(refusal(with({"memory.limt=1G"})).find("did you mean 'memory.limit'"), std::string::npos);
    EXPECT_NE(refusal(with({"nvme.path"})).find("a value is missing"), std::string::npos);
    EXPECT_NE(refusal(with({"rw"})).find("read-only"), std::string::npos);
    EXPECT_NE(refusal(with({"ro=false"})).find("read-only"), std::string::npos);
    EXPECT_NE(refusal(with({"s3.file_mode=9"})).find("octal"), std::string::npos);
    EXPECT_NE(refusal(with({"origin.connections=-1"})).find("not a number"), std::string::npos);
}

TEST(SettingsTest, ImpossibleCombinationsAreRefused) {
    EXPECT_NE(refusal(with({"nvme.limit=1G"})).find("nvme.path"), std::string::npos);
    EXPECT_NE(refusal(with({"nvme.path=/c", "nvme.limit=1M"})).find("16M"), std::string::npos);
    EXPECT_NE(refusal(with({"nvme.path=/a:/b"})).find("several devices"), std::string::npos);
    EXPECT_NE(refusal(with({"nvme.path=cache"})).find("absolute"), std::string::npos);
    EXPECT_NE(refusal(with({"memory.limit=96M", "ram.limit=97M"})).find("larger than"), std::string::npos);
    EXPECT_NE(refusal(with({"s3.endpoint=localhost:9000"})).find("scheme"), std::string::npos);
    EXPECT_NE(refusal(with({"s3.anonymous", "s3.profile=x"})).find("exclude"), std::string::npos);
}

TEST_F(SettingsFileTest, TheStrongerSourceWins) {
    SettingsSources sources =
        with({"config=" + file("memory: {limit: 1G}\norigin.connections: 1\nlog.level: debug\n"),
              "memory.limit=3G", "memory.limit=4G"});
    sources.environment = {
        {"TIERFS_MEMORY_LIMIT", "2G"}, {"TIERFS_ORIGIN_CONNECTIONS", "2"}, {"HOME", "/root"}};
    const auto settings = load_settings(sources);
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(settings->memory_limit, 4ULL << 30);
    EXPECT_EQ(settings->origin_connections, 2U);
    EXPECT_EQ(settings->log_level, "debug");
}

TEST_F(SettingsFileTest, EveryProblemOfAFileIsToldWithItsLine) {
    const std::string path = file("memory.limit: 1G\nprofile: huge\n\nnvme:\n  limt: 5\n");
    const auto checked = check_settings_file(path);
    ASSERT_FALSE(checked);
    EXPECT_NE(checked.error().message.find(path + ":2"), std::string::npos) << checked.error().message;
    EXPECT_NE(checked.error().message.find(path + ":5"), std::string::npos) << checked.error().message;
    EXPECT_NE(checked.error().message.find("nvme.limit"), std::string::npos) << checked.error().message;
}

TEST_F(SettingsFileTest, HostileFilesAreRefused) {
    EXPECT_FALSE(check_settings_file((directory_ / "absent").string()));
    EXPECT_FALSE(check_settings_file(directory_.string()));
    for (const std::string text :
         {"just words", "- a\n- b\n", "a: [1, 2]\n", "memory.limit: 1G\nmemory.limit: 2G\n", "{{{{",
          "memory: {limit: {a: {b: {c: {d: 1}}}}}", "? [a]\n: 1\n", "\x01\x02\xff"}) {
        EXPECT_FALSE(check_settings_file(file(text))) << text;
    }
    EXPECT_FALSE(check_settings_file(file(std::string((1 << 20) + 1, '#'))));
    EXPECT_TRUE(check_settings_file(file("")));
}

TEST_F(SettingsFileTest, NestedAliasesEnd) {
    std::string text = "a: &a {}\n";
    for (char level = 'b'; level < 'f'; ++level) {
        text += std::string(1, level) + ": &" + level + " {";
        for (int i = 0; i < 100; ++i) {
            text += "k" + std::to_string(i) + ": *" + std::string(1, static_cast<char>(level - 1)) + ", ";
        }
        text += "}\n";
    }
    EXPECT_FALSE(check_settings_file(file(text)));
}

TEST_F(SettingsFileTest, TheDefaultFileLoads) {
    const std::string path = file(settings_defaults_yaml());
    const auto settings = load_settings(with({"config=" + path}));
    ASSERT_TRUE(settings) << settings.error().message;
    const auto plain = load_settings(with({}));
    for (const auto& key : setting_keys()) EXPECT_EQ(key.show(*settings), key.show(*plain)) << key.name;
}

TEST(SettingsTest, UnknownVariablesAreRefused) {
    SettingsSources sources = with({});
    sources.environment = {{"TIERFS_MEMORY_LIMT", "1G"}};
    EXPECT_NE(refusal(sources).find("TIERFS_MEMORY_LIMT"), std::string::npos);
    sources.environment = {{"TIERFS_TEST_SEED", "1"}};
    EXPECT_TRUE(load_settings(sources));
}

TEST(SettingsTest, HelpAndManualNameEveryKey) {
    for (const auto& key : setting_keys()) {
        EXPECT_NE(settings_help().find("  " + std::string(key.name)), std::string::npos) << key.name;
        EXPECT_NE(settings_man().find(".BR " + std::string(key.name)), std::string::npos) << key.name;
        EXPECT_FALSE(key.help.empty());
    }
}

TEST(SettingsTest, TheManualPageHoldsTheTable) {
    const auto page = std::filesystem::path(__FILE__).parent_path() / "../../../man/tierfs.8";
    std::ifstream stream(page);
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    ASSERT_FALSE(text.empty());
    EXPECT_NE(text.find(settings_man()), std::string::npos)
        << "put the output of settings_man() between the settings marks of man/tierfs.8:\n"
        << settings_man();
}

TEST(SettingsTest, TheExampleFileLoads) {
    const auto example = std::filesystem::path(__FILE__).parent_path() / "../../../config/tierfs.yaml";
    const auto checked = check_settings_file(example.lexically_normal().string());
    EXPECT_TRUE(checked) << checked.error().message;
}

}  // namespace
}  // namespace tierfs
