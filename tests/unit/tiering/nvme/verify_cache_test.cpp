#include "tiering/nvme/verify_cache.hpp"

#include <fstream>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs {
namespace verify_cache_test {

using testing::Got;

constexpr std::uint64_t kSmall = 20'000;
constexpr std::uint64_t kLarge = 3 << 20;

class VerifyCacheTest : public testing::NvmeTest {
  protected:
    /// Some extents and a backing file; closed.
    void make() {
        open();
        for (std::uint64_t number = 0; number < 100; ++number) put(number, kSmall);
        put(1000, kLarge);
        tier_->flush();
        tier_.reset();
    }
    CacheReport verify(bool repair = false) {
        VerifyOptions options;
        options.repair = repair;
        const auto report = verify_cache(directory_, options);
        EXPECT_TRUE(report) << report.error().message;
        return report.value_or(CacheReport{});
    }
    static void flip(const std::filesystem::path& path, std::uint64_t at) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(at));
        const char byte = static_cast<char>(file.get() ^ 1);
        file.seekp(static_cast<std::streamoff>(at));
        file.put(byte);
        ASSERT_TRUE(file.good());
    }
};

TEST_F(VerifyCacheTest, AGoodCacheIsGood) {
    make();
    const auto report = verify();
    EXPECT_EQ(report.bad_files, 0U);
    EXPECT_GE(report.extents, 2U);
    EXPECT_EQ(report.backing_files, 1U);
    EXPECT_EQ(report.bytes, 100 * kSmall + kLarge);
    EXPECT_EQ(report.objects, 100 + kLarge / kBlockSize);
    EXPECT_EQ(find_caches(directory_)->size(), 1U);
}

TEST_F(VerifyCacheTest, EveryDamagedByteIsFoundAndDropped) {
    make();
    const auto extents = files_with(".extent");
    flip(extents[0], 8 * 4096 + 17);  // data
    flip(extents[1], 40);             // a table
    flip(files_with(".data")[0], kLarge - 1);
    const auto found = verify();
    EXPECT_EQ(found.bad_files, 3U);
    EXPECT_EQ(found.dropped_files, 0U);
    ASSERT_EQ(found.bad.size(), 3U);
    EXPECT_EQ(found.bad[0].file, extents[0]);
    EXPECT_NE(found.bad[0].what.find("objects differ"), std::string::npos) << found.bad[0].what;
    EXPECT_NE(found.bad[1].what.find("chunks are damaged"), std::string::npos) << found.bad[1].what;
    EXPECT_NE(found.bad[2].what.find("1 blocks differ"), std::string::npos) << found.bad[2].what;

    const auto repaired = verify(true);
    EXPECT_EQ(repaired.dropped_files, 3U);
    EXPECT_EQ(verify().bad_files, 0U);
    open();  // with the index that still knows what is gone
    for (std::uint64_t number = 0; number < 100; ++number) EXPECT_NE(get(number, kSmall), Got::wrong);
    EXPECT_EQ(get(1000, kLarge, 0, kBlockSize), Got::miss);
    put(1000, kLarge);
    tier_->flush();
    EXPECT_EQ(get(1000, kLarge), Got::right);
    EXPECT_EQ(tier_->stats().state, "normal");
}

TEST_F(VerifyCacheTest, ADamagedSidecarAndHalfAPair) {
    make();
    flip(files_with(".sums")[0], 3);
    EXPECT_EQ(verify().bad_files, 1U);
    std::filesystem::remove(files_with(".data")[0]);
    EXPECT_EQ(verify(true).dropped_files, 1U);
    EXPECT_TRUE(files_with(".sums").empty());
}

TEST_F(VerifyCacheTest, ACacheInUseIsLeftAlone) {
    open();
    const auto report = verify_cache(directory_, {});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, EBUSY);
    EXPECT_NE(report.error().message.find("unmount it first"), std::string::npos);
    EXPECT_FALSE(find_caches(directory_ / "extents"));
}

}  // namespace verify_cache_test
}  // namespace tierfs
