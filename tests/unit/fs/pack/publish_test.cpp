#include "fs/pack/publish.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "backends/dir/directory_origin.hpp"
#include "fs/pack/packing_order.hpp"
#include "fs/pack/verify_pack.hpp"
#include "tests/unit/backends/pack/pack_entries.hpp"
#include "tests/unit/fs/stage/copy/temporary_folder.hpp"
#include "tests/unit/script.hpp"

namespace tierfs::pack {
namespace publish_test {

namespace fs = std::filesystem;

class PackPublishTest : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directory(folder_ / "source");
        fs::create_directory(folder_ / "dest");
    }

    std::unique_ptr<Origin> origin(const std::string& name) {
        auto opened = open_directory_origin(settings_, folder_ / name);
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }
    Result<Published> pack(const std::string& to = "dest") {
        progress_ = std::make_unique<Progress>();
        const auto source = origin("source"), dest = origin(to);
        return publish(*source, *dest, options_, *progress_, stopped_);
    }
    PackReport verified(const std::string& name = "dest") {
        auto report = verify_pack(*origin(name), [](const PackReport&) {});
        EXPECT_TRUE(report) << report.error().message;
        return report.value_or(PackReport{});
    }
    /// All files below a folder, by name.
    std::map<std::string, std::string> files(const std::string& name) {
        std::map<std::string, std::string> found;
        for (const auto& entry : fs::recursive_directory_iterator(folder_ / name)) {
            const auto relative = fs::relative(entry.path(), folder_ / name).string();
            if (entry.is_regular_file()) found[relative] = folder_.read(name + "/" + relative);
        }
        return found;
    }
    std::string first_extent() {
        for (const auto& entry : fs::directory_iterator(folder_ / "dest/extents"))
            return "dest/extents/" + entry.path().filename().string();
        return {};
    }
    /// Some 80 MB in four sizes, two extents of it.
    void make_dataset(unsigned count = 160) {
        for (unsigned i = 0; i < count; ++i) {
            const std::size_t size = i % 4 == 0   ? 0
                                     : i % 4 == 1 ? 700
                                     : i % 4 == 2 ? 300'000 + i
                                                  : 1'000'000 + i;
            std::string text(size, static_cast<char>('a' + i % 26));
            text.resize(size);
            for (std::size_t at = 0; at < size; at += 512) text[at] = static_cast<char>(at / 512 + i);
            folder_.write("source/d" + std::to_string(i % 7) + "/f" + std::to_string(i), text);
        }
        folder_.write("source/large", std::string(kMaxPackedObject + 1, 'L'));
        fs::create_symlink("d0/f0", folder_ / "source/link");
        fs::create_directory(folder_ / "source/empty");
    }

    stage::TemporaryFolder folder_;
    Settings settings_;
    PublishOptions options_;
    std::function<bool()> stopped_ = [] { return false; };
    std::unique_ptr<Progress> progress_;
};

TEST_F(PackPublishTest, PublishesAndVerifies) {
    make_dataset();
    const auto published = pack();
    ASSERT_TRUE(published) << published.error().message;
    EXPECT_EQ(published->manifest.files, 161U);
    EXPECT_EQ(published->manifest.packed_files, 120U) << "neither empty nor large ones";
    EXPECT_EQ(published->manifest.directories, 9U);
    EXPECT_EQ(published->manifest.symlinks, 1U);
    EXPECT_GE(published->manifest.extents, 1U);
    EXPECT_FALSE(published->was_there);
    const auto report = verified();
    EXPECT_EQ(report.bad, 0U);
    EXPECT_EQ(report.files, 120U);
    EXPECT_EQ(report.manifest, published->manifest);
    EXPECT_EQ(files("dest").size(), 2 + published->manifest.extents);
}

TEST_F(PackPublishTest, TheSameInputGivesTheSameBytes) {
    make_dataset();
    ASSERT_TRUE(pack());
    fs::create_directory(folder_ / "other");
    options_.workers = 1;
    ASSERT_TRUE(pack("other"));
    EXPECT_EQ(files("dest"), files("other"));
    const auto again = pack();
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(again->was_there);
    EXPECT_EQ(progress_->bytes_read, 0U);
    EXPECT_EQ(progress_->bytes_written, 0U);
}

TEST_F(PackPublishTest, GoesOnWhereARunEnded) {
    make_dataset();
    ASSERT_TRUE(pack());
    const auto whole = files("dest");
    // As a run leaves it that was killed before its manifest, while it wrote an extent.
    fs::remove(folder_ / "dest/manifest.json");
    const auto extent = first_extent();
    const auto size = fs::file_size(folder_ / extent);
    fs::remove(folder_ / extent);
    folder_.write("dest/extents/.tierfs-upload-0-0", "half");
    folder_.write("dest/extents/" + extent_file_name(0, {7, 7}), "of another state");
    folder_.write("dest/index-00000000000000000000000000000000", "of another state");
    ASSERT_TRUE(pack());
    EXPECT_LT(progress_->bytes_read, size);
    EXPECT_LT(progress_->bytes_written, size + (1 << 20));
    EXPECT_EQ(files("dest"), whole);
}

TEST_F(PackPublishTest, DamagedExtentsOfAnEndedRunAreMadeAnew) {
    make_dataset(8);
    ASSERT_TRUE(pack());
    const auto whole = files("dest");
    fs::remove(folder_ / "dest/manifest.json");
    auto bytes = folder_.read(first_extent());
    bytes[100] ^= 1;  // the table
    folder_.write(first_extent(), bytes);
    ASSERT_TRUE(pack());
    EXPECT_EQ(files("dest"), whole);
}

TEST_F(PackPublishTest, PacksInTheOrderOfAList) {
    make_dataset();
    ASSERT_TRUE(pack());
    const auto by_name = files("dest");
    fs::create_directory(folder_ / "ordered");
    options_.order = "/mnt/data/d5/f54\nd6/f6\n\n/mnt/data/d2/f2\n/mnt/data/d5/f54\nnone\n./d1/f1\n";
    const auto published = pack("ordered");
    ASSERT_TRUE(published) << published.error().message;
    ASSERT_EQ(published->remarks.size(), 1U) << "'none' is no file";
    EXPECT_TRUE(published->remarks[0].starts_with("1 lines")) << published->remarks[0];
    EXPECT_NE(files("ordered"), by_name);
    const auto report = verified("ordered");
    EXPECT_EQ(report.bad, 0U);
    EXPECT_EQ(report.files, 120U);
    EXPECT_EQ(report.extents, published->manifest.extents) << "each is read once";
    EXPECT_EQ(pack("dest").error().code, EEXIST) << "a pack in another order is another pack";
    EXPECT_EQ(files("dest"), by_name);
    EXPECT_TRUE(pack("ordered")->was_there);
}

TEST(PackingOrder, FindsFilesByTheirPathsBelowRootOrMount) {
    std::vector<Entry> entries(1);
    for (const char* name : {"a", "b"})
        entries.push_back(file_entry("", 0, true)), entries.back().name = name;
    entries.push_back(directory_entry("", "d"));
    entries.push_back(file_entry("d", 0, true));
    entries.back().name = "a";
    const auto order_of = [&](const char* list) { return parse_order(list, entries); };
    EXPECT_EQ(order_of("b\na").files, (std::vector<std::size_t>{2, 1}));
    EXPECT_EQ(order_of("/mnt/x/b\n/mnt/x/d/a\n/mnt/x/a\n").files, (std::vector<std::size_t>{2, 4, 1}));
    EXPECT_EQ(order_of("/mnt/d/a\n/mnt/a\n").files, (std::vector<std::size_t>{4, 1}))
        << "the shortest beginning";
    const auto strange = order_of("/elsewhere\n/mnt/b\n/other/a\nd\n\n../a\nb");
    EXPECT_EQ(strange.files, (std::vector<std::size_t>{2}));
    EXPECT_EQ(strange.unknown, 4U) << "another mount, a directory, no path";
}

TEST_F(PackPublishTest, AnUpdateReusesWhatHasNotChanged) {
    make_dataset(400);  // 200 MB
    ASSERT_TRUE(pack());
    const auto before = files("dest");
    const auto total = progress_->bytes_read.load();
    folder_.write("source/d3/f3", "changed");
    folder_.write("source/d5/more", "more");
    fs::remove(folder_ / "source/d6/f6");
    options_.update = true;
    const auto updated = pack();
    ASSERT_TRUE(updated) << updated.error().message;
    EXPECT_FALSE(updated->was_there);
    EXPECT_GT(updated->found, 0U);
    EXPECT_LT(progress_->bytes_read, total * 3 / 4) << "extents without changes are not read";
    EXPECT_EQ(verified().bad, 0U);
    // Readers of the generation before go on: all it named is there as it was.
    const auto after = files("dest");
    for (const auto& [name, bytes] : before)
        if (name != "manifest.json") {
            EXPECT_EQ(after.at(name), bytes) << name;
        }
    // The update is what a pack from the start would be, beside what is left.
    fs::create_directory(folder_ / "fresh");
    ASSERT_TRUE(pack("fresh"));
    for (const auto& [name, bytes] : files("fresh")) EXPECT_EQ(after.at(name), bytes) << name;
    options_.prune = true;
    const auto pruned = pack();
    ASSERT_TRUE(pruned) << pruned.error().message;
    EXPECT_TRUE(pruned->was_there);
    EXPECT_EQ(pruned->removed, after.size() - files("fresh").size());
    EXPECT_EQ(progress_->bytes_read, 0U);
    EXPECT_EQ(files("dest"), files("fresh"));
}

TEST_F(PackPublishTest, AnUpdateMendsWhatIsLost) {
    make_dataset();
    ASSERT_TRUE(pack());
    const auto whole = files("dest");
    options_.update = true;
    for (const auto& [name, bytes] : whole)
        if (name.starts_with("index-")) fs::remove(folder_ / ("dest/" + name));
    fs::remove(folder_ / first_extent());
    ASSERT_TRUE(pack());
    EXPECT_GT(progress_->bytes_read, 0U);
    EXPECT_EQ(files("dest"), whole);
}

TEST_F(PackPublishTest, AnUpdateOfAnotherSourceIsRefused) {
    make_dataset(8);
    ASSERT_TRUE(pack());
    const auto before = files("dest");
    fs::rename(folder_ / "source", folder_ / "source-before");
    fs::create_directory(folder_ / "source");
    options_.update = true;
    const auto other = origin("source-before"), dest = origin("dest");
    EXPECT_EQ(publish(*other, *dest, options_, *progress_, stopped_).error().code, EEXIST);
    EXPECT_EQ(files("dest"), before);
}

TEST_F(PackPublishTest, OfTwoUpdatesAtOnceTheFirstStays) {
    make_dataset(8);
    ASSERT_TRUE(pack());
    folder_.write("source/d1/more", "more");
    options_.update = true;
    std::atomic<bool> done = false;
    std::map<std::string, std::string> of_the_other;
    stopped_ = [&] {
        // When this one has seen DEST, and before it has published anything.
        if (progress_->files_total == 0 || done.exchange(true)) return false;
        folder_.write("source/d1/another", "another");
        Progress progress;
        const auto source = origin("source"), dest = origin("dest");
        EXPECT_TRUE(publish(*source, *dest, options_, progress, [] { return false; }));
        of_the_other = files("dest");
        return false;
    };
    EXPECT_EQ(pack().error().code, EEXIST);
    EXPECT_EQ(files("dest").at("manifest.json"), of_the_other.at("manifest.json"));
    EXPECT_EQ(verified().bad, 0U);
}

TEST_F(PackPublishTest, ShardsMakeTheSamePack) {
    make_dataset(400);
    ASSERT_TRUE(pack());
    const auto whole = files("dest");
    const auto total = progress_->bytes_read.load();
    fs::create_directory(folder_ / "shards");
    std::uint64_t read = 0;
    for (const std::uint64_t index : {2, 0, 0, 1}) {
        options_.shard = {index, 3};
        const auto made = pack("shards");
        ASSERT_TRUE(made) << made.error().message;
        EXPECT_EQ(made->is_complete, index == 1) << "the last one";
        EXPECT_EQ(fs::exists(folder_ / "shards/manifest.json"), index == 1);
        EXPECT_LT(progress_->bytes_read, total);
        read += progress_->bytes_read;
    }
    EXPECT_EQ(read, total) << "each file is read by one shard, and once";
    EXPECT_EQ(files("shards"), whole);
    // One that is started again finds it complete.
    options_.shard = {0, 3};
    const auto again = pack("shards");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE(again->was_there);
    EXPECT_EQ(progress_->bytes_written, 0U);
    EXPECT_EQ(files("shards"), whole);
}

TEST_F(PackPublishTest, ShardsAtTheSameTimeMakeTheSamePack) {
    make_dataset(400);
    ASSERT_TRUE(pack());
    fs::create_directory(folder_ / "shards");
    constexpr std::uint64_t kShards = 6;  // more than there are extents
    std::atomic<unsigned> complete = 0;
    std::array<std::string, kShards> errors;
    std::vector<std::thread> threads;
    for (std::uint64_t index = 0; index < kShards; ++index) {
        threads.emplace_back([&, index] {
            PublishOptions options;
            options.shard = {index, kShards};
            options.workers = 1;
            Progress progress;
            const auto source = origin("source"), dest = origin("shards");
            const auto made = publish(*source, *dest, options, progress, [] { return false; });
            if (!made) errors[index] = made.error().message;
            complete += made && made->is_complete ? 1 : 0;
        });
    }
    for (auto& thread : threads) thread.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    EXPECT_GE(complete, 1U);
    EXPECT_TRUE(files("shards") == files("dest"));
}

#ifdef TIERFS_TEST_POINTS

TEST_F(PackPublishTest, WhatAnotherRunTakesForLeftOversIsWrittenAgain) {
    make_dataset(8);
    std::set<std::string> robbed;
    Script script;
    script.at("dir.put.written", [&](std::size_t) {
        for (const auto& entry : fs::recursive_directory_iterator(folder_ / "dest")) {
            const auto name = entry.path().filename().string();
            const auto target = name.substr(0, name.rfind('-'));
            if (name.starts_with(".tierfs-upload-") && robbed.insert(target).second) fs::remove(entry.path());
        }
    });
    options_.workers = 1;
    const auto made = pack();
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(robbed.size(), 2 + made->manifest.extents) << "each file once: extents, index, manifest";
    EXPECT_EQ(verified().bad, 0U);
}

#endif

TEST_F(PackPublishTest, ShardsOfDifferentStatesAreNotJoined) {
    make_dataset(200);
    options_.shard = {0, 2};
    ASSERT_TRUE(pack());
    folder_.write("source/d1/more", "more");
    options_.shard = {1, 2};
    const auto other = pack();
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_FALSE(other->is_complete);
    ASSERT_EQ(other->remarks.size(), 1U);
    EXPECT_NE(other->remarks[0].find("another state"), std::string::npos);
    options_.shard = {0, 2};
    const auto now = pack();
    ASSERT_TRUE(now) << now.error().message;
    EXPECT_TRUE(now->is_complete);
    EXPECT_EQ(verified().bad, 0U);
    for (const auto& [name, bytes] : files("dest")) EXPECT_FALSE(name.starts_with("part-")) << name;
    // And as an update.
    folder_.write("source/d1/more", "less");
    options_.update = true;
    EXPECT_FALSE(pack()->is_complete);
    options_.shard = {1, 2};
    EXPECT_TRUE(pack()->is_complete);
    EXPECT_EQ(verified().bad, 0U);
}

TEST_F(PackPublishTest, StopsWithoutAManifest) {
    make_dataset();
    stopped_ = [this] { return progress_->bytes_read > 0; };
    EXPECT_EQ(pack().error().code, ECANCELED);
    EXPECT_FALSE(fs::exists(folder_ / "dest/manifest.json"));
    EXPECT_EQ(verify_pack(*origin("dest"), [](const PackReport&) {}).error().code, ENOENT);
    stopped_ = [] { return false; };
    ASSERT_TRUE(pack());
    EXPECT_EQ(verified().bad, 0U);
}

TEST_F(PackPublishTest, AnotherPackIsLeftAlone) {
    make_dataset(8);
    ASSERT_TRUE(pack());
    const auto before = files("dest");
    folder_.write("source/d1/more", "more");
    EXPECT_EQ(pack().error().code, EEXIST);
    EXPECT_EQ(files("dest"), before);
}

TEST_F(PackPublishTest, ADryRunWritesNothing) {
    make_dataset(8);
    options_.dry_run = true;
    const auto published = pack();
    ASSERT_TRUE(published);
    EXPECT_EQ(published->manifest.packed_files, 6U);
    EXPECT_TRUE(files("dest").empty());
}

TEST_F(PackPublishTest, VerifyNamesWhatIsDamaged) {
    make_dataset(8);
    ASSERT_TRUE(pack());
    const auto name = first_extent();
    const auto sound = folder_.read(name);
    auto spoilt = sound;
    spoilt[spoilt.size() - 5000] ^= 1;
    folder_.write(name, spoilt);
    auto report = verified();
    EXPECT_EQ(report.bad, 1U);
    EXPECT_TRUE(report.first_bad.at(0).file.starts_with("d")) << report.first_bad.at(0).file;
    folder_.write(name, sound.substr(0, sound.size() - 4096));
    EXPECT_GT(verified().bad, 0U);
    fs::remove(folder_ / name);
    EXPECT_GT(verified().bad, 6U);
    folder_.write(name, sound);
    EXPECT_EQ(verified().bad, 0U);
}

TEST_F(PackPublishTest, DamagedNamesAreNoPack) {
    make_dataset(8);
    ASSERT_TRUE(pack());
    for (const auto& [name, sound] : files("dest")) {
        if (name.starts_with("extents/")) continue;
        auto spoilt = sound;
        spoilt[3] ^= 1;
        folder_.write("dest/" + name, spoilt);
        EXPECT_FALSE(verify_pack(*origin("dest"), [](const PackReport&) {})) << name;
        folder_.write("dest/" + name, sound);
    }
}

TEST_F(PackPublishTest, CompressesWhatGetsShorter) {
    make_dataset(40);
    std::mt19937 random(1);
    std::string noise(500'000, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    folder_.write("source/noise", noise);
    for (const PackingCodec codec : {PackingCodec{Codec::lz4, 0}, PackingCodec{Codec::zstd, 1},
                                     PackingCodec{Codec::zstd, PackingCodec::kMostLevel}}) {
        const auto to = "of-" + to_string(codec);
        fs::create_directory(folder_ / to);
        options_.codec = codec;
        const auto published = pack(to);
        ASSERT_TRUE(published) << published.error().message;
        EXPECT_EQ(published->manifest.codec, codec);
        EXPECT_GT(published->manifest.extent_bytes, noise.size()) << "what does not get shorter is as it was";
        EXPECT_LT(published->manifest.extent_bytes, published->manifest.packed_bytes / 4);
        EXPECT_EQ(verified(to).bad, 0U);
        EXPECT_EQ(verified(to).files, 31U);
        options_.codec.reset();
        EXPECT_TRUE(pack(to).value_or(Published{}).was_there) << "it goes on with its own codec";
        EXPECT_EQ(progress_->bytes_read, 0U);
    }
}

TEST_F(PackPublishTest, AnotherCodecIsAnotherPack) {
    make_dataset(40);
    ASSERT_TRUE(pack());
    const auto plain = files("dest");
    options_.codec = PackingCodec{Codec::lz4, 0};
    const auto refused = pack();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EEXIST);
    EXPECT_NE(refused.error().message.find("its codec is none"), std::string::npos)
        << refused.error().message;
    EXPECT_EQ(files("dest"), plain);
    options_.update = true;
    const auto updated = pack();
    ASSERT_TRUE(updated) << updated.error().message;
    EXPECT_EQ(progress_->bytes_read, updated->manifest.packed_bytes) << "all is packed anew";
    const auto both = files("dest");
    for (const auto& [name, bytes] : plain)
        if (name != "manifest.json") {
            EXPECT_EQ(both.at(name), bytes) << "for the readers of before";
        }
    EXPECT_EQ(verified().bad, 0U);
    options_.codec.reset();
    folder_.write("source/d1/f1", "changed");
    const auto later = pack();
    ASSERT_TRUE(later) << later.error().message;
    EXPECT_EQ(later->manifest.codec, (PackingCodec{Codec::lz4, 0}));
    EXPECT_EQ(verified().bad, 0U);
}

TEST_F(PackPublishTest, ExtentsOfAnotherRunAreTakenAsTheyAre) {
    make_dataset(8);
    options_.codec = PackingCodec{Codec::lz4, 0};
    std::atomic<bool> done = false;
    struct stat of_the_other {};
    stopped_ = [&] {
        // When this one has seen DEST, and before it has published anything.
        if (progress_->files_total == 0 || done.exchange(true)) return false;
        Progress progress;
        const auto source = origin("source"), dest = origin("dest");
        EXPECT_TRUE(publish(*source, *dest, options_, progress, [] { return false; }));
        EXPECT_EQ(::stat((folder_ / first_extent()).c_str(), &of_the_other), 0);
        return false;
    };
    (void)pack();
    struct stat now {};
    EXPECT_EQ(::stat((folder_ / first_extent()).c_str(), &now), 0);
    EXPECT_EQ(now.st_ino, of_the_other.st_ino) << "another version of the library may have made it";
    EXPECT_EQ(verified().bad, 0U);
}

TEST_F(PackPublishTest, WithoutAnUpdateThePackOfNowDecides) {
    make_dataset(8);
    options_.codec = PackingCodec{Codec::lz4, 0};
    ASSERT_TRUE(pack());
    options_.codec = PackingCodec{};
    options_.update = true;
    ASSERT_TRUE(pack());
    options_.codec = PackingCodec{Codec::lz4, 0};
    options_.update = false;
    const auto refused = pack();  // though its extents are there
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("its codec is none"), std::string::npos)
        << refused.error().message;
}

TEST(PackPackingCodec, IsParsedAndShown) {
    for (const char* text : {"none", "lz4", "zstd:1", "zstd:19"}) {
        const auto codec = parse_packing_codec(text);
        ASSERT_TRUE(codec) << text;
        EXPECT_EQ(to_string(*codec), text);
    }
    EXPECT_EQ(parse_packing_codec("zstd"), (PackingCodec{Codec::zstd, PackingCodec::kUsualLevel}));
    for (const char* text : {"", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "zstd:3x", "zstd:x",
                             "lz4:1", "none:1", "Zstd", " lz4", "zstd:99999999999"}) {
        const auto codec = parse_packing_codec(text);
        ASSERT_FALSE(codec) << text;
        EXPECT_EQ(codec.error().code, EINVAL);
    }
}

TEST_F(PackPublishTest, ManifestsReadBackAndNothingElse) {
    Manifest manifest;
    manifest.source = "dir:/da\xffta";
    manifest.index = {1, 2};
    manifest.files = 3;
    const auto text = encode_manifest(manifest);
    ASSERT_TRUE(text);
    EXPECT_EQ(text->size(), kManifestBytes);
    EXPECT_EQ(parse_manifest(*text).value_or(Manifest{}), manifest);
    EXPECT_EQ(text->find("codec"), std::string::npos) << "as before there were any";
    manifest.codec = {Codec::zstd, 7};
    EXPECT_EQ(parse_manifest(encode_manifest(manifest).value_or("")).value_or(Manifest{}), manifest);
    EXPECT_FALSE(parse_manifest(text->substr(1)));
    auto other = *text;
    other.replace(other.find(": 1"), 3, ": 2");
    EXPECT_EQ(parse_manifest(other).error().code, EPROTONOSUPPORT);
    manifest.source = std::string(kManifestBytes, 'x');
    EXPECT_EQ(encode_manifest(manifest).error().code, ENAMETOOLONG);
    EXPECT_TRUE(is_index_name("index-0123456789abcdef0123456789abcdef"));
    EXPECT_FALSE(is_index_name("index-0123456789abcdef0123456789abcdeX"));
    EXPECT_FALSE(is_index_name("index-of-all"));
}

}  // namespace publish_test
}  // namespace tierfs::pack
