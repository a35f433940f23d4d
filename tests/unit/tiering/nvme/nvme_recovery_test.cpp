// A device that fails, is closed, and is opened again when probes succeed.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"
#include "tiering/nvme/device_id.hpp"

namespace tierfs::testing {
namespace nvme_recovery_test {

class NvmeRecovery : public NvmeTest {
  protected:
    void SetUp() override {
        NvmeTest::SetUp();
        std::filesystem::create_directory(directory_ / "device");
        options_.devices = {NvmePlace::at(directory_ / "device"), NvmePlace::at(directory_ / "other")};
        std::filesystem::create_directory(directory_ / "other");
        options_.limit = 64 << 20;
        hooks_.probe_interval = std::chrono::milliseconds(5);
        hooks_.fault_on = [this](const std::filesystem::path& folder, DiskOperation) {
            return folder.filename() == "device" ? fault_.load() : 0;
        };
    }
    std::string state() { return tier_->stats().devices.at(0).state; }
    /// Takes the device away, as a dead disk is.
    void break_down() {
        fault_ = EIO;
        std::filesystem::rename(directory_ / "device", directory_ / "away");
        EXPECT_TRUE(eventually([&] {
            for (std::uint64_t at = 0; at < 40; ++at) (void)get(at, 50'000);
            return state() == "down";
        }));
    }
    void bring_back() {
        fault_ = 0;
        std::filesystem::rename(directory_ / "away", directory_ / "device");
    }
    std::atomic<int> fault_{0};
};

TEST_F(NvmeRecovery, ADeviceThatIsBackServesWhatItHeld) {
    open();
    for (std::uint64_t at = 0; at < 40; ++at) put(at, 50'000);
    tier_->flush();
    const auto hits = tier_->stats().hits;
    break_down();
    EXPECT_NE(tier_->stats().devices.at(0).reason, "");
    EXPECT_EQ(tier_->stats().devices.at(1).state, "normal");
    EXPECT_GE(tier_->stats().hits, hits) << "what was counted stays counted";
    bring_back();
    EXPECT_TRUE(eventually([&] { return state() == "normal"; }));
    unsigned found = 0;
    for (std::uint64_t at = 0; at < 40; ++at) found += get(at, 50'000) == Got::right ? 1U : 0U;
    EXPECT_GE(found, 39U) << "one may have been read badly twice, and dropped";
    put(100, 50'000);
    tier_->flush();
    EXPECT_EQ(get(100, 50'000), Got::right);
}

TEST_F(NvmeRecovery, AnotherDeviceInItsPlaceIsNotTaken) {
    open();
    for (std::uint64_t at = 0; at < 40; ++at) put(at, 50'000);
    tier_->flush();
    break_down();
    fault_ = 0;
    std::filesystem::create_directory(directory_ / "device");  // what lies under a mount point
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(state(), "down");
    EXPECT_TRUE(std::filesystem::is_empty(directory_ / "device"));
    std::filesystem::remove(directory_ / "device");
    bring_back();
    EXPECT_TRUE(eventually([&] { return state() == "normal"; }));
}

TEST_F(NvmeRecovery, FailedWritesAloneAreProbedInPlace) {
    open();
    put(0, 50'000);
    put(1, 50'000);
    tier_->flush();
    fault_ = EIO;
    for (std::uint64_t at = 10; at < 200; ++at) put(at, 50'000);
    tier_->flush();
    fault_ = 0;
    // Either it was down and probes succeeded, or unstable and its pause is still on.
    EXPECT_TRUE(eventually([&] { return state() == "normal"; }));
    EXPECT_NE(get(0, 50'000), Got::wrong);
}

TEST_F(NvmeRecovery, EndsWhileItIsDown) {
    open();
    for (std::uint64_t at = 0; at < 40; ++at) put(at, 50'000);
    tier_->flush();
    break_down();
    tier_->flush();
    tier_->close();
    tier_.reset();
}

}  // namespace nvme_recovery_test
}  // namespace tierfs::testing
