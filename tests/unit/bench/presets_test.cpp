#include "bench/iobench/data/presets.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/data/manifest.hpp"

namespace tierfs::iobench {
namespace presets_test {

TEST(Presets, HaveTheNumbersOfTheirSource) {
    std::set<std::string_view> names;
    for (const Preset& preset : presets()) {
        names.insert(preset.name);
        EXPECT_TRUE(check_size(preset.kind, preset.size)) << preset.name;
        EXPECT_EQ(find_preset(preset.name), &preset);
    }
    EXPECT_EQ(names, (std::set<std::string_view>{"cosmoflow", "resnet50", "retinanet", "unet3d"}));
    EXPECT_EQ(find_preset("dlrm"), nullptr);
    // what one accelerator asks of the storage, MB/s: batch * size / compute
    const auto demand = [](std::string_view name, Accelerator accelerator) {
        const Preset& preset = *find_preset(name);
        return static_cast<double>(preset.batch * preset.size) / 1e3 /
               compute_time(preset, accelerator)->milliseconds;
    };
    EXPECT_NEAR(demand("unet3d", Accelerator::h100), 3177, 1);
    EXPECT_NEAR(demand("unet3d", Accelerator::b200), 6335, 1);
    EXPECT_NEAR(demand("resnet50", Accelerator::h100), 204.7, 0.1);
    EXPECT_NEAR(demand("cosmoflow", Accelerator::h100), 808.1, 0.1);
    EXPECT_NEAR(demand("retinanet", Accelerator::b200), 163.0, 0.1);
}

TEST(Presets, TakeTheH100OrTheOneThatIsKnown) {
    EXPECT_EQ(compute_time(*find_preset("unet3d"), {})->accelerator, Accelerator::h100);
    EXPECT_EQ(compute_time(*find_preset("retinanet"), {})->accelerator, Accelerator::b200);
    const auto none = compute_time(*find_preset("cosmoflow"), Accelerator::b200);
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message.find("known: a100, h100"), std::string::npos);
}

TEST(Presets, ScaleToAnySize) {
    EXPECT_EQ(scaled(*find_preset("unet3d"), 1).files, 168U);
    EXPECT_EQ(scaled(*find_preset("unet3d"), 1e-9).files, 1U);
    const auto part = scaled(*find_preset("resnet50"), 0.01);  // 12810 samples
    EXPECT_EQ(part.files, 11U);
    EXPECT_EQ(part.records, 1165U);
    const auto one = scaled(*find_preset("resnet50"), 0.0001);
    EXPECT_EQ(one.files, 1U);
    EXPECT_EQ(one.records, 128U);
    EXPECT_EQ(scaled(*find_preset("resnet50"), 1).records, 1251U);
}

TEST(SampleSizes, AreNearlyNormalAndCutOff) {
    DatasetPlan plan;
    plan.kind = Kind::npz;
    plan.size = find_preset("unet3d")->size;
    plan.size_stdev = find_preset("unet3d")->size_stdev;
    constexpr int kSamples = 20000;
    double sum = 0, squares = 0;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
        const auto size = static_cast<double>(sample_size(plan, i));
        EXPECT_GE(size, static_cast<double>(plan.size) / 16 - 1);
        EXPECT_LE(size, static_cast<double>(plan.size + 4 * plan.size_stdev));
        sum += size;
        squares += size * size;
    }
    const double mean = sum / kSamples, deviation = std::sqrt(squares / kSamples - mean * mean);
    EXPECT_NEAR(mean / static_cast<double>(plan.size), 1, 0.02);
    EXPECT_NEAR(deviation / static_cast<double>(plan.size_stdev), 1, 0.03);
    EXPECT_EQ(sample_size(plan, 7), sample_size(plan, 7));
    EXPECT_NE(sample_size(plan, 7), sample_size(plan, 8));
    plan.seed = 2;
    const auto other = sample_size(plan, 7);
    plan.seed = 1;
    EXPECT_NE(sample_size(plan, 7), other);
    plan.size_stdev = 0;
    EXPECT_EQ(sample_size(plan, 7), plan.size);
}

// The same on every machine: a changed number would make every dataset anew.
TEST(SampleSizes, BelongToTheirSeed) {
    DatasetPlan plan;
    plan.kind = Kind::random;
    plan.size = 1'000'000;
    plan.size_stdev = 100'000;
    EXPECT_EQ(sample_size(plan, 0), 886188U);
    EXPECT_EQ(sample_size(plan, 1), 941974U);
}

std::uint32_t crc32c_bitwise(const std::byte* bytes, std::size_t size) {
    std::uint32_t crc = ~0U;
    for (std::size_t i = 0; i < size; ++i) {
        crc ^= static_cast<std::uint32_t>(bytes[i]);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
    }
    return ~crc;
}

std::uint32_t masked(std::uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

TEST(TfRecord, IsFramedWithLengthAndChecksums) {
    const char* check = "123456789";  // the check value that catalogues of CRCs give
    const void* text = check;
    ASSERT_EQ(crc32c_bitwise(static_cast<const std::byte*>(text), 9), 0xe3069283U);
    const auto record = make_tfrecord(3, 1000);
    ASSERT_TRUE(record);
    ASSERT_EQ(record->size(), 1000U);
    std::uint64_t length = 0;
    std::uint32_t head = 0, tail = 0;
    std::memcpy(&length, record->data(), 8);
    std::memcpy(&head, record->data() + 8, 4);
    std::memcpy(&tail, record->data() + 996, 4);
    EXPECT_EQ(length, 984U);
    EXPECT_EQ(head, masked(crc32c_bitwise(record->data(), 8)));
    EXPECT_EQ(tail, masked(crc32c_bitwise(record->data() + 12, 984)));
    EXPECT_TRUE(make_tfrecord(3, 16));
    EXPECT_FALSE(make_tfrecord(3, 15));
}

}  // namespace presets_test
}  // namespace tierfs::iobench
