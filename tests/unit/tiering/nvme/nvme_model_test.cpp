// The NVMe tier over admissions, reads, ends of every kind, a lost index and damaged files: right bytes or a
// miss, and never a byte over the limit.
#include <fstream>

#include "tests/unit/model.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_model_test {

namespace fs = std::filesystem;

constexpr std::uint64_t kLimit = 16 << 20;
constexpr std::uint64_t kObjects = 24;

/// From kFirstHot on: small ones, which are admitted in dozens and read again and again, so that many move
/// from extent to extent.
constexpr std::uint64_t kFirstHot = 1000, kHot = 700, kDozens = 64;

/// Some in extents, some in backing files; together three times the limit.
std::uint64_t size_of(std::uint64_t number) {
    if (number >= kFirstHot) return 1 + number * 7919 % 100'000;
    constexpr std::uint64_t kSizes[] = {1,       700,     4096,          5000,      65536,    100'001,
                                        700'000, 1 << 20, (1 << 20) + 1, 3'000'000, 6'000'000};
    return kSizes[number % std::size(kSizes)];
}

class NvmeModel {
  public:
    explicit NvmeModel(bool unpacked, bool hot = false) : hot_(hot) {
        std::string path = (fs::temp_directory_path() / "tierfs-nvme-model-XXXXXX").string();
        RC_ASSERT(::mkdtemp(path.data()) != nullptr);
        folder_ = path;
        options_.devices = {NvmePlace::at(path)};
        options_.limit = kLimit;
        if (unpacked) options_.pack_max_object = 50'000;
        open();
    }
    ~NvmeModel() {
        tier_.reset();
        std::error_code ignored;
        fs::remove_all(folder_, ignored);
    }

    void run(const model::Command& command) {
        const std::uint64_t number = command.a % kObjects;
        switch (command.kind) {
            case 0:
                hot_ ? admit_dozens(command.a) : admit(number, command);
                break;
            case 1:
                hot_ ? read_often(command.a) : read(number, command);
                break;
            case 2:
                flush();
                break;
            case 3:
                tier_->erase(object_id(number));
                whole_.erase(number);
                flushed_.erase(number);
                break;
            case 4:
                tier_->close();
                reopen();
                break;
            case 5:
                tier_->abandon();
                whole_ = flushed_;
                reopen();
                break;
            case 6:
                lose_index();
                break;
            default:
                damage(command);
        }
        const TierStats stats = tier_->stats();
        RC_ASSERT(stats.used_bytes <= kLimit);
        RC_ASSERT(stats.state == "normal");
        RC_ASSERT(stats.written_bytes >= stats.reinserted_bytes);
        moved_ = moved_ || stats.reinserted_bytes > 0;
    }
    [[nodiscard]] bool has_moved() const { return moved_; }
    void finish() {
        flush();
        for (std::uint64_t number = 0; number < kObjects; ++number) read(number, {1, 0, 0, 0});
        tier_->close();
        RC_ASSERT(disk_bytes() <= kLimit);
    }

  private:
    void open() {
        auto opened = open_nvme_tier(options_, index_, {});
        RC_ASSERT(opened.has_value());
        tier_ = std::move(*opened);
    }
    void reopen() {
        tier_.reset();
        admitted_ += 2 << 20;  // an extent that is not full, or not cut yet
        RC_ASSERT(disk_bytes() <= kLimit);
        open();
        must_hit();
    }

    void admit(std::uint64_t number, const model::Command& command) {
        const std::uint64_t size = size_of(number);
        const ContentId id = object_id(number);
        std::uint64_t begin = 0, end = size;
        const std::uint64_t packed = std::min<std::uint64_t>(options_.pack_max_object, (1 << 20) - 4096);
        if (size > packed && command.c % 2 == 1) {
            begin = command.b % block_count(size) * kBlockSize;
            end = std::min(size, begin + (1 + command.c % 9) * kBlockSize);
        }
        admitted_ += align_up(end - begin) + 2 * kDiskAlignment;
        tier_->admit(id, size, begin, make_piece(id, begin, end - begin));
        if (begin == 0 && end == size) whole_.insert(number);
    }

    static std::uint64_t hot_number(std::uint64_t number) { return kFirstHot + number % kHot; }
    void admit_dozens(unsigned from) {
        for (std::uint64_t number = from; number < from + kDozens; ++number) admit(hot_number(number), {});
        tier_->flush();
    }
    void read_often(unsigned from) {
        for (int time = 0; time < 3; ++time) {
            for (std::uint64_t number = from; number < from + kDozens / 2; ++number)
                RC_ASSERT(get(hot_number(number), 0, size_of(hot_number(number))) != Got::wrong);
            for (std::uint64_t number = from; number < from + kDozens / 2; ++number)
                tier_->claim(object_id(hot_number(number)), 0);
        }
    }

    void flush() {
        tier_->flush();
        flushed_ = whole_;
        RC_ASSERT(tier_->stats().used_bytes <= kLimit);
        RC_ASSERT(disk_bytes() <= kLimit);
        must_hit();
    }

    /// While so little was ever admitted that nothing need have gone, all that is flushed is there.
    void must_hit() {
        if (harmed_ || admitted_ > kLimit / 2) return;
        for (const std::uint64_t number : flushed_) {
            if (whole_.count(number) == 0) continue;
            RC_ASSERT(get(number, 0, size_of(number)) == Got::right);
        }
    }

    void read(std::uint64_t number, const model::Command& command) {
        const std::uint64_t size = size_of(number);
        const std::uint64_t begin = command.b % block_count(size) * kBlockSize;
        const std::uint64_t end =
            command.c % 3 == 0 ? size : std::min(size, begin + (1 + command.c % 20) * kBlockSize);
        RC_ASSERT(get(number, begin, end - begin) != Got::wrong);
        (void)tier_->contains(object_id(number), size, command.b % block_count(size));
    }
    Got get(std::uint64_t number, std::uint64_t offset, std::uint64_t length) {
        const ContentId id = object_id(number);
        AlignedBuffer out(length), want(length);
        if (!tier_->read(id, size_of(number), offset, out.span().first(length))) return Got::miss;
        fill_bytes(id, offset, want.span().first(length));
        return std::equal(out.data(), out.data() + length, want.data()) ? Got::right : Got::wrong;
    }

    void lose_index() {
        tier_->close();
        tier_.reset();
        index_.lose_everything();
        harmed_ = true;  // what comes back comes back in the background
        open();
    }

    /// Flips a bit of some file, or cuts it, while the tier is down.
    void damage(const model::Command& command) {
        tier_->abandon();
        whole_ = flushed_;
        tier_.reset();
        std::vector<fs::path> files;
        for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
            if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
        }
        std::sort(files.begin(), files.end());
        if (!files.empty()) {
            harmed_ = true;
            const fs::path& file = files[command.a % files.size()];
            const std::uint64_t at = (std::uint64_t{command.b} * 65536 + command.c) % fs::file_size(file);
            if (command.c % 4 == 0) {
                fs::resize_file(file, at);
            } else {
                std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
                stream.seekg(static_cast<std::streamoff>(at));
                const int byte = stream.get();
                stream.seekp(static_cast<std::streamoff>(at));
                stream.put(static_cast<char>(byte ^ (1 << command.a % 8)));
            }
        }
        open();
        tier_->flush();  // the limit is met again: a bit in a hole takes a page
    }

    std::uint64_t disk_bytes() const {
        std::uint64_t total = 0;
        for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
            struct stat status {};
            if (entry.path().filename() != "device" && ::lstat(entry.path().c_str(), &status) == 0 &&
                S_ISREG(status.st_mode)) {
                total += static_cast<std::uint64_t>(status.st_blocks) * 512;
            }
        }
        return total;
    }

    FakeIndex index_;
    fs::path folder_;
    NvmeOptions options_;
    std::unique_ptr<NvmeTierForTests> tier_;
    std::set<std::uint64_t> whole_;    ///< admitted from end to end and not erased since
    std::set<std::uint64_t> flushed_;  ///< and flushed
    std::uint64_t admitted_ = 0;
    bool harmed_ = false;
    const bool hot_;
    bool moved_ = false;
};

/// Whether anything moved from an extent that went.
bool run_all(const model::Commands& commands, bool unpacked, bool hot = false) {
    NvmeModel tier(unpacked, hot);
    for (const auto& command : commands) tier.run(command);
    tier.finish();
    return tier.has_moved();
}

TEST(NvmeModelTest, GivesRightBytesOrNoneWithinItsLimit) {
    model::check_commands(12, 120, {12, 12, 3, 1, 1, 1, 0, 0},
                          [](const model::Commands& commands) { run_all(commands, false); });
}

TEST(NvmeModelTest, SoWithFewPackedObjects) {
    model::check_commands(8, 100, {12, 12, 3, 1, 1, 1, 0, 0},
                          [](const model::Commands& commands) { run_all(commands, true); });
}

TEST(NvmeModelTest, SoWithHotOnesThatOutliveTheirExtents) {
    unsigned moved = 0;
    model::check_commands(10, 150, {10, 8, 1, 1, 1, 1, 0, 0}, [&](const model::Commands& commands) {
        moved += run_all(commands, false, true) ? 1 : 0;
    });
    EXPECT_GT(moved, 3U);
}

TEST(NvmeModelTest, SoWithHotOnesDamagedFilesAndALostIndex) {
    model::check_commands(10, 80, {6, 6, 1, 1, 1, 1, 1, 2},
                          [](const model::Commands& commands) { run_all(commands, false, true); });
}

TEST(NvmeModelTest, SoWithDamagedFilesAndALostIndex) {
    model::check_commands(12, 80, {12, 10, 2, 1, 1, 1, 1, 3},
                          [](const model::Commands& commands) { run_all(commands, false); });
}

/// Entries written through the tier, an index that is lost: whatever was not damaged is found again.
TEST(NvmeModelTest, WhatWasFlushedAndIsWholeIsFoundWithoutTheIndex) {
    model::check(15, [] {
        const auto sizes = *rc::gen::resize(40, rc::gen::container<std::vector<unsigned>>(
                                                    rc::gen::resize(100, rc::gen::inRange(1U, 150'000U))));
        const auto harm = *model::commands(2, {1});
        std::string path = (fs::temp_directory_path() / "tierfs-nvme-model-XXXXXX").string();
        RC_ASSERT(::mkdtemp(path.data()) != nullptr);
        const std::shared_ptr<void> cleanup(nullptr, [&](void*) { fs::remove_all(path); });
        FakeIndex index;
        NvmeOptions options;
        options.devices = {NvmePlace::at(path)};
        options.limit = kLimit;
        std::map<std::uint64_t, Location> places;
        {
            auto tier = open_nvme_tier(options, index, {});
            RC_ASSERT(tier.has_value());
            for (std::uint64_t i = 0; i < sizes.size(); ++i) {
                (*tier)->admit(object_id(i), sizes[i], 0, make_piece(object_id(i), 0, sizes[i]));
                if (i % 7 == 6) (*tier)->flush();
            }
            (*tier)->flush();
            for (std::uint64_t i = 0; i < sizes.size(); ++i) {
                const auto text = index.find_location(object_id(i));
                RC_ASSERT(text.has_value() && text->has_value());
                places[i] = *Location::decode(**text);
            }
            (*tier)->abandon();
        }
        // Bits in the data of some entries: the tables stay, so all others must come back.
        std::set<std::uint64_t> hurt;
        for (const auto& command : harm) {
            if (sizes.empty()) break;
            const std::uint64_t victim = command.a % sizes.size();
            for (const auto& entry : fs::directory_iterator(fs::path(path) / "extents")) {
                const auto name = parse_extent_file_name(entry.path().filename().native());
                if (!name || name->number != places[victim].extent || !hurt.insert(victim).second) continue;
                std::fstream stream(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
                const auto at =
                    static_cast<std::streamoff>(places[victim].offset + command.b % sizes[victim]);
                stream.seekg(at);
                const int byte = stream.get();
                stream.seekp(at);
                stream.put(static_cast<char>(byte ^ 1));
            }
        }
        index.lose_everything();
        auto tier = open_nvme_tier(options, index, {});
        RC_ASSERT(tier.has_value());
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (index.size() < sizes.size() && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        RC_ASSERT(index.size() == sizes.size());
        for (std::uint64_t i = 0; i < sizes.size(); ++i) {
            AlignedBuffer out(sizes[i]), want(sizes[i]);
            const bool hit = (*tier)->read(object_id(i), sizes[i], 0, out.span().first(sizes[i]));
            RC_ASSERT(hit == (hurt.count(i) == 0));
            fill_bytes(object_id(i), 0, want.span().first(sizes[i]));
            if (hit) RC_ASSERT(std::equal(out.data(), out.data() + sizes[i], want.data()));
        }
    });
}

}  // namespace nvme_model_test
}  // namespace tierfs::testing
