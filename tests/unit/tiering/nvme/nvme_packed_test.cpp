// Objects that come side by side, as they are to lie in an extent: written so, found again whatever happens.
#include "backends/extent/codec.hpp"
#include "backends/extent/scan.hpp"
#include "tests/unit/script.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_packed_test {

class NvmePacked : public NvmeTest {
  protected:
    /// Objects from `first` on, one after the other as in a chunk, `hole` bytes before each tenth.
    static PackedObjects packed(std::uint64_t first, std::size_t count, std::uint64_t size,
                                std::uint64_t hole = 0) {
        PackedObjects objects;
        std::uint64_t end = 0;
        for (std::uint64_t number = first; number < first + count; ++number) {
            if (number % 10 == 0) end += hole;
            const bool alone = size >= kDiskAlignment || end % kDiskAlignment + size > kDiskAlignment;
            ChunkEntry entry;
            entry.id = object_id(number);
            entry.object_size = size;
            entry.offset = static_cast<std::uint32_t>(alone ? align_up(end) : end);
            entry.stored_length = static_cast<std::uint32_t>(size);
            end = entry.offset + size;
            objects.entries.push_back(std::move(entry));
        }
        objects.data = std::make_shared<HeapBuffer>(align_up(end));
        for (ChunkEntry& entry : objects.entries) {
            const auto bytes = objects.data->writable().subspan(entry.offset, size);
            fill_bytes(entry.id, 0, bytes);
            for (std::uint64_t unit = 0; unit * kExtentUnit < size; ++unit) {
                const auto from = unit * kExtentUnit;
                entry.sums.push_back(
                    unit_checksum(entry.id, unit, kExtentUnit,
                                  bytes.subspan(from, std::min<std::size_t>(kExtentUnit, size - from))));
            }
        }
        return objects;
    }
    void expect_all(std::uint64_t first, std::size_t count, std::uint64_t size) {
        for (std::uint64_t number = first; number < first + count; ++number)
            ASSERT_EQ(get(number, size), Got::right) << number;
    }
    std::uint64_t chunks() const {
        std::uint64_t count = 0;
        for (const auto& path : files_with(".extent")) {
            const auto name = parse_extent_file_name(path.filename().native());
            const auto file = DiskFile::open(path, {});
            const auto scanned = scan_extent(*file, name->uuid, [](const ChunkTable&) { return true; });
            EXPECT_TRUE(scanned && scanned->intact);
            count += scanned->chunks;
        }
        return count;
    }
};

TEST_F(NvmePacked, ReadsWhatItTookOfEverySize) {
    options_.limit = 256 << 20;
    open();
    std::uint64_t first = 0;
    for (const std::uint64_t size : {1, 100, 4095, 4096, 5000, 16384, 32768, 40000, 200'000, 1 << 20}) {
        const std::size_t count = std::min<std::uint64_t>(300, (8U << 20U) / align_up(size));
        tier_->admit_packed(packed(first, count, size), 0);
        tier_->flush();
        expect_all(first, count, size);
        first += count;
    }
    EXPECT_EQ(tier_->stats().hits, first);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
}

TEST_F(NvmePacked, ChunksAreAsLargeAsTheyMayBe) {
    options_.limit = 1 << 30;
    open();
    tier_->admit_packed(packed(0, 256, 16384), 0);
    tier_->flush();
    EXPECT_EQ(chunks(), 4U);
    const auto written = tier_->stats().written_bytes;
    EXPECT_LE(written, (4U << 20U) + 4 * 8192) << "nothing but the objects and their tables";
    tier_->admit_packed(packed(1000, 100, 16384, 64 << 10), 0);
    tier_->flush();
    EXPECT_EQ(chunks(), 4U + 10U) << "what lies far apart is not filled up";
    expect_all(1000, 100, 16384);
}

TEST_F(NvmePacked, WhatWaitsIsReadFromMemory) {
    open();
    Script script;
    script.once("nvme.pack.written", [&] {
        tier_->admit_packed(packed(100, 20, 16384), 0);
        EXPECT_TRUE(tier_->contains(object_id(105), 16384, 0));
        expect_all(100, 20, 16384);
        put(105, 16384);
        EXPECT_EQ(get(105, 16384), Got::right);
    });
    put(1, 100'000);
    tier_->flush();
    expect_all(100, 20, 16384);
    EXPECT_EQ(get(1, 100'000), Got::right);
}

TEST_F(NvmePacked, WhatIsThereAlreadyIsLeftOut) {
    options_.limit = 256 << 20;
    open();
    for (std::uint64_t number = 0; number < 32; number += 2) put(number, 16384);
    tier_->flush();
    const auto before = tier_->stats().admitted_bytes;
    tier_->admit_packed(packed(0, 32, 16384), 0);
    tier_->flush();
    EXPECT_EQ(tier_->stats().admitted_bytes - before, 16U * 16384U);
    expect_all(0, 32, 16384);
    put(3, 16384);
    tier_->flush();
    EXPECT_EQ(tier_->stats().admitted_bytes - before, 16U * 16384U) << "nor the other way round";
}

TEST_F(NvmePacked, StandsBesideTheChunkUnderWay) {
    options_.limit = 1 << 30;
    open();
    for (std::uint64_t round = 0; round < 20; ++round) {
        put(100'000 + round, 5000);
        tier_->admit_packed(packed(1000 * round, 64, 16384), 0);
    }
    EXPECT_TRUE(eventually([&] { return get(19'063, 16384) == Got::right; }));
    tier_->flush();
    for (std::uint64_t round = 0; round < 20; ++round) {
        expect_all(1000 * round, 64, 16384);
        EXPECT_EQ(get(100'000 + round, 5000), Got::right);
    }
    EXPECT_LE(chunks(), 28U) << "the small ones share one; where an extent ends there are some more";
}

TEST_F(NvmePacked, SurvivesAKillWithAndWithoutTheIndex) {
    options_.limit = 256 << 20;
    open();
    tier_->admit_packed(packed(0, 200, 16384), 0);
    tier_->flush();
    kill_and_open();
    expect_all(0, 200, 16384);
    tier_->abandon();
    index_.lose_everything();
    open();
    EXPECT_TRUE(eventually([&] { return get(0, 16384) == Got::right && get(199, 16384) == Got::right; }));
    expect_all(0, 200, 16384);
}

TEST_F(NvmePacked, KeepsItsLimitWhateverComes) {
    options_.limit = 16 << 20;  // extents of 1 MiB
    open();
    for (std::uint64_t round = 0; round < 12; ++round)
        tier_->admit_packed(packed(1000 * round, 256, 16384), 0);
    tier_->admit_packed(packed(50'000, 2, 1 << 20), 0);  // larger than an extent holds
    tier_->flush();
    EXPECT_LE(disk_bytes(), options_.limit + (1 << 20));
    EXPECT_EQ(get(11'255, 16384), Got::right) << "the last one";
    EXPECT_EQ(get(50'000, 1 << 20), Got::miss);
    tier_->keep(true);
    for (std::uint64_t round = 20; round < 26; ++round)
        tier_->admit_packed(packed(1000 * round, 256, 16384), 0);
    tier_->flush();
    EXPECT_LE(disk_bytes(), options_.limit + (1 << 20));
    EXPECT_EQ(get(11'255, 16384), Got::right) << "what is kept stays";
}

TEST_F(NvmePacked, AFailedWriteLosesNoMoreThanItself) {
    options_.limit = 256 << 20;
    std::atomic<bool> fails = false;
    hooks_.fault = [&](DiskOperation operation) {
        return fails && operation == DiskOperation::write ? EIO : 0;
    };
    open();
    tier_->admit_packed(packed(0, 128, 16384), 0);
    tier_->flush();
    fails = true;
    tier_->admit_packed(packed(1000, 128, 16384), 0);
    tier_->flush();
    fails = false;
    EXPECT_EQ(tier_->stats().state, "unstable");
    expect_all(0, 128, 16384);
    for (std::uint64_t number = 1000; number < 1128; ++number) EXPECT_EQ(get(number, 16384), Got::miss);
    kill_and_open();
    tier_->admit_packed(packed(1000, 128, 16384), 0);
    tier_->flush();
    expect_all(0, 128, 16384);
    expect_all(1000, 128, 16384);
}

}  // namespace nvme_packed_test
}  // namespace tierfs::testing
