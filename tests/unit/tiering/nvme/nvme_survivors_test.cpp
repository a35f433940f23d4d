// What is read often outlives the extent that it lies in.
#include <cmath>
#include <fstream>
#include <random>
#include <set>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"
#include "tiering/policy/s3fifo.hpp"

#ifdef TIERFS_TEST_POINTS
#include "tests/unit/script.hpp"
#endif

namespace tierfs::testing {
namespace nvme_survivors_test {

constexpr std::uint64_t kSmall = 4096;
constexpr std::uint64_t kMiB = 1 << 20;

class NvmeSurvivors : public NvmeTest {
  protected:
    /// New objects, each admitted once and never read, of `bytes` together.
    void churn(std::uint64_t bytes) {
        for (std::uint64_t done = 0; done < bytes; done += 60'000) {
            put(next_++, 60'000);
            if (next_ % 16 == 0) tier_->flush();
        }
        tier_->flush();
    }
    void put_all(std::uint64_t first, std::uint64_t end) {
        for (std::uint64_t number = first; number < end; ++number) put(number, kSmall);
        tier_->flush();
    }
    void read_all(std::uint64_t first, std::uint64_t end, unsigned times) {
        for (unsigned time = 0; time < times; ++time) {
            for (std::uint64_t number = first; number < end; ++number)
                ASSERT_EQ(get(number, kSmall), Got::right) << number;
        }
    }
    std::uint64_t here(std::uint64_t first, std::uint64_t end) {
        std::uint64_t count = 0;
        for (std::uint64_t number = first; number < end; ++number) {
            const Got got = get(number, kSmall);
            EXPECT_NE(got, Got::wrong) << number;
            count += got == Got::right ? 1 : 0;
        }
        return count;
    }
    std::uint64_t next_ = 1'000'000;
};

/// The n-th of so many objects is asked for in proportion to 1 / n^0.9.
class Zipf {
  public:
    explicit Zipf(std::uint64_t objects) {
        double sum = 0;
        for (std::uint64_t n = 1; n <= objects; ++n) {
            sum += std::pow(static_cast<double>(n), -0.9);
            sums_.push_back(sum);
        }
    }
    std::uint64_t next() {
        const double at = std::uniform_real_distribution<double>(0, sums_.back())(random_);
        return static_cast<std::uint64_t>(std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
    }

  private:
    std::vector<double> sums_;
    std::mt19937_64 random_{7};
};

TEST_F(NvmeSurvivors, HitsAboutAsOftenAsS3FifoOverObjects) {
    constexpr std::uint64_t kObjects = 60'000, kRequests = 120'000;
    options_.limit = kObjects / 10 * kSmall;  // 24 MiB: extents of 1 MiB, few of them
    open();
    Zipf zipf(kObjects);
    S3Fifo<std::uint64_t> reference(options_.limit);
    std::set<std::uint64_t> waiting;
    std::uint64_t hits = 0, reference_hits = 0, asked = 0;
    for (std::uint64_t request = 0; request < kRequests; ++request) {
        const std::uint64_t number = zipf.next();
        const bool counts = request >= kRequests / 2;
        asked += counts ? 1 : 0;
        const bool known = reference.contains(number);
        known ? reference.touch(number) : static_cast<void>(reference.insert(number, kSmall));
        while (reference.bytes() > options_.limit) reference.evict();
        reference_hits += known && counts ? 1 : 0;
        if (waiting.size() >= 240 || waiting.count(number) != 0) {
            tier_->flush();
            waiting.clear();
        }
        const Got got = get(number, kSmall);
        ASSERT_NE(got, Got::wrong);
        hits += got == Got::right && counts ? 1 : 0;
        if (got == Got::right) continue;
        put(number, kSmall);
        waiting.insert(number);
    }
    tier_->flush();
    const double ratio = static_cast<double>(hits) / static_cast<double>(asked);
    const double wanted = static_cast<double>(reference_hits) / static_cast<double>(asked);
    const TierStats stats = tier_->stats();
    const double amplification =
        static_cast<double>(stats.written_bytes) / static_cast<double>(stats.admitted_bytes);
    std::printf("hits %.1f %%, reference %.1f %%, written/admitted %.2f\n", 100 * ratio, 100 * wanted,
                amplification);
    EXPECT_GT(ratio, wanted - 0.05);
    EXPECT_GT(stats.reinserted_bytes, 0U);
    EXPECT_GE(stats.written_bytes, stats.admitted_bytes + stats.reinserted_bytes);
    EXPECT_LT(amplification, 1.6);
    EXPECT_LE(disk_bytes(), options_.limit);
}

TEST_F(NvmeSurvivors, WhatIsHotMovesAndWhatIsColdGoes) {
    open();
    put_all(0, 300);
    read_all(0, 50, 2);
    read_all(50, 100, 1);
    churn(40 * kMiB);
    EXPECT_EQ(here(0, 50), 50U);
    EXPECT_EQ(here(50, 300), 0U) << "a single read is not enough";
    const TierStats stats = tier_->stats();
    EXPECT_GE(stats.reinserted_bytes, 50 * kSmall);
    EXPECT_GE(stats.admitted_bytes, 40 * kMiB);
    EXPECT_EQ(stats.admitted_bytes, 300 * kSmall + (next_ - 1'000'000) * 60'000) << "each object once";
    EXPECT_LE(stats.used_bytes, options_.limit);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
    EXPECT_LE(index_.size(), 50 + options_.limit / 60'000) << "and no records of what went";
}

TEST_F(NvmeSurvivors, WhatIsNotReadAnyMoreGoesInTheEnd) {
    open();
    put_all(0, 200);
    read_all(0, 200, 3);
    for (std::uint64_t wave = 1; wave < 80; ++wave) {  // new hot objects, until main has come round
        put_all(1000 * wave, 1000 * wave + 150);
        read_all(1000 * wave, 1000 * wave + 150, 2);
        churn(2 * kMiB);
    }
    EXPECT_EQ(here(0, 200), 0U);
    EXPECT_LE(tier_->stats().used_bytes, options_.limit);
}

TEST_F(NvmeSurvivors, WhatComesBackSoonIsSparedForALongTime) {
    open();
    put_all(0, 40);
    churn(20 * kMiB);
    ASSERT_EQ(here(0, 40), 0U);
    put_all(0, 20);
    put_all(100, 120);  // never here before
    churn(40 * kMiB);
    EXPECT_EQ(here(0, 20), 20U);
    EXPECT_EQ(here(100, 120), 0U);
}

TEST_F(NvmeSurvivors, OnlyDatasetsWhoseDataGoesAreWrittenAgain) {
    for (const Retention retention :
         {Retention::stays, Retention::waits, Retention::pinned, Retention::passes}) {
        open();
        tier_->retain(1, retention);
        for (std::uint64_t number = 0; number < 100; ++number) {
            const ContentId id = object_id(number);
            tier_->admit(id, kSmall, 0, make_piece(id, 0, kSmall), 1);
        }
        tier_->flush();
        read_all(0, 100, 3);
        churn(20 * kMiB);
        tier_->renew(1);
        for (std::uint64_t number = 5000; number < 5600; ++number) {
            const ContentId id = object_id(number);
            tier_->admit(id, 60'000, 0, make_piece(id, 0, 60'000), 1);
            if (number % 16 == 0) tier_->flush();
        }
        tier_->flush();
        EXPECT_EQ(tier_->stats().reinserted_bytes, 0U) << static_cast<int>(retention);
        tier_.reset();
        std::filesystem::remove_all(directory_ / "extents");
        index_.lose_everything();
    }
}

TEST_F(NvmeSurvivors, WhatDoesNotVerifyIsNotMoved) {
    open();
    put_all(0, 100);
    read_all(0, 100, 2);
    const auto location = Location::decode(**index_.find_location(object_id(7)));
    {
        std::fstream file(files_with(".extent").at(0), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(location->offset + 99));
        file.put('x');
        file.put('y');
    }
    churn(20 * kMiB);
    EXPECT_EQ(get(7, kSmall), Got::miss);
    EXPECT_EQ(here(0, 100), 99U);
    EXPECT_EQ(tier_->checksum_errors(), 1U);
}

TEST_F(NvmeSurvivors, WhatWasErasedDoesNotComeBack) {
    open();
    put_all(0, 100);
    read_all(0, 100, 2);
    for (std::uint64_t number = 0; number < 50; ++number) tier_->erase(object_id(number));
    churn(20 * kMiB);
    EXPECT_EQ(here(0, 50), 0U);
    EXPECT_EQ(here(50, 100), 50U);
}

TEST_F(NvmeSurvivors, ADeviceThatFailsIsNotGivenCopiesToo) {
    std::atomic<bool> fails{false};
    std::atomic<unsigned> reads{0};
    hooks_.fault = [&](DiskOperation operation) {
        if (!fails || operation != DiskOperation::read) return 0;
        ++reads;
        return EIO;
    };
    open();
    put_all(0, 250);
    read_all(0, 250, 2);
    fails = true;
    churn(20 * kMiB);
    fails = false;
    EXPECT_EQ(reads, 1U) << "the first error ends it";
    EXPECT_EQ(tier_->stats().reinserted_bytes, 0U);
    EXPECT_LE(here(0, 250), 250U);
}

TEST_F(NvmeSurvivors, ADeviceThatIsSlowIsNotGivenCopiesToo) {
    std::atomic<std::int64_t> milliseconds{0};
    std::atomic<bool> slow{false};
    hooks_.now = [&] { return Health::Clock::time_point(std::chrono::milliseconds(milliseconds)); };
    hooks_.fault = [&](DiskOperation operation) {
        if (slow && operation == DiskOperation::read) milliseconds += 600;
        return 0;
    };
    options_.limit = 128 * kMiB;  // extents of several chunks
    open();
    put_all(0, 500);
    read_all(0, 500, 2);
    slow = true;
    churn(150 * kMiB);
    EXPECT_GT(tier_->stats().reinserted_bytes, 0U);
    EXPECT_LE(tier_->stats().reinserted_bytes, 256 * kSmall) << "one chunk, and no more";
}

TEST_F(NvmeSurvivors, ACopyThatCannotBeWrittenCostsNoMoreThanItself) {
    std::atomic<int> left{-1};  // writes until they fail
    hooks_.fault = [&](DiskOperation operation) {
        if (operation != DiskOperation::write || left < 0) return 0;
        if (left > 0) {
            --left;
            return 0;
        }
        left = -1;
        return EIO;
    };
    for (int at = 0; at < 24; ++at) {
        open();
        put_all(0, 200);
        read_all(0, 200, 2);
        left = at;
        churn(20 * kMiB);
        left = -1;
        (void)here(0, 200);
        EXPECT_LE(tier_->stats().used_bytes, options_.limit);
        EXPECT_LE(disk_bytes(), options_.limit);
        EXPECT_EQ(tier_->checksum_errors(), 0U);
        tier_.reset();
        std::filesystem::remove_all(directory_ / "extents");
        index_.lose_everything();
    }
}

#ifdef TIERFS_TEST_POINTS

TEST_F(NvmeSurvivors, ReadersFindWhatMovesAtAnyMoment) {
    open();
    put_all(0, 100);
    read_all(0, 100, 2);
    unsigned looks = 0, missed = 0;
    Script script;
    for (const char* point : {"nvme.pack.written", "nvme.pack.committed", "nvme.survivors.copied",
                              "nvme.evict.taken", "nvme.evict.unindexed"}) {
        script.at(point, [&](std::size_t) {
            ++looks;
            missed += 100 - static_cast<unsigned>(here(0, 100));
        });
    }
    churn(30 * kMiB);
    EXPECT_GT(looks, 50U);
    EXPECT_EQ(missed, 0U);
}

TEST_F(NvmeSurvivors, AReaderThatLookedBeforeTheMoveReadsAfterIt) {
    open();
    put_all(0, 100);
    read_all(0, 100, 2);
    Script script;
    script.once("nvme.read.located", [&] { churn(30 * kMiB); });
    EXPECT_EQ(get(50, kSmall), Got::right);
    EXPECT_EQ(tier_->checksum_errors(), 0U);
}

/// Folder and index are copied at moments of a move, and a tier is opened on the copies.
TEST_F(NvmeSurvivors, AKillAtAnyMomentOfAMoveLosesNothing) {
    namespace fs = std::filesystem;
    const fs::path copy = directory_.native() + "-killed";
    open();
    put_all(0, 100);
    read_all(0, 100, 2);
    unsigned kills = 0;
    const auto kill = [&](std::size_t time) {
        if (time % 7 > 1) return;  // copying takes its time
        ++kills;
        FakeIndex index;
        (void)index_.for_each_location([&](const ContentId& id, std::string_view text) {
            index.put(id, std::string(text));
            return true;
        });
        fs::remove_all(copy);
        fs::copy(directory_, copy, fs::copy_options::recursive);
        NvmeOptions options = options_;
        options.devices = {NvmePlace::at(copy)};
        auto tier = open_nvme_tier(options, index, {});
        ASSERT_TRUE(tier.has_value()) << tier.error().message;
        for (std::uint64_t number = 0; number < 100; ++number) {
            const ContentId id = object_id(number);
            AlignedBuffer out(kSmall), want(kSmall);
            ASSERT_TRUE((*tier)->read(id, kSmall, 0, out.span())) << number;
            fill_bytes(id, 0, want.span());
            ASSERT_TRUE(std::equal(out.data(), out.data() + kSmall, want.data()));
        }
        EXPECT_LE((*tier)->stats().used_bytes, options.limit);
    };
    Script script;
    for (const char* point : {"nvme.pack.written", "nvme.pack.committed", "nvme.survivors.copied",
                              "nvme.evict.taken", "nvme.evict.unindexed"}) {
        script.at(point, kill);
    }
    churn(22 * kMiB);
    EXPECT_GT(kills, 10U);
    fs::remove_all(copy);
}

#endif

}  // namespace nvme_survivors_test
}  // namespace tierfs::testing
