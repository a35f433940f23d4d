// Whatever happens to the files and to the index: a miss, never wrong bytes, and the tier goes on.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "backends/extent/format.hpp"
#include "config/base/fault_point.hpp"
#include "tests/unit/read_file.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_damage_test {

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = 1 << 20;

class NvmeDamageTest : public NvmeTest {
  protected:
    static std::string load(const fs::path& path) { return read_file(path); }
    /// Overwrites in place: the tier has the file open.
    static void store(const fs::path& path, std::string_view bytes) {
        auto file = DiskFile::open(path, {.write = true, .create = true, .direct = false});
        ASSERT_TRUE(file.has_value());
        ASSERT_TRUE(file->truncate(bytes.size()).has_value());
        ASSERT_TRUE(file->write(std::as_bytes(std::span(bytes)), 0).has_value());
        ASSERT_TRUE(file->sync_data().has_value());
    }
    static void flip(const fs::path& path, std::uint64_t at) {
        auto file = DiskFile::open(path, {.write = true, .direct = false});
        ASSERT_TRUE(file.has_value());
        std::byte byte{};
        ASSERT_TRUE(file->read({&byte, 1}, at).has_value());
        byte ^= std::byte{0x10};
        ASSERT_TRUE(file->write({&byte, 1}, at).has_value());
        ASSERT_TRUE(file->sync_data().has_value());
    }
    std::string record(std::uint64_t number) { return **index_.find_location(object_id(number)); }
};

TEST_F(NvmeDamageTest, AnyFlippedByteOfAnExtentIsNoticed) {
    open();
    const std::vector<std::uint64_t> sizes{10, 3000, 4096, 20000, 70000};
    std::vector<std::string> records;
    for (std::size_t at = 0; at < sizes.size(); ++at) put(at, sizes[at]);
    tier_->flush();
    for (std::size_t at = 0; at < sizes.size(); ++at) records.push_back(record(at));
    const auto path = files_with(".extent").at(0);
    unsigned missed = 0;
    for (std::uint64_t at = 0; at < 110000; at += at < 8192 ? 61 : 1021) {
        flip(path, at);
        for (std::size_t object = 0; object < sizes.size(); ++object) {
            const Got got = get(object, sizes[object]);
            EXPECT_NE(got, Got::wrong) << at;
            if (got == Got::miss) ++missed;
        }
        flip(path, at);
        tier_->flush();
        for (std::size_t object = 0; object < sizes.size(); ++object) {
            index_.put(object_id(object), records[object]);
        }
    }
    EXPECT_GT(missed, 80U);
    EXPECT_EQ(tier_->checksum_errors(), missed);
    for (std::size_t at = 0; at < sizes.size(); ++at) EXPECT_EQ(get(at, sizes[at]), Got::right);
}

TEST_F(NvmeDamageTest, ADamagedEntryIsForgottenAndCanBeAdmittedAgain) {
    open();
    put(1, 50000);
    tier_->flush();
    flip(files_with(".extent").at(0), 20000);
    EXPECT_EQ(get(1, 50000), Got::miss);
    tier_->flush();
    EXPECT_EQ(index_.size(), 0U);
    put(1, 50000);
    tier_->flush();
    EXPECT_EQ(get(1, 50000), Got::right);
}

TEST_F(NvmeDamageTest, AnyFlippedByteOfABackingFileOrSidecarIsNoticed) {
    const std::uint64_t size = kMiB + 70001;
    open();
    put(1, size);
    tier_->flush();
    const auto data = files_with(".data").at(0);
    const auto sums = files_with(".sums").at(0);
    const std::string good_sums = load(sums);
    unsigned missed = 0;
    unsigned tried = 0;
    const auto round = [&](const fs::path& path, std::uint64_t at) {
        flip(path, at);
        const Got got = get(1, size);
        EXPECT_NE(got, Got::wrong) << path << " " << at;
        ++tried;
        if (got == Got::miss) ++missed;
        tier_->flush();
        if (path == data) flip(path, at);
        store(sums, good_sums);
    };
    for (std::uint64_t at = 0; at < size; at += 40009) round(data, at);
    for (std::uint64_t at = 4096; at < good_sums.size(); at += 31) round(sums, at);
    EXPECT_EQ(missed, tried);
    EXPECT_EQ(get(1, size), Got::right);
}

TEST_F(NvmeDamageTest, ADamagedSidecarHeaderDropsTheFile) {
    const std::uint64_t size = kMiB + 4096;
    for (std::uint64_t at = 0; at < 48; at += 5) {
        open();
        put(1, size);
        tier_->flush();
        tier_->abandon();
        flip(files_with(".sums").at(0), at);
        open();
        EXPECT_EQ(get(1, size), Got::miss) << at;
        tier_->flush();
        EXPECT_TRUE(files_with(".data").empty());
        put(1, size);
        tier_->flush();
        EXPECT_EQ(get(1, size), Got::right) << at;
    }
}

TEST_F(NvmeDamageTest, TruncatedFiles) {
    const std::uint64_t large = 2 * kMiB + 100;
    for (const char* extension : {".extent", ".data", ".sums"}) {
        for (const std::uint64_t length : {0, 1, 4096, 5000, 70000, 1000000}) {
            open();
            for (std::uint64_t at = 0; at < 10; ++at) put(at, 30000);
            put(100, large);
            tier_->flush();
            const auto path = files_with(extension).at(0);
            for (const bool reopened : {false, true}) {
                std::error_code error;
                fs::resize_file(path, std::min<std::uint64_t>(length, fs::file_size(path)), error);
                if (reopened) kill_and_open();
                for (std::uint64_t at = 0; at < 10; ++at) EXPECT_NE(get(at, 30000), Got::wrong);
                EXPECT_NE(get(100, large), Got::wrong);
                for (std::uint64_t block = 0; block < block_count(large); ++block) {
                    const auto bytes = std::min<std::uint64_t>(kBlockSize, large - block * kBlockSize);
                    EXPECT_NE(get(100, large, block * kBlockSize, bytes), Got::wrong);
                }
            }
            tier_->flush();
            for (std::uint64_t at = 0; at < 10; ++at) put(at, 30000);
            put(100, large);
            tier_->flush();
            for (std::uint64_t at = 0; at < 10; ++at) EXPECT_EQ(get(at, 30000), Got::right);
            EXPECT_EQ(get(100, large), Got::right) << extension << " " << length;
            tier_->close();
        }
    }
}

TEST_F(NvmeDamageTest, AFileKilledBeforeItsPaddingWasCutIsKept) {
    const std::uint64_t size = 2 * kMiB + 100;
    open();
    put(1, size);
    tier_->flush();
    tier_->abandon();
    const auto path = files_with(".data").at(0);
    fs::resize_file(path, align_up(size));
    open();
    tier_->flush();
    EXPECT_EQ(get(1, size), Got::right);
    EXPECT_EQ(fs::file_size(path), size);
    tier_->abandon();
    fs::resize_file(path, align_up(size) + 4096);  // no write of ours does that
    open();
    EXPECT_EQ(get(1, size), Got::miss);
}

TEST_F(NvmeDamageTest, FilesTakenAwayAreMissesAndTheirRecordsGo) {
    open();
    put(1, 5000);
    put(2, 2 * kMiB);
    tier_->close();
    for (const char* extension : {".extent", ".data", ".sums"}) fs::remove(files_with(extension).at(0));
    open();
    EXPECT_EQ(get(1, 5000), Got::miss);
    EXPECT_EQ(get(2, 2 * kMiB), Got::miss);
    tier_->flush();
    EXPECT_EQ(index_.size(), 0U);
}

TEST_F(NvmeDamageTest, AFileBegunAnewIsNotComplete) {
    open();
    put(1, 2 * kMiB);
    tier_->close();
    for (const char* extension : {".data", ".sums"}) fs::remove(files_with(extension).at(0));
    open();
    put_piece(1, 2 * kMiB, 0, kBlockSize);
    tier_->flush();
    EXPECT_TRUE(tier_->contains(object_id(1), 2 * kMiB, 0));
    EXPECT_FALSE(tier_->contains(object_id(1), 2 * kMiB, 1));
    put(1, 2 * kMiB);
    tier_->flush();
    EXPECT_TRUE(Location::decode(record(1))->complete);
    EXPECT_EQ(get(1, 2 * kMiB), Got::right);
}

#if TIERFS_TEST_POINTS
TEST_F(NvmeDamageTest, WhatCannotBeLookedAtAtTheStartIsLeftAlone) {
    open();
    put(1, 2 * kMiB);
    put(2, 5000);
    tier_->close();
    ASSERT_EQ(fault::configure("nvme.scan.stat:1+:error=EIO", ""), "");
    open();
    fault::configure("", "");
    EXPECT_EQ(files_with(".data").size(), 1U);
    EXPECT_EQ(files_with(".sums").size(), 1U);
    put(3, 5000);  // into an extent of another number than the one that stays
    tier_->close();
    std::set<std::uint64_t> numbers;
    for (const auto& path : files_with(".extent"))
        numbers.insert(parse_extent_file_name(path.filename().native())->number);
    EXPECT_EQ(numbers.size(), files_with(".extent").size());
    EXPECT_EQ(numbers.size(), 2U);
    open();
    EXPECT_NE(get(1, 2 * kMiB), Got::wrong);
    EXPECT_EQ(get(3, 5000), Got::right);
}
#endif

TEST_F(NvmeDamageTest, HalvesOfBackingFilesGo) {
    open();
    put(1, 2 * kMiB);
    put(2, 2 * kMiB);
    tier_->close();
    fs::remove(files_with(".data").at(0));
    fs::remove(files_with(".sums").at(1));
    open();
    EXPECT_EQ(get(1, 2 * kMiB), Got::miss);
    EXPECT_EQ(get(2, 2 * kMiB), Got::miss);
    EXPECT_TRUE(files_with(".data").empty());
    EXPECT_TRUE(files_with(".sums").empty());
    EXPECT_EQ(tier_->stats().used_bytes, 0U);
}

TEST_F(NvmeDamageTest, GarbageInTheFolders) {
    open();
    put(1, 5000);
    put(2, 2 * kMiB);
    tier_->close();
    const fs::path extents = directory_ / "extents";
    const fs::path files = directory_ / "files";
    store(extents / "notes.txt", "mine");
    store(extents / extent_file_name(900, {1, 2}), std::string(100000, 'x'));
    store(extents / extent_file_name(901, {1, 2}), "");
    fs::create_directory(extents / extent_file_name(902, {1, 2}));
    fs::create_symlink("/etc/passwd", extents / extent_file_name(903, {1, 2}));
    store(files / "stray", "mine");
    fs::create_symlink("/nowhere", files / "ab");
    store(files / "cd", "mine");
    fs::create_directories(files / "zz" / "deeper");
    fs::create_directories(files / "00");
    store(files / "00" / (std::string(32, '0') + ".data"), std::string(5000, 'y'));
    store(files / "00" / (std::string(32, '0') + ".sums"), std::string(9000, 'z'));
    store(files / "00" / "short.data", "mine");
    open();
    EXPECT_EQ(get(1, 5000), Got::right);
    EXPECT_EQ(get(2, 2 * kMiB), Got::right);
    // The pair with a name of ours and a sidecar that is none goes; what is not ours stays.
    EXPECT_TRUE(eventually([&] { return !fs::exists(files / "00" / (std::string(32, '0') + ".data")); }));
    EXPECT_EQ(load(extents / "notes.txt"), "mine");
    EXPECT_EQ(load(files / "00" / "short.data"), "mine");
    for (std::uint64_t at = 10; at < 200; ++at) put(at, 300000);
    tier_->flush();
    EXPECT_EQ(get(199, 300000), Got::right);
}

TEST_F(NvmeDamageTest, BlocksInTheWrongPlaceAreNoticed) {
    const std::uint64_t size = 2 * kMiB;
    open();
    put(1, size);
    put(2, size);
    tier_->close();
    const auto data = files_with(".data");
    const auto sums = files_with(".sums");
    // Of one object, two blocks changed places, checksums and all.
    std::string bytes = load(data[0]);
    std::string marks = load(sums[0]);
    std::swap_ranges(bytes.begin(), bytes.begin() + kBlockSize, bytes.begin() + kBlockSize);
    std::swap_ranges(marks.begin() + 4096, marks.begin() + 4096 + 64, marks.begin() + 4096 + 64);
    store(data[0], bytes);
    store(sums[0], marks);
    // The other one's bytes and checksums under this one's name (of equal size) are no better.
    const std::string header = marks.substr(0, 4096);
    open();
    EXPECT_EQ(get(1, size) == Got::miss || get(2, size) == Got::miss, true);
    EXPECT_NE(get(1, size), Got::wrong);
    EXPECT_NE(get(2, size), Got::wrong);
    tier_->close();
    store(data[0], load(data[1]));
    store(sums[0], header + load(sums[1]).substr(4096));
    open();
    EXPECT_NE(get(1, size), Got::wrong);
    EXPECT_NE(get(2, size), Got::wrong);
    EXPECT_GT(tier_->checksum_errors(), 0U);
}

TEST_F(NvmeDamageTest, RecordsThatLie) {
    open();
    for (std::uint64_t at = 0; at < 8; ++at) put(at, 10000);
    put(100, 2 * kMiB);
    tier_->flush();
    const std::string honest = record(1);
    index_.put(object_id(0), honest);  // another object's place
    EXPECT_EQ(get(0, 10000), Got::miss);
    index_.put(object_id(2), record(100));
    EXPECT_EQ(get(2, 10000), Got::miss);
    index_.put(object_id(3), "");
    EXPECT_EQ(get(3, 10000), Got::miss);
    std::mt19937 random(3);
    for (int round = 0; round < 3000; ++round) {
        std::string text = honest;
        for (int change = 0; change < 3; ++change) text[random() % text.size()] = static_cast<char>(random());
        if (round % 10 == 0) text.resize(random() % (text.size() + 20));
        index_.put(object_id(4), text);
        EXPECT_NE(get(4, 10000), Got::wrong);
        (void)tier_->contains(object_id(4), 10000, 0);
    }
}

TEST_F(NvmeDamageTest, ALostIndexAndADamagedChunk) {
    options_.limit = 64 << 20;
    open();
    for (std::uint64_t at = 0; at < 30; ++at) {
        put(at, 20000);
        tier_->flush();
    }
    tier_->abandon();
    flip(files_with(".extent").at(0), 10 * (4096 + 20480) + 70);  // the table of the eleventh chunk
    index_.lose_everything();
    open();
    EXPECT_TRUE(eventually([&] { return index_.size() == 29; }));
    for (std::uint64_t at = 0; at < 30; ++at) EXPECT_EQ(get(at, 20000), at == 10 ? Got::miss : Got::right);
}

}  // namespace nvme_damage_test
}  // namespace tierfs::testing
