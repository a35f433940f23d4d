// Orders of readers and the writer thread in the NVMe tier that chance hardly ever brings about.
#include <array>

#include "tests/unit/script.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

#ifdef TIERFS_TEST_POINTS

namespace tierfs::testing {
namespace nvme_order_test {

class NvmeOrder : public NvmeTest {
  protected:
    /// More than the limit, so that all that was there before goes.
    void push_everything_out() {
        for (std::uint64_t i = 0; i < 60; ++i) {
            put(1000 + i + pushed_, 900'000);
            if (i % 5 == 4) tier_->flush();
        }
        tier_->flush();
        pushed_ += 60;
    }
    std::uint64_t pushed_ = 0;
};

TEST_F(NvmeOrder, AnExtentThatGoesBetweenLookupAndOpenIsAMiss) {
    open();
    put(1, 100'000);
    tier_->flush();
    ASSERT_EQ(get(1, 100'000), Got::right);
    Script script;
    script.once("nvme.read.located", [&] { push_everything_out(); });
    EXPECT_EQ(get(1, 100'000), Got::miss);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
}

TEST_F(NvmeOrder, AnExtentThatGoesWhileItIsReadGivesItsBytesAndThenItsSpace) {
    open();
    put(1, 100'000);
    tier_->flush();
    Script script;
    script.once("nvme.read.opened", [&] {
        push_everything_out();
        EXPECT_LE(tier_->stats().used_bytes, options_.limit);
        EXPECT_GE(tier_->stats().used_bytes, disk_bytes() + 100'000)
            << "what is unlinked still takes its space";
    });
    EXPECT_EQ(get(1, 100'000), Got::right);
    EXPECT_EQ(get(1, 100'000), Got::miss);
    tier_->flush();
    EXPECT_LE(disk_bytes(), tier_->stats().used_bytes);
}

TEST_F(NvmeOrder, NoRecordNamesAnExtentThatIsBeingUnlinked) {
    open();
    put(1, 100'000);
    tier_->flush();
    unsigned evictions = 0;
    bool named = true, contained = true;
    Got got = Got::wrong;
    Script script;
    script.once("nvme.evict.unindexed", [&] {  // on the writer's thread
        ++evictions;
        named = index_.find_location(object_id(1))->has_value();
        contained = tier_->contains(object_id(1), 100'000, 0);
        got = get(1, 100'000);
        put(1, 100'000);  // a reader fetched it and brings it back at once
    });
    push_everything_out();
    EXPECT_EQ(evictions, 1U);
    EXPECT_FALSE(named);
    EXPECT_FALSE(contained);
    EXPECT_EQ(got, Got::miss);
    EXPECT_NE(get(1, 100'000), Got::wrong);
    put(1, 100'000);
    tier_->flush();
    EXPECT_EQ(get(1, 100'000), Got::right);
}

TEST_F(NvmeOrder, AnEvictedFileIsAMissFromTheFirstMoment) {
    open();
    put(1, 3 << 20);
    tier_->flush();
    ASSERT_EQ(get(1, 3 << 20), Got::right);
    Got got = Got::wrong;
    Script script;
    script.at("nvme.evict.taken", [&](std::size_t) {
        if (!tier_->contains(object_id(1), 3 << 20, 0)) got = get(1, 3 << 20);
    });
    push_everything_out();
    EXPECT_EQ(got, Got::miss);
    put(1, 3 << 20);
    tier_->flush();
    EXPECT_EQ(get(1, 3 << 20), Got::right);
}

TEST_F(NvmeOrder, AnEntryIsKnownOnlyWhenItsBytesAreThere) {
    open();
    bool before = true, after = false;
    Got meanwhile = Got::miss;
    const auto has_record = [&] { return index_.find_location(object_id(1))->has_value(); };
    Script script;
    script.once("nvme.pack.written", [&] {
        before = has_record();
        meanwhile = get(1, 100'000);
    });
    script.once("nvme.pack.committed", [&] { after = has_record(); });
    put(1, 100'000);
    tier_->flush();
    EXPECT_FALSE(before);
    EXPECT_EQ(meanwhile, Got::right) << "from memory";
    EXPECT_TRUE(after);
    EXPECT_EQ(get(1, 100'000), Got::right) << "what was found a moment ago is not remembered";
    EXPECT_EQ(tier_->checksum_errors(), 0U);
}

TEST_F(NvmeOrder, ALateReportOfDamageDoesNotDropWhatWasWrittenSince) {
    constexpr std::uint64_t kSize = 3 << 20;
    open();
    put(1, kSize);
    tier_->flush();
    auto file = DiskFile::open(files_with(".data").at(0), {.write = true, .direct = false});
    ASSERT_TRUE(file.has_value());
    const std::array<std::byte, 8> garbage{};
    ASSERT_TRUE(file->write(garbage, kBlockSize).has_value());
    ASSERT_TRUE(file->sync_data().has_value());
    Script script;
    script.once("nvme.read.distrusted", [&] {
        EXPECT_EQ(get(1, kSize), Got::miss);  // another reader, whose report comes in time
        tier_->flush();
        EXPECT_FALSE(tier_->contains(object_id(1), kSize, 1));
        EXPECT_TRUE(tier_->contains(object_id(1), kSize, 2)) << "only what is damaged goes";
        put_piece(1, kSize, kBlockSize, kBlockSize);
        tier_->flush();
        EXPECT_EQ(get(1, kSize), Got::right);
    });
    EXPECT_EQ(get(1, kSize), Got::miss);
    tier_->flush();
    EXPECT_EQ(get(1, kSize), Got::right);
    EXPECT_TRUE(eventually([&] { return tier_->whole_file(object_id(1), kSize).has_value(); })) << "complete";
}

TEST_F(NvmeOrder, WhatComesWhileTheWriterStopsIsLetGo) {
    open();
    std::weak_ptr<Buffer> piece;
    Script script;
    script.once("nvme.writer.stopping", [&] {
        auto data = make_piece(object_id(1), 0, 5000);
        piece = data;
        tier_->admit(object_id(1), 5000, 0, std::move(data));
        tier_->erase(object_id(2));
        tier_->flush();  // does not wait for ever
    });
    tier_->close();
    EXPECT_TRUE(piece.expired()) << "its memory is the caller's again";
    EXPECT_EQ(get(1, 5000), Got::miss);
}

}  // namespace nvme_order_test

#endif

}  // namespace nvme_order_test
