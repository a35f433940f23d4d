#include "config/settings.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/mount_options.hpp"
#include "config/settings_manual.hpp"

namespace tierfs {
namespace settings_test {

using Options = std::vector<std::string>;

class ConfigSettings : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = "/tmp/tierfs_settings_XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string file(const std::string& text) {
        std::ofstream(folder_ + "/t.yaml", std::ios::binary) << text;
        return folder_ + "/t.yaml";
    }
    static Result<Settings> load(Options options, std::map<std::string, std::string> environment = {}) {
        return load_settings({"s3://b/p", "/mnt/x", std::move(options), std::move(environment), false});
    }
    Result<Settings> yaml(const std::string& text) { return load({"config=" + file(text)}); }
    static std::string problem(const Result<Settings>& result) {
        return result ? "(accepted)" : result.error().message;
    }
    std::string folder_;
};

#define EXPECT_PROBLEM(result, part) \
    EXPECT_NE(problem(result).find(part), std::string::npos) << problem(result)

TEST_F(ConfigSettings, Defaults) {
    const auto s = load({}).value();
    EXPECT_EQ(s.source, "s3://b/p");
    EXPECT_EQ(s.mountpoint, "/mnt/x");
    EXPECT_TRUE(s.read_only);
    EXPECT_GE(s.memory_limit, 96U << 20);
    EXPECT_EQ(s.s3_uid, geteuid());
    EXPECT_EQ(s.s3_gid, getegid());
    EXPECT_EQ(load_settings({"/a", "rel", {}, {}, true}).value().mountpoint,
              (std::filesystem::current_path() / "rel").string());
}

TEST_F(ConfigSettings, StrongerSourcesWin) {
    const std::string config =
        "config=" + file("memory: {limit: 1G}\nram.limit: 128M\norigin:\n  connections: 7\n");
    EXPECT_EQ(load({config}).value().memory_limit, 1ULL << 30);
    EXPECT_EQ(load({config}).value().ram_limit, 128ULL << 20);
    EXPECT_EQ(load({config}).value().origin_connections, 7U);
    EXPECT_EQ(load({config}, {{"TIERFS_MEMORY_LIMIT", "2G"}}).value().memory_limit, 2ULL << 30);
    EXPECT_EQ(load({config, "memory.limit=4G", "memory.limit=3G"}, {{"TIERFS_MEMORY_LIMIT", "2G"}})
                  .value()
                  .memory_limit,
              3ULL << 30);
}

TEST_F(ConfigSettings, MountsOwnOptionsSwitchNothingOn) {
    const auto s = load({"rw_", "ro"});
    EXPECT_FALSE(s);
    const auto good = load({"defaults", "dev", "suid", "exec", "noatime", "_netdev", "nofail",
                            "x-systemd.automount", "comment=a", "ro", "default_permissions", "nomand"});
    ASSERT_TRUE(good) << problem(good);
    EXPECT_FALSE(good->allow_suid);
    EXPECT_TRUE(load({"allow_suid", "allow_other"}).value().allow_suid);
    EXPECT_TRUE(good->read_only);
    EXPECT_FALSE(load({"rw"}).value().read_only);
    EXPECT_FALSE(load({"ro=false"}).value().read_only);
    EXPECT_TRUE(load({"rw", "ro"}).value().read_only) << "the last one counts";
    EXPECT_PROBLEM(load({"rw", "profile=small"}), "profile: found small on a writable mount");
    EXPECT_PROBLEM(load({"rw=false"}), "rw");
}

TEST_F(ConfigSettings, WritableIsWhatMountPassesOn) {
    EXPECT_FALSE(load({"writable"}).value().read_only);
    EXPECT_FALSE(load({"ro", "writable=true"}).value().read_only) << "the last one counts";
    EXPECT_TRUE(load({"writable", "ro"}).value().read_only);
    EXPECT_TRUE(load({"rw", "writable=false"}).value().read_only);
    EXPECT_FALSE(yaml("writable: true\n").value().read_only);
    EXPECT_FALSE(load({}, {{"TIERFS_WRITABLE", "yes"}}).value().read_only);
    EXPECT_PROBLEM(load({"writable=perhaps"}), "writable: found 'perhaps'; allowed: true or false");
    EXPECT_PROBLEM(load({"writable", "profile=small"}), "(option -o writable)");
    EXPECT_EQ(settings_defaults_yaml().find("\nwritable:"), std::string::npos)
        << "ro alone: one would hide the other";
}

TEST_F(ConfigSettings, OptionsOfMountBecomeFlagsOrAreRefused) {
    const auto flags = [](Options options) {
        return flag_names(all_mount_flags(load(std::move(options)).value()));
    };
    EXPECT_EQ(flags({}), "nosuid,nodev");
    EXPECT_EQ(flags({"noexec", "sync", "dirsync", "noatime", "nodiratime", "nosymfollow"}),
              "nosuid,nodev,noexec,noatime,nodiratime,nosymfollow,sync,dirsync");
    EXPECT_EQ(flags({"noexec", "sync", "exec", "async"}), "nosuid,nodev") << "the last one counts";
    EXPECT_EQ(flags({"allow_suid"}), "");
    EXPECT_EQ(flags({"allow_suid", "nosuid"}), "nosuid");
    EXPECT_EQ(flags({"nosuid", "allow_suid"}), "nosuid") << "mount(8) puts its own options first";
    EXPECT_EQ(flags({"nodev", "allow_suid"}), "nodev");
    EXPECT_EQ(flags({"user", "allow_suid"}), "nosuid,nodev,noexec");
    EXPECT_EQ(flags({"user", "exec"}), "nosuid,nodev");
    EXPECT_EQ(flags({"owner", "allow_suid"}), "nosuid,nodev");
    for (const char* refused : {"strictatime", "lazytime", "mand", "iversion", "remount", "bind", "fsname=q",
                                "subtype=t", "uhelper=x", "nonempty"})
        EXPECT_PROBLEM(load({refused}), "it cannot be honoured: ");
    EXPECT_PROBLEM(load({"noexec=1"}), "is no known key");
    EXPECT_PROBLEM(load_settings({"/dir", "/mnt/x", {"rw", "dirsync"}, {}, false}),
                   "dirsync: found on a writable mount of a directory");
    EXPECT_TRUE(load_settings({"/dir", "/mnt/x", {"dirsync"}, {}, false}));
    EXPECT_EQ(flags_of_names("ro,nosuid,noexec,relatime,user_id=0,sync"),
              std::uint32_t{MS_RDONLY | MS_NOSUID | MS_NOEXEC | MS_SYNCHRONOUS});
}

TEST_F(ConfigSettings, MessagesShowHowSizesAndTimesAreWritten) {
    EXPECT_EQ(load({"memory.limit=500 GiB"}).value().memory_limit, 500ULL << 30);
    EXPECT_EQ(load({"metadata.ttl=10min"}).value().metadata_ttl, std::chrono::minutes(10));
    EXPECT_PROBLEM(
        load({"memory.limit=1GB"}),
        "memory.limit: found '1GB': write 1G for powers of 1024; 'GB' may also mean powers of 1000, and those "
        "are written as bytes; allowed: a size from 96M on, or auto");
    EXPECT_PROBLEM(
        load({"metadata.ttl=10"}),
        "metadata.ttl: found '10': the unit is missing: write 10s, 10m or 10h; allowed: a duration");
    EXPECT_PROBLEM(load({"metadata.ttl=10x; allowed: y"}), "' is no unit of time; allowed: a duration from");
    EXPECT_PROBLEM(load({"memory.limit=" + std::string(100, '9')}),
                   "...': the number is too large; allowed: a size");
}

TEST_F(ConfigSettings, MessagesNamePlaceKeyFoundAndAllowed) {
    const auto bad = load({"memory.limit=12Q"});
    for (const char* part : {"option -o memory.limit", "memory.limit: ", "'12Q'", "96M"})
        EXPECT_PROBLEM(bad, part);
    EXPECT_PROBLEM(load({}, {{"TIERFS_MEMORY_LIMIT", "x"}}),
                   "environment TIERFS_MEMORY_LIMIT: memory.limit: found 'x'");
    EXPECT_PROBLEM(load({"memory.limt=1G"}), "did you mean 'memory.limit'");
    EXPECT_PROBLEM(load({"memory.limit"}), "found no value");
    EXPECT_PROBLEM(load({}, {{"TIERFS_MEMORY_LIMITS", "1G"}}), "did you mean 'memory.limit'");
    EXPECT_TRUE(load({}, {{"TIERFS_TEST_S3", "1"}, {"TIERFS_NO_CCACHE", "1"}, {"PATH", "/bin"}}));
}

TEST_F(ConfigSettings, MessagesShowAnEndpointWithoutItsSecrets) {
    const std::map<std::string, std::string> told = {
        {"minio:9000", "s3.endpoint: found 'minio:9000'; allowed: http"},
        {"ftp://host", "found 'ftp://host';"},
        {"http://", "found 'http://';"},
        {"https://me:hush@host:9000", "found 'https://***@host:9000';"},
        {"me:hu@sh@host", "found '***@host';"},
        {"https://host/path?token=hush", "found 'https://host/path?***';"},
        {"https://me@host#hush", "found 'https://***@host#***';"},
        {"http://host?token=hush@hush", "found 'http://***';"},
        {"http://me:hush#hush@host", "found 'http://***';"},
    };
    for (const auto& [endpoint, message] : told) {
        const auto bad = load({"s3.endpoint=" + endpoint});
        EXPECT_PROBLEM(bad, message);
        EXPECT_EQ(problem(bad).find("hush"), std::string::npos) << endpoint;
    }
}

TEST_F(ConfigSettings, AllProblemsOfAFileAreTold) {
    const auto bad = yaml("memory:\n  limit: 1\nnvme: {limit: 1M}\nlog.level: loud\nfoo: 1\n");
    for (const char* part :
         {"t.yaml:2: memory.limit", "t.yaml:3: nvme.limit", "t.yaml:4: log.level", "t.yaml:5: 'foo'"}) {
        EXPECT_PROBLEM(bad, part);
    }
}

TEST_F(ConfigSettings, HostileYaml) {
    EXPECT_PROBLEM(yaml("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"), "aliases");
    EXPECT_PROBLEM(yaml("memory.limit: 1G\nmemory: {limit: 1G}\n"), "given twice");
    EXPECT_PROBLEM(yaml("memory: {limit: 1G, limit: 2G}\n"), "given twice");
    EXPECT_PROBLEM(yaml("nvme: {path: [/a, /b]}\n"), "several devices are one text");
    EXPECT_PROBLEM(yaml("memory: {limit: {a: 1}}\n"), "found a map");
    EXPECT_PROBLEM(yaml("- a\n- b\n"), "list");
    EXPECT_PROBLEM(yaml("hello"), "'hello'");
    EXPECT_PROBLEM(yaml("memory: {limit: \n"), "not YAML");
    EXPECT_PROBLEM(yaml("memory.limit: 1G\n---\nmemory.limit: 2G\n"), "several documents");
    EXPECT_PROBLEM(yaml("memory.limit:\n"), "found nothing");
    EXPECT_PROBLEM(yaml("? [a]\n: b\n? {c: d}\n: e\n"), "list");
    EXPECT_PROBLEM(yaml("log.file: \"/a\\nb\"\n"), "log.file");
    EXPECT_PROBLEM(yaml(std::string("a\0b", 3)), "zero bytes");
    EXPECT_FALSE(yaml(std::string(100000, '[')));
    EXPECT_FALSE(yaml(std::string(5000, '{')));
    std::string deep;
    for (int i = 0; i < 500; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    EXPECT_PROBLEM(yaml(deep), "nested too deeply");
    std::string many;
    for (int i = 0; i < 50000; ++i) many += "k" + std::to_string(i) + ": 1\n";
    EXPECT_PROBLEM(yaml(many), "further problems");
    EXPECT_PROBLEM(yaml(std::string((1 << 20) + 1, '#')), "1 MiB");
    EXPECT_TRUE(yaml(""));
    EXPECT_TRUE(yaml("# nothing\nmemory:\n"));
}

TEST_F(ConfigSettings, FilesThatCannotBeRead) {
    EXPECT_EQ(load({"config=" + folder_ + "/none"}).error().code, ENOENT);
    EXPECT_EQ(load({"config=" + folder_}).error().code, EISDIR);
    ASSERT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
    EXPECT_PROBLEM(load({"config=" + folder_ + "/fifo"}), "regular file");
    EXPECT_PROBLEM(load({"config="}), "found no value");
    EXPECT_FALSE(check_settings_file(folder_ + "/none"));
}

TEST_F(ConfigSettings, ImpossibleCombinations) {
    EXPECT_PROBLEM(load({"nvme.limit=1G"}), "without nvme.path");
    EXPECT_PROBLEM(load({"nvme.path=/c", "nvme.limit=15M"}), "16M");
    EXPECT_PROBLEM(load({"memory.limit=128M", "ram.limit=129M"}), "more than memory.limit");
    EXPECT_TRUE(load({"nvme.path=/a:/b"}));
    for (const char* wrong :
         {"nvme.path=/a:b", "nvme.path=/a:", "nvme.path=:/a", "nvme.path=/a:/b:/a/", "nvme.path=/a:/a/b"}) {
        EXPECT_PROBLEM(load({wrong}), "absolute paths with ':' between them");
    }
    EXPECT_PROBLEM(load({"nvme.path=a"}), "absolute");
    EXPECT_PROBLEM(load({"index.path=/mnt/y/../x/i"}), "inside the mountpoint");
    EXPECT_TRUE(load({"index.path=/mnt/xy"}));
    EXPECT_TRUE(load({"nvme.path=/c", "nvme.limit=16M"}));
}

TEST_F(ConfigSettings, Ranges) {
    for (const char* good :
         {"pack.max_object=0", "pack.max_object=1M", "prefetch.window=0", "prefetch.window=1G",
          "origin.deadline=1h", "origin.connections=1024", "s3.file_mode=0o640", "s3.addressing=virtual",
          "metadata.ttl=forever", "s3.uid=auto", "profile=small", "s3.anonymous=yes",
          "s3.endpoint=http://127.0.0.1:9000"}) {
        EXPECT_TRUE(load({good})) << good;
    }
    for (const char* bad :
         {"pack.max_object=2M", "prefetch.window=1K", "prefetch.window=2G", "origin.deadline=999ms",
          "origin.deadline=forever", "origin.connections=0", "origin.connections=1025", "s3.file_mode=888",
          "s3.file_mode=1000", "s3.uid=4294967295", "s3.uid=-1", "memory.limit=95M", "memory.limit=0",
          "s3.endpoint=ftp://x", "s3.anonymous=maybe", "log.level=", "profile=huge"}) {
        EXPECT_FALSE(load({bad})) << bad;
    }
    EXPECT_EQ(load({"s3.file_mode=640"}).value().s3_file_mode, 0640U);
}

TEST_F(ConfigSettings, TheFileOfDefaultsIsTheDefaults) {
    const auto read = yaml(settings_defaults_yaml());
    ASSERT_TRUE(read) << problem(read);
    const auto plain = load({}).value();
    EXPECT_EQ(read->memory_limit, plain.memory_limit);
    EXPECT_EQ(read->ram_limit, plain.ram_limit);
    EXPECT_EQ(read->prefetch_window, plain.prefetch_window);
    EXPECT_EQ(read->origin_deadline, plain.origin_deadline);
    EXPECT_EQ(read->s3_file_mode, plain.s3_file_mode);
    EXPECT_EQ(read->s3_uid, plain.s3_uid);
    EXPECT_EQ(read->log_level, plain.log_level);
}

TEST_F(ConfigSettings, KnowsTheClassesOfADataset) {
    for (const std::string name : {"auto", "epoch", "hot", "stream", "once", "pin", "none"}) {
        const auto settings = load({"class=" + name});
        ASSERT_TRUE(settings) << name;
        EXPECT_EQ(name_of(settings->dataset_class), name);
    }
    EXPECT_EQ(load({}).value().dataset_class, DatasetClass::automatic);
    EXPECT_FALSE(load({"class=lru"}));
    EXPECT_FALSE(load({"class="}));
}

TEST_F(ConfigSettings, RulesOfDatasets) {
    const auto s = yaml(
        "class: hot\n"
        "datasets:\n"
        "  - match: /train/**\n"
        "    class: epoch\n"
        "    size: \">= 1M, < 1G\"\n"
        "  - {match: '**/*.idx', class: pin}\n"
        "log: {level: error}\n");
    ASSERT_TRUE(s) << problem(s);
    ASSERT_EQ(s->datasets.size(), 2U);
    EXPECT_EQ(s->datasets[0].match, "/train/**");
    EXPECT_EQ(s->datasets[0].dataset_class, DatasetClass::epoch);
    EXPECT_EQ(s->datasets[0].conditions.size(), 2U);
    EXPECT_NE(s->datasets[0].place.find("t.yaml:3"), std::string::npos) << s->datasets[0].place;
    EXPECT_EQ(s->datasets[1].dataset_class, DatasetClass::pin);
    EXPECT_EQ(s->log_level, "error");
    for (const char* none : {"datasets: []\n", "datasets:\nlog.level: error\n"})
        EXPECT_TRUE(yaml(none) && yaml(none)->datasets.empty()) << problem(yaml(none));
}

TEST_F(ConfigSettings, ProblemsOfRulesHaveTheirPlace) {
    const auto bad = yaml(
        "datasets:\n"
        "  - class: hot\n"
        "  - match: train\n"
        "    clas: hot\n"
        "    size: big\n"
        "  - {match: /a, match: /b}\n"
        "  - match: [/a]\n"
        "  - match: {a: b}\n"
        "  - /a\n"
        "  - [a]\n"
        "  - {match: /c, class: }\n"
        "foo: 1\n");
    for (const char* part :
         {"t.yaml:2: datasets: found a rule without match", "t.yaml:3: datasets: match: found 'train'",
          "t.yaml:4: datasets: 'clas' is no key", "t.yaml:5: datasets: size: found 'big'",
          "t.yaml:6: 'datasets[2].match': is given twice", "t.yaml:7: datasets[3].match: found a list",
          "t.yaml:8: datasets[4].match: found a map", "t.yaml:9: datasets: found '/a'",
          "t.yaml:10: datasets: found a list", "t.yaml:11: datasets: class: found ''", "t.yaml:12: 'foo'"}) {
        EXPECT_PROBLEM(bad, part);
    }
    EXPECT_PROBLEM(yaml("datasets: 7\n"), "found '7'; allowed: a list of rules");
    EXPECT_PROBLEM(yaml("datasets: {match: /a}\n"), "found a map; allowed: a list of rules");
    EXPECT_PROBLEM(yaml("datasets: []\ndatasets: []\n"), "given twice");
    EXPECT_PROBLEM(load({"datasets=/a"}), "config=FILE");
    std::string many = "datasets:\n";
    for (int i = 0; i < 65; ++i) many += "  - {match: /a}\n";
    EXPECT_PROBLEM(yaml(many), "at most 64");
}

TEST_F(ConfigSettings, TheExampleFileLoads) {
    const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
    const std::string example = (root / "config/tierfs.yaml").string();
    const auto checked = check_settings_file(example);
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_EQ(load({"config=" + example}).value().metadata_ttl, kForever);
}

TEST_F(ConfigSettings, PackIsAValueAndASection) {
    EXPECT_EQ(load({"pack=s3://b/p"}).value().pack, "s3://b/p");
    EXPECT_EQ(load({"pack.path=/p"}).value().pack, "/p");
    EXPECT_EQ(yaml("pack: /p\n").value().pack, "/p");
    const auto both = yaml("pack: {path: /p, max_object: 64K}\n");
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_EQ(both->pack, "/p");
    EXPECT_EQ(both->pack_max_object, 65536U);
}

TEST_F(ConfigSettings, TheManualPageHoldsTheTable) {
    const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
    std::ifstream stream(root / "man/tierfs.8");
    const std::string page((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    EXPECT_NE(page.find(settings_man()), std::string::npos)
        << "put this between the settings marks of man/tierfs.8:\n"
        << settings_man();
}

TEST_F(ConfigSettings, ThePageOfTheFileHoldsTheTable) {
    const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
    std::ifstream stream(root / "man/tierfs.yaml.5");
    const std::string page((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    EXPECT_NE(page.find(settings_yaml_man()), std::string::npos)
        << "put this between the settings marks of man/tierfs.yaml.5:\n"
        << settings_yaml_man();
}

TEST_F(ConfigSettings, HelpAndManNameEveryKey) {
    for (const char* key :
         {"memory.limit=SIZE", "allow_other", "s3.addressing=auto|path|virtual", "config=FILE"}) {
        EXPECT_NE(settings_help().find(key), std::string::npos) << key;
        EXPECT_NE(settings_man().find(key), std::string::npos) << key;
    }
}

}  // namespace settings_test
}  // namespace tierfs
