// Compressed objects of the NVMe tier: the same bytes, in less space, whatever happens to the device.
#include <fstream>

#include "backends/extent/scan.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"
#include "tiering/nvme/object_compressor.hpp"
#include "tiering/nvme/verify_cache.hpp"

namespace tierfs::testing {
namespace nvme_codec_test {

/// Lines that differ from object to object and compress well.
std::vector<std::byte> text_of(const ContentId& id, std::size_t size) {
    std::string text;
    for (std::uint64_t line = 0; text.size() < size; ++line)
        text +=
            "line " + std::to_string(line) + " of " + std::to_string(id.low % 1000) + ", quite as before\n";
    text.resize(size);
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

class NvmeCodecTest : public NvmeTest, public ::testing::WithParamInterface<Codec> {
  protected:
    void put_text(std::uint64_t number, std::uint64_t size, Codec codec, DatasetNumber dataset = 0) {
        const ContentId id = object_id(number);
        const auto text = text_of(id, size);
        // In two pieces, as a read of several buffers comes.
        std::vector<BufferPtr> pieces;
        const std::size_t half = size > kBlockSize ? kBlockSize : size;
        for (const auto& [from, length] : {std::pair{std::size_t{0}, half}, {half, size - half}}) {
            if (length == 0) continue;
            pieces.push_back(std::make_shared<HeapBuffer>(length));
            std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(from), length,
                        pieces.back()->writable().begin());
        }
        tier_->admit(id, size, 0, std::move(pieces), dataset, codec);
    }
    Got get_text(std::uint64_t number, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
        const ContentId id = object_id(number);
        AlignedBuffer out(length);
        if (!tier_->read(id, size, offset, out.span().first(length))) return Got::miss;
        const auto want = text_of(id, size);
        return std::equal(out.data(), out.data() + length, want.begin() + static_cast<std::ptrdiff_t>(offset))
                   ? Got::right
                   : Got::wrong;
    }
    Got get_text(std::uint64_t number, std::uint64_t size) { return get_text(number, size, 0, size); }

    struct Stored {
        ChunkEntry entry;
        std::filesystem::path file;
        std::uint64_t at = 0;  ///< in the file
    };
    std::vector<Stored> stored() const {
        std::vector<Stored> all;
        for (const auto& path : files_with(".extent")) {
            const auto name = parse_extent_file_name(path.filename().native());
            const auto file = DiskFile::open(path, {});
            EXPECT_TRUE(name && file);
            EXPECT_TRUE(scan_extent(*file, name->uuid, [&](const ChunkTable& table) {
                for (const auto& entry : table.entries)
                    all.push_back({entry, path, table.data_offset() + entry.offset});
                return true;
            }));
        }
        return all;
    }
    static void damage(const Stored& victim, std::uint64_t at) {
        std::fstream file(victim.file, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(victim.at + at));
        const auto byte = static_cast<char>(file.get() ^ 0x40);
        file.seekp(static_cast<std::streamoff>(victim.at + at));
        file.put(byte);
    }
};
INSTANTIATE_TEST_SUITE_P(Each, NvmeCodecTest, ::testing::Values(Codec::lz4, Codec::zstd),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

constexpr std::array<std::uint64_t, 7> kSizes{50, 3000, 4096, 9000, 65536, 200001, 1000000};

TEST_P(NvmeCodecTest, IsReadWholeAndInParts) {
    open();
    for (const auto size : kSizes) put_text(size, size, GetParam());
    tier_->flush();
    for (const auto size : kSizes) {
        EXPECT_TRUE(tier_->contains(object_id(size), size, 0));
        EXPECT_EQ(tier_->is_compressed(object_id(size), size), size > 50) << size;
        EXPECT_EQ(get_text(size, size), Got::right) << size;
        for (std::uint64_t offset = 0; offset < size; offset += 2 * kBlockSize)
            EXPECT_EQ(get_text(size, size, offset, std::min<std::uint64_t>(2 * kBlockSize, size - offset)),
                      Got::right)
                << size;
        EXPECT_EQ(get_text(size, size, 0, std::min<std::uint64_t>(4096, size)), Got::right) << size;
    }
    for (const auto& each : stored()) {
        if (each.entry.object_size == 50) continue;
        EXPECT_EQ(each.entry.codec, static_cast<std::uint8_t>(GetParam())) << each.entry.object_size;
        EXPECT_LT(each.entry.stored_length * 2, each.entry.object_size);
    }
    EXPECT_GT(tier_->stats().codec_saved_bytes, std::uint64_t{600} << 10);
    EXPECT_LT(tier_->stats().admitted_bytes, std::uint64_t{600} << 10);
}

TEST_P(NvmeCodecTest, WhatDoesNotSaveTwelvePercentIsStoredAsItIs) {
    open();
    for (std::uint64_t number = 0; number < 40; ++number) {
        const ContentId id = object_id(number);
        tier_->admit(id, 20000, 0, make_piece(id, 0, 20000), 0, GetParam());  // noise
    }
    put_text(100, 4100, Codec::none);
    tier_->flush();
    EXPECT_EQ(stored().size(), 41U);
    for (const auto& each : stored()) EXPECT_EQ(each.entry.codec, 0);
    for (std::uint64_t number = 0; number < 40; ++number) EXPECT_EQ(get(number, 20000), Got::right);
    EXPECT_EQ(get_text(100, 4100), Got::right);
    EXPECT_EQ(tier_->stats().codec_saved_bytes, 0U);
}

TEST_P(NvmeCodecTest, StaysReadableAfterStopsKillsAndALostIndex) {
    open();
    for (const auto size : kSizes) put_text(size, size, GetParam());
    tier_->flush();
    open();
    for (const auto size : kSizes) EXPECT_EQ(get_text(size, size), Got::right) << size;
    kill_and_open();
    for (const auto size : kSizes) EXPECT_EQ(get_text(size, size), Got::right) << size;
    tier_.reset();
    index_.lose_everything();
    open();
    for (const auto size : kSizes)
        EXPECT_TRUE(eventually([&] { return get_text(size, size) == Got::right; })) << size;
}

TEST_P(NvmeCodecTest, DamageIsNoticedAndFetchedAgain) {
    open();
    put_text(1, 300000, GetParam());
    put_text(2, 3000, GetParam());
    put_text(3, 3000, GetParam());
    tier_->flush();
    tier_.reset();
    for (const auto& each : stored()) {
        // One stays, since an extent of which no object is on record is taken in anew when the tier opens.
        if (each.entry.id != object_id(3)) damage(each, each.entry.stored_length / 2);
    }
    open();
    EXPECT_EQ(get_text(1, 300000), Got::miss);
    EXPECT_EQ(get_text(2, 3000, 0, 3000), Got::miss);
    EXPECT_EQ(tier_->checksum_errors(), 2U);
    tier_->flush();
    EXPECT_FALSE(tier_->contains(object_id(1), 300000, 0));
    put_text(1, 300000, GetParam());
    tier_->flush();
    EXPECT_EQ(get_text(1, 300000), Got::right);
}

TEST_P(NvmeCodecTest, BytesThatVerifyAndDoNotDecompressAreNoObject) {
    open();
    put_text(1, 30000, GetParam());
    tier_->flush();
    // A record that promises another size than what was compressed, as only a bug would write it.
    auto location = Location::decode(**index_.find_location(object_id(1)));
    ASSERT_TRUE(location);
    location->object_size = 30001;
    index_.put(object_id(1), location->encode());
    open();
    EXPECT_EQ(get_text(1, 30001), Got::miss);
    EXPECT_EQ(tier_->checksum_errors(), 1U);
}

TEST_P(NvmeCodecTest, VerifyDecompressesAndNoticesDamage) {
    open();
    for (const auto size : kSizes) put_text(size, size, GetParam());
    tier_->flush();
    tier_.reset();
    const auto good = verify_cache(directory_, {});
    ASSERT_TRUE(good);
    EXPECT_EQ(good->bad_files, 0U);
    EXPECT_EQ(good->objects, kSizes.size());
    EXPECT_EQ(good->unknown_codecs, 0U);
    const auto all = stored();
    damage(all.back(), 0);
    EXPECT_EQ(verify_cache(directory_, {})->bad_files, 1U);
}

TEST_P(NvmeCodecTest, SurvivorsMoveAsTheyAre) {
    options_.limit = 16 << 20;
    open();
    tier_->keep(false);
    constexpr std::uint64_t size = 60000;
    std::uint64_t number = 0;
    for (; number < 20; ++number) put_text(number, size, GetParam());
    tier_->flush();
    while (tier_->stats().evicted_bytes == 0 && number < 3000) {
        for (std::uint64_t hot = 0; hot < 5 && number % 32 == 0; ++hot) (void)get_text(hot, size);
        const ContentId id = object_id(number++);
        tier_->admit(id, size, 0, make_piece(id, 0, size), 0, GetParam());
        if (number % 16 == 0) tier_->flush();
    }
    tier_->flush();
    ASSERT_GT(tier_->stats().evicted_bytes, 0U);
    EXPECT_GT(tier_->stats().reinserted_bytes, 0U);
    EXPECT_LT(tier_->stats().reinserted_bytes, 5 * size / 2) << "compressed";
    for (std::uint64_t hot = 0; hot < 5; ++hot) {
        EXPECT_EQ(get_text(hot, size), Got::right);
        EXPECT_TRUE(tier_->is_compressed(object_id(hot), size));
    }
}

TEST_P(NvmeCodecTest, ReadersAtTheSameTimeGetTheirOwn) {
    open();
    for (std::uint64_t number = 0; number < 20; ++number) put_text(number, 150000, GetParam());
    tier_->flush();
    std::atomic<int> given{0}, wrong{0};
    for (const bool with_memory : {false, true}) {
        if (with_memory)
            tier_->use_memory([&](std::size_t size) -> BufferPtr {
                // Short of memory now and then.
                return ++given % 3 == 0 ? nullptr : std::make_shared<HeapBuffer>(size);
            });
        std::vector<std::thread> readers;
        for (int reader = 0; reader < 4; ++reader)
            readers.emplace_back([&, reader] {
                for (std::uint64_t i = 0; i < 60; ++i) {
                    const auto offset = (i % 2) * kBlockSize;
                    if (get_text((i * 7 + static_cast<std::uint64_t>(reader)) % 20, 150000, offset,
                                 i % 3 == 0 ? 150000 - offset : kBlockSize) != Got::right)
                        ++wrong;
                }
            });
        for (auto& reader : readers) reader.join();
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(given, 0);
}

/// Changes the codec of the only entry of the only extent, and mends the table's checksum.
class NvmeUnknownCodecTest : public NvmeCodecTest {};
TEST_F(NvmeUnknownCodecTest, IsAMissAndCounted) {
    open();
    put_text(1, 30000, Codec::zstd);
    tier_->flush();
    tier_.reset();
    const auto path = files_with(".extent").at(0);
    const auto name = parse_extent_file_name(path.filename().native());
    {
        auto file = DiskFile::open(path, {.write = true});
        std::optional<ChunkTable> table;
        ASSERT_TRUE(scan_extent(*file, name->uuid, [&](const ChunkTable& found) {
            table = found;
            return true;
        }));
        table->entries.at(0).codec = 77;
        AlignedBuffer out(table->table_bytes);
        encode_chunk_table(*table, out.span());
        ASSERT_TRUE(file->write(out.span(), table->offset));
    }
    const auto report = verify_cache(directory_, {});
    ASSERT_TRUE(report);
    EXPECT_EQ(report->bad_files, 0U) << "it is not ours to drop";
    EXPECT_EQ(report->unknown_codecs, 1U);
    index_.lose_everything();
    open();
    EXPECT_TRUE(eventually([&] { return tier_->stats().unknown_codecs == 1; }));
    EXPECT_EQ(get_text(1, 30000), Got::miss);
    put_text(1, 30000, Codec::lz4);
    tier_->flush();
    EXPECT_EQ(get_text(1, 30000), Got::right);
}

TEST(LocationRecord, CompressedOnesAreOfAVersionOfTheirOwn) {
    Location plain;
    plain.object_size = plain.stored_length = 70000;
    plain.sum_count = 3;
    EXPECT_EQ(plain.encode().size(), 48 + 12U) << "what was written without codecs is read";
    EXPECT_EQ(plain.encode().front(), 2);
    EXPECT_EQ(Location::decode(plain.encode()), plain);
    Location packed = plain;
    packed.codec = Codec::zstd;
    packed.stored_length = 40000;
    packed.sum_count = 2;
    const auto text = packed.encode();
    EXPECT_EQ(text.front(), 3) << "no record for a tierfs that knows no codecs";
    EXPECT_EQ(Location::decode(text), packed);
    for (std::size_t length = 0; length < text.size(); ++length)
        EXPECT_FALSE(Location::decode(text.substr(0, length)));
    for (const char codec : {'\0', '\3', '\x7F'}) {
        auto wrong = text;
        wrong[2] = codec;
        EXPECT_FALSE(Location::decode(wrong)) << static_cast<int>(codec);
    }
    for (const std::uint32_t length : {0U, 70000U, 70001U, 0xFFFFFFFFU}) {
        auto wrong = packed;
        wrong.stored_length = length;
        EXPECT_FALSE(Location::decode(wrong.encode())) << length;
    }
    auto file = packed;
    file.kind = Location::Kind::backing_file;
    EXPECT_FALSE(Location::decode(file.encode())) << "large files are not compressed";
}

TEST(ObjectCompressorTest, GivesUpOnADatasetAndLooksAgain) {
    ObjectCompressor compressor;
    std::vector<std::byte> noise(8192);
    fill_bytes(object_id(1), 0, noise);
    const auto text = text_of(object_id(2), 8192);
    const auto try_it = [&](const std::vector<std::byte>& bytes, DatasetNumber dataset) {
        const std::array<std::span<const std::byte>, 1> pieces{bytes};
        return compressor.compress(dataset, Codec::zstd, pieces).has_value();
    };
    for (unsigned i = 0; i + 1 < ObjectCompressor::kFailures; ++i) EXPECT_FALSE(try_it(noise, 0));
    EXPECT_TRUE(try_it(text, 0)) << "not yet";
    for (unsigned i = 0; i < ObjectCompressor::kFailures; ++i) EXPECT_FALSE(try_it(noise, 0));
    for (unsigned i = 0; i + 1 < ObjectCompressor::kEvery; ++i) EXPECT_FALSE(try_it(text, 0)) << i;
    EXPECT_TRUE(try_it(text, 1)) << "each dataset for itself";
    EXPECT_TRUE(try_it(text, kUnknownDataset));
    EXPECT_TRUE(try_it(text, 0)) << "one of so many is tried";
    EXPECT_TRUE(try_it(text, 0)) << "and then all again";
}

}  // namespace nvme_codec_test
}  // namespace tierfs::testing
