#include "tiering/pack/publish.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "backends/dir/directory_origin.hpp"
#include "tests/unit/tiering/stage/temporary_folder.hpp"
#include "tiering/pack/verify_pack.hpp"

namespace tierfs::pack {
namespace {

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

TEST_F(PackPublishTest, ManifestsReadBackAndNothingElse) {
    Manifest manifest;
    manifest.source = "dir:/da\xffta";
    manifest.index = {1, 2};
    manifest.files = 3;
    const auto text = encode_manifest(manifest);
    ASSERT_TRUE(text);
    EXPECT_EQ(text->size(), kManifestBytes);
    EXPECT_EQ(parse_manifest(*text).value_or(Manifest{}), manifest);
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

}  // namespace
}  // namespace tierfs::pack
