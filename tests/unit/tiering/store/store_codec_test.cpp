// Codecs as the store sees them: which object is to be compressed how, and that what is compressed is read
// once.
#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/policy/datasets.hpp"

namespace tierfs {
namespace store_codec_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;

DatasetRule rule(const std::string& match, const std::string& codec = "") {
    DatasetRule made;
    EXPECT_FALSE(made.set("match", match));
    if (!codec.empty()) {
        EXPECT_FALSE(made.set("codec", codec));
    }
    return made;
}

TEST(StoreCodec, EachObjectIsAdmittedWithTheCodecOfItsRule) {
    Scene scene;
    scene.nvme = true;
    scene.datasets = {rule("/a/**", "zstd"), rule("/b/**", "lz4"), rule("/c/**", "none"), rule("/d/**")};
    Harness h(scene);
    const std::map<std::string, Codec> expected{{"a/x", Codec::zstd},
                                                {"b/x", Codec::lz4},
                                                {"c/x", Codec::none},
                                                {"d/x", Codec::none},
                                                {"e/x", Codec::none}};
    for (const auto& [path, codec] : expected) {
        const auto object = fake::object(path, 50'000);
        h.check(object, 0, 50'000);
        ASSERT_TRUE(h.nvme.codecs.count(object->content)) << path;
        EXPECT_EQ(h.nvme.codecs[object->content], codec) << path;
    }
    const auto datasets = h.store->stats().datasets;
    ASSERT_EQ(datasets.size(), 5U);
    EXPECT_EQ(datasets[0].codec, "zstd");
    EXPECT_EQ(datasets[1].codec, "lz4");
    EXPECT_EQ(datasets[4].codec, "none");
}

TEST(StoreCodec, TheSettingIsForWhatNoRuleNamesOneFor) {
    Settings settings;
    settings.nvme_codec = Codec::lz4;
    settings.datasets = {rule("/a/**", "none"), rule("/d/**")};
    Pins pins;
    Datasets datasets(settings, &pins);
    EXPECT_EQ(datasets.codec_of(*fake::object("a/x", 100)), Codec::none);
    EXPECT_EQ(datasets.codec_of(*fake::object("d/x", 100)), Codec::lz4);
    EXPECT_EQ(datasets.codec_of(*fake::object("x", 100)), Codec::lz4);
    ASSERT_TRUE(pins.add("a/x", {1, 1}, kMiB));
    const auto pinned = fake::object("a/x", 100);
    EXPECT_TRUE(datasets.is_pinned_by_path(datasets.of(*pinned)));
    EXPECT_EQ(datasets.codec_of(*pinned), Codec::none) << "its rule's, not that of the dataset of pins";
}

TEST(StoreCodec, WhatIsCompressedIsReadWholeOnce) {
    for (const std::uint64_t ram : {std::uint64_t{0}, 16 * kMiB}) {
        for (const bool compressed : {false, true}) {
            Scene scene;
            scene.nvme = true;
            scene.ram = ram;
            Harness h(scene);
            h.nvme.compressed = compressed;
            const auto object = fake::object("f", 600'000);
            h.nvme.put(*object, 0, block_count(object->size));
            std::uint64_t at = 0;
            for (; at + 128 * 1024 < object->size; at += 128 * 1024) h.check(object, at, 128 * 1024);
            EXPECT_EQ(h.nvme.reads(), compressed ? 1U : 4U) << ram;
            h.check(object, at, 128 * 1024);
            EXPECT_EQ(h.nvme.read_bytes(), object->size) << ram;
            EXPECT_EQ(h.store->stats().nvme_bytes, object->size) << ram;
            EXPECT_TRUE(h.origin.seen().empty());
        }
    }
}

TEST(StoreCodec, DamageOfWhatIsCompressedIsFetched) {
    Scene scene;
    scene.nvme = true;
    scene.ram = 0;
    Harness h(scene);
    h.nvme.compressed = true;
    h.nvme.lie = true;
    const auto object = fake::object("f", 600'000);
    h.nvme.put(*object, 0, block_count(object->size));
    h.check(object, 70'000, 1000);
    EXPECT_EQ(h.store->stats().nvme_bytes, 0U);
    EXPECT_EQ(h.store->stats().origin_bytes, 1000U);
}

TEST(StoreCodec, DecompressingUsesDataMemory) {
    Scene scene;
    scene.nvme = true;
    Harness h(scene);
    ASSERT_TRUE(h.nvme.memory);
    const auto before = h.store->stats().data_memory_bytes;
    const auto piece = h.nvme.memory(100'000);
    ASSERT_TRUE(piece);
    EXPECT_GE(h.store->stats().data_memory_bytes, before + 100'000);
    EXPECT_FALSE(h.nvme.memory(100 * kMiB)) << "more than there is";
}

}  // namespace store_codec_test
}  // namespace tierfs
