// A tier on several devices: where objects go, and what is found again when folders move, go and come back.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"
#include "tiering/nvme/device_id.hpp"
#include "tiering/nvme/device_limits.hpp"

namespace tierfs::testing {
namespace nvme_devices_test {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kLarge = 3 * kMiB;

class NvmeDevicesTest : public NvmeTest {
  protected:
    void SetUp() override {
        NvmeTest::SetUp();
        for (const char* name : {"a", "b", "c"}) std::filesystem::create_directory(directory_ / name);
        options_.limit = 96 * kMiB;
        use({"a", "b"});
    }
    void use(const std::vector<std::string>& names) {
        options_.devices.clear();
        for (const std::string& name : names) options_.devices.push_back(NvmePlace::at(directory_ / name));
    }
    DeviceStats device(std::size_t at) const { return tier_->stats().devices.at(at); }
    std::uint64_t used(std::size_t at) const { return device(at).used_bytes; }
    /// 100 small objects and 6 large ones.
    void put_all() {
        for (std::uint64_t at = 0; at < 100; ++at) put(at, 50'000);
        for (std::uint64_t at = 100; at < 106; ++at) {
            for (std::uint64_t from = 0; from < kLarge; from += kMiB) put_piece(at, kLarge, from, kMiB);
        }
        tier_->flush();
    }
    unsigned found() {
        unsigned hits = 0;
        for (std::uint64_t at = 0; at < 106; ++at) {
            const Got got = get(at, at < 100 ? 50'000 : kLarge);
            EXPECT_NE(got, Got::wrong);
            hits += got == Got::right ? 1 : 0;
        }
        return hits;
    }
};

TEST_F(NvmeDevicesTest, ObjectsAreSpread) {
    open();
    put_all();
    EXPECT_EQ(found(), 106U);
    EXPECT_GT(used(0), 6 * kMiB);
    EXPECT_GT(used(1), 6 * kMiB);
    EXPECT_EQ(device(0).limit_bytes + device(1).limit_bytes, options_.limit);
    EXPECT_EQ(tier_->stats().used_bytes, used(0) + used(1));
    EXPECT_EQ(files_with(".data").size(), 6U) << "a large object lies on one device";
}

TEST_F(NvmeDevicesTest, FoldersMayBeGivenInAnotherOrder) {
    open();
    put_all();
    use({"b", "a"});
    open();
    EXPECT_EQ(found(), 106U);
}

TEST_F(NvmeDevicesTest, ADeviceThatIsMissingCostsOnlyWhatItHeld) {
    open();
    put_all();
    const auto id = read_device_id(directory_ / "b");
    std::filesystem::rename(directory_ / "b", directory_ / "gone");
    open();
    EXPECT_EQ(device(1).state, "down");
    EXPECT_NE(device(1).reason, "");
    EXPECT_EQ(tier_->stats().state, "unstable");
    const unsigned left = found();
    EXPECT_GT(left, 20U);
    EXPECT_LT(left, 90U);
    put_all();  // what is missing is fetched again
    EXPECT_EQ(found(), 106U);

    std::filesystem::rename(directory_ / "gone", directory_ / "b");
    open();
    EXPECT_EQ(tier_->stats().state, "normal");
    EXPECT_EQ(read_device_id(directory_ / "b"), id);
    tier_->flush();
    EXPECT_EQ(found(), 106U);
    use({"b"});  // and some of it is still there, too, or known to be elsewhere
    open();
    (void)found();
}

TEST_F(NvmeDevicesTest, ANewDeviceIsTakenUp) {
    use({"a"});
    open();
    put_all();
    use({"c", "a"});
    open();
    EXPECT_EQ(found(), 106U);
    for (std::uint64_t at = 200; at < 300; ++at) put(at, 50'000);
    tier_->flush();
    EXPECT_GT(used(0), kMiB);
    EXPECT_EQ(found(), 106U);
}

TEST_F(NvmeDevicesTest, AFaultOfOneIsNoFaultOfTheOther) {
    std::atomic<bool> broken{false};
    hooks_.fault_on = [&](const std::filesystem::path& folder, DiskOperation) {
        return broken && folder.filename() == "b" ? EIO : 0;
    };
    open();
    put_all();
    broken = true;
    for (unsigned round = 0; round < 20; ++round) (void)found();
    EXPECT_EQ(device(0).state, "normal");
    EXPECT_NE(device(1).state, "normal");
    const auto before = used(0);
    for (std::uint64_t at = 200; at < 300; ++at) put(at, 50'000);
    tier_->flush();
    EXPECT_GT(used(0), before + 4 * kMiB) << "what comes goes to the one that works";
    for (std::uint64_t at = 200; at < 300; ++at) EXPECT_EQ(get(at, 50'000), Got::right);
}

TEST_F(NvmeDevicesTest, AllThatCannotBeOpenedIsAnError) {
    use({"absent", "missing"});
    const auto opened = open_nvme_tier(options_, index_, hooks_);
    ASSERT_FALSE(opened.has_value());
    EXPECT_NE(opened.error().message.find("absent"), std::string::npos);
}

TEST_F(NvmeDevicesTest, ACopiedFolderGetsAnIdOfItsOwn) {
    open();
    put_all();
    tier_->close();
    std::filesystem::copy(
        directory_ / "a", directory_ / "c",
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    use({"a", "b", "c"});
    open();
    EXPECT_NE(read_device_id(directory_ / "a"), read_device_id(directory_ / "c"));
    EXPECT_EQ(found(), 106U);
}

TEST_F(NvmeDevicesTest, RecordsOfTheFirstVersionAreRead) {
    use({"a"});
    open();
    put_all();
    tier_->close();
    std::size_t rewritten = 0;
    (void)index_.for_each_location([&](const ContentId& id, std::string_view text) {
        std::string old(text);
        old[0] = 1;
        old.erase(40, 8);
        index_.put(id, old);
        ++rewritten;
        return true;
    });
    ASSERT_EQ(rewritten, 106U);
    std::filesystem::remove(directory_ / "a" / "device");
    use({"b", "a"});
    open();
    EXPECT_EQ(found(), 106U);
    put_all();
    EXPECT_EQ(found(), 106U);
}

TEST(NvmeDeviceId, IsKeptAndReplacedWhenItSaysNothing) {
    std::string name = (std::filesystem::temp_directory_path() / "tierfs-id-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    const std::filesystem::path folder = name;
    const auto none = [](std::uint64_t) { return false; };
    const auto first = device_id_of(folder, none);
    ASSERT_TRUE(first);
    EXPECT_NE(*first, 0U);
    EXPECT_EQ(device_id_of(folder, none).value(), *first);
    EXPECT_EQ(read_device_id(folder), *first);
    const auto other = device_id_of(folder, [&](std::uint64_t id) { return id == *first; });
    ASSERT_TRUE(other);
    EXPECT_NE(*other, *first);
    for (const char* text :
         {"", "0000000000000000\n", "00000000000000g1\n", "0123456789abcdef", "0123456789abcdef\n\n"}) {
        std::ofstream(folder / "device") << text;
        EXPECT_EQ(read_device_id(folder), 0U) << text;
        EXPECT_TRUE(device_id_of(folder, none)) << text;
        EXPECT_NE(read_device_id(folder), 0U) << text;
    }
    EXPECT_FALSE(device_id_of(folder / "absent", none));
    std::filesystem::remove_all(folder);
}

TEST(NvmeLimits, AreDividedByWhatEachCanGive) {
    const auto parts = divide_limit(1000 * kMiB, {300 * kMiB, 100 * kMiB});
    ASSERT_TRUE(parts);
    EXPECT_EQ((*parts)[0] + (*parts)[1], 1000 * kMiB);
    EXPECT_NEAR(static_cast<double>((*parts)[0]), 742.0 * kMiB, 1.0 * kMiB);
    EXPECT_EQ(divide_limit(77 * kMiB, {5}).value(), std::vector<std::uint64_t>{77 * kMiB});
    EXPECT_EQ(divide_limit(0, {100 * kMiB, 200 * kMiB}).value(),
              (std::vector<std::uint64_t>{80 * kMiB, 160 * kMiB}));
    EXPECT_EQ(divide_limit(40 * kMiB, {0, 0}).value(), (std::vector<std::uint64_t>{20 * kMiB, 20 * kMiB}));
    EXPECT_FALSE(divide_limit(31 * kMiB, {kMiB, kMiB}));
    EXPECT_EQ(divide_limit(0, {kMiB}).value(), std::vector<std::uint64_t>{kLeastDeviceLimit})
        << "a full device may become free";
}

TEST(NvmeLimits, CapacityIsWhatIsFreeAndWhatIsHeld) {
    std::string name = (std::filesystem::temp_directory_path() / "tierfs-capacity-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    const auto capacity = capacity_of(name);
    ASSERT_TRUE(capacity);
    EXPECT_GT(*capacity, std::filesystem::space(name).available / 2);
    EXPECT_FALSE(capacity_of(name + "/absent"));
    std::filesystem::remove(name);
}

}  // namespace nvme_devices_test
}  // namespace tierfs::testing
