// What waits to be written is read from memory: between admit and the record there is no moment of a miss.
#include <thread>

#include "tests/unit/script.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"
#include "tiering/nvme/unwritten.hpp"

namespace tierfs::testing {
namespace nvme_unwritten_test {

class NvmeUnwritten : public NvmeTest {
  protected:
    /// Runs this on the writer's thread, which so takes nothing from its queue meanwhile; a chunk with object
    /// 1 is on the device and has no records yet.
    void while_writing(const std::function<void()>& act) {
        Script script;
        script.once("nvme.pack.written", act);
        put(1, 100'000);
        tier_->flush();
    }
    static std::vector<std::byte> same_line(std::size_t size) {
        return std::vector<std::byte>(size, std::byte{'a'});
    }
};

TEST_F(NvmeUnwritten, WhatWaitsInTheQueueIsRead) {
    open();
    while_writing([&] {
        EXPECT_FALSE(tier_->contains(object_id(2), 70'000, 0));
        put(2, 70'000);
        EXPECT_TRUE(tier_->contains(object_id(2), 70'000, 0));
        EXPECT_EQ(get(2, 70'000), Got::right);
        EXPECT_EQ(get(2, 70'000, 65536, 70'000 - 65536), Got::right);
        EXPECT_EQ(get(2, 70'001), Got::miss) << "another size is another object";
        EXPECT_FALSE(tier_->contains(object_id(2), 70'001, 0));
    });
    tier_->flush();
    EXPECT_EQ(get(2, 70'000), Got::right);
    EXPECT_EQ(tier_->stats().hits, 3U);
    EXPECT_EQ(tier_->stats().misses, 1U);
}

TEST_F(NvmeUnwritten, WhatComesInSeveralBuffersIsReadOverTheirEnds) {
    open();
    const ContentId id = object_id(2);
    constexpr std::uint64_t kSize = 2 * kBlockSize + 100;
    while_writing([&] {
        std::vector<BufferPtr> pieces{make_piece(id, 0, kBlockSize), make_piece(id, kBlockSize, kBlockSize),
                                      make_piece(id, 2 * kBlockSize, 100)};
        tier_->admit(id, kSize, 0, std::move(pieces));
        EXPECT_EQ(get(2, kSize), Got::right);
        EXPECT_EQ(get(2, kSize, kBlockSize, kBlockSize), Got::right);
        EXPECT_EQ(get(2, kSize, kBlockSize, kBlockSize + 100), Got::right);
    });
}

TEST_F(NvmeUnwritten, WhatLiesInAChunkIsReadAsItIsStored) {
    for (const Codec codec : {Codec::none, Codec::lz4, Codec::zstd}) {
        open();
        const ContentId id = object_id(2 + static_cast<std::uint64_t>(codec));
        constexpr std::uint64_t kSize = 3 * kBlockSize;
        auto data = std::make_shared<HeapBuffer>(kSize);
        const auto text = same_line(kSize);
        std::copy(text.begin(), text.end(), data->writable().begin());
        Script script;
        script.once("nvme.pack.written", [&] {
            EXPECT_EQ(tier_->is_compressed(id, kSize), codec != Codec::none);
            for (const auto& [offset, length] : {std::pair{std::uint64_t{0}, kSize},
                                                 {kBlockSize, kSize - kBlockSize},
                                                 {kBlockSize, std::uint64_t{4096}}}) {
                AlignedBuffer out(length);
                ASSERT_TRUE(tier_->read(id, kSize, offset, out.span().first(length)));
                EXPECT_TRUE(std::equal(out.data(), out.data() + length, text.begin()));
            }
        });
        tier_->admit(id, kSize, 0, std::move(data), 0, codec);
        tier_->flush();
        EXPECT_EQ(script.passed("nvme.pack.written"), 1U);
    }
}

TEST_F(NvmeUnwritten, WhatCouldNotBeWrittenIsAMiss) {
    int code = 0;
    hooks_.fault = [&](DiskOperation operation) { return operation == DiskOperation::write ? code : 0; };
    open();
    code = EIO;
    put(1, 70'000);
    tier_->flush();
    EXPECT_FALSE(tier_->contains(object_id(1), 70'000, 0));
    EXPECT_EQ(get(1, 70'000), Got::miss);
}

TEST_F(NvmeUnwritten, WhatIsErasedWhileItWaitsIsAMiss) {
    open();
    while_writing([&] {
        put(2, 70'000);
        tier_->erase(object_id(2));
        tier_->erase(object_id(1));
    });
    tier_->flush();
    EXPECT_EQ(get(1, 100'000), Got::miss);
    EXPECT_EQ(get(2, 70'000), Got::miss);
}

TEST_F(NvmeUnwritten, AKilledTierHasNothingAnyMore) {
    open();
    while_writing([&] { put(2, 70'000); });
    put(3, 60'000);
    tier_->abandon();
    EXPECT_EQ(get(3, 60'000), Got::miss);
}

TEST_F(NvmeUnwritten, BetweenAdmitAndRecordNothingIsMissed) {
    options_.limit = 256 << 20;
    open();
    constexpr std::uint64_t kObjects = 300, kSize = 20'000;
    std::atomic<std::uint64_t> admitted{0}, wrong{0};
    std::vector<std::thread> readers;
    readers.reserve(2);
    for (std::uint64_t reader = 0; reader < 2; ++reader) {
        readers.emplace_back([&, reader] {
            for (std::uint64_t turn = reader; admitted < kObjects; ++turn) {
                const std::uint64_t known = admitted;
                // Those that came last are at the change from one place to the next.
                if (known != 0 &&
                    get(known - 1 - turn % std::min<std::uint64_t>(known, 60), kSize) != Got::right)
                    ++wrong;
            }
        });
    }
    for (std::uint64_t number = 0; number < kObjects; ++number) {
        put(number, kSize);
        admitted = number + 1;
        if (number % 10 == 9) tier_->flush();
    }
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0U);
}

TEST(Unwritten, AChunkTakesOverFromTheQueue) {
    Unwritten unwritten;
    Scratch scratch;
    const ContentId id = object_id(1);
    AlignedBuffer out(4096);
    const auto read = [&] { return unwritten.read(id, 4096, 0, out.span(), scratch); };
    unwritten.queued(id, {make_piece(id, 0, 4096)});
    EXPECT_TRUE(read());
    const auto chunk = make_piece(id, 0, 4096);
    unwritten.packed(id, chunk->bytes(), {});
    unwritten.unqueued(id);
    EXPECT_TRUE(read()) << "it is in the chunk";
    unwritten.queued(id, {make_piece(id, 0, 4096)});
    unwritten.unqueued(id);
    EXPECT_TRUE(read()) << "and stays there";
    unwritten.gone(id);
    EXPECT_FALSE(read());
    unwritten.queued(id, {make_piece(id, 0, 4096)});
    unwritten.unqueued(id);
    EXPECT_FALSE(read()) << "dropped before it was packed";
}

}  // namespace nvme_unwritten_test
}  // namespace tierfs::testing
