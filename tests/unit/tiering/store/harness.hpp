// A store over fakes, and reads that a test can look at.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>

#include "config/base/mutex.hpp"
#include "tests/unit/tiering/store/fakes.hpp"
#include "tiering/store/store.hpp"

namespace tierfs::fake {

inline constexpr std::uint64_t kMiB = 1 << 20;

/// One read under way or done. Shared with the callback.
class Pending {
  public:
    void set(Result<ReadReply> result) {
        MutexLock lock(mutex_);
        ++calls_;
        if (!result_) result_ = std::move(result);
        changed_.notify_all();
    }
    bool done() {
        MutexLock lock(mutex_);
        return result_.has_value();
    }
    int calls() {
        MutexLock lock(mutex_);
        return calls_;
    }
    /// Waits; a minute is for ever.
    Result<ReadReply>& wait() {
        MutexLock lock(mutex_);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!result_ && std::chrono::steady_clock::now() < deadline) lock.wait_until(changed_, deadline);
        if (!result_) result_ = fail(ETIME, "the test waited a minute for this read");
        return *result_;
    }
    void forget() {
        MutexLock lock(mutex_);
        result_ = fail(EIO, "forgotten");
    }

  private:
    Mutex mutex_;
    std::condition_variable changed_;
    std::optional<Result<ReadReply>> result_ TIERFS_GUARDED_BY(mutex_);
    int calls_ TIERFS_GUARDED_BY(mutex_) = 0;
};

using PendingPtr = std::shared_ptr<Pending>;

struct Scene {
    std::uint64_t arena = 64 * kMiB;
    std::uint64_t ram = 64 * kMiB;
    FakeOrigin::Mode mode = FakeOrigin::Mode::at_once;
    unsigned threads = 0;
    unsigned connections = 64;
    bool nvme = false;
    std::chrono::milliseconds deadline{60000};
    std::uint64_t pack_max = kMiB;
    std::uint64_t window = 64 * kMiB;
    std::chrono::milliseconds ttl{60000};
    DatasetClass dataset_class = DatasetClass::automatic;
    std::vector<DatasetRule> datasets;
    std::map<std::string, std::vector<DirectoryEntry>> listings;
    std::function<void(FakeNvme&)> before_open;
    std::vector<std::string> pins;  ///< that an earlier run left
    std::uint64_t pin_limit = 0;
    std::function<void(FakePack&)> packs;  ///< the origin has a pack, and what is in it
};

struct Harness {
    explicit Harness(const Scene& scene = {}) : origin(scene.mode, scene.threads) {
        origin.listings = scene.listings;
        if (scene.before_open) scene.before_open(nvme);
        settings.origin_deadline = scene.deadline;
        settings.origin_connections = scene.connections;
        settings.pack_max_object = scene.pack_max;
        settings.prefetch_window = scene.window;
        settings.metadata_ttl = scene.ttl;
        settings.dataset_class = scene.dataset_class;
        settings.datasets = scene.datasets;
        settings.pin_limit = scene.pin_limit;
        for (const std::string& path : scene.pins) (void)pins.add(path, {}, 0);
        MemoryPlan plan;
        plan.limit = plan.data = scene.arena;
        plan.ram_tier = scene.ram;
        if (scene.packs) scene.packs(pack);
        auto opened = Store::open(settings, plan, origin, scene.nvme ? &nvme : nullptr, &pins,
                                  scene.packs ? &pack : nullptr);
        if (!opened) throw std::runtime_error(opened.error().message);
        store = std::move(*opened);
    }
    ~Harness() {
        origin.stop();
        store->stop();
    }

    PendingPtr start(const std::shared_ptr<const ObjectRef>& object, std::uint64_t offset,
                     std::uint32_t length) {
        auto pending = std::make_shared<Pending>();
        store->read(object, offset, length,
                    [pending](Result<ReadReply> result) { pending->set(std::move(result)); });
        return pending;
    }
    /// Reads, checks every byte, lets go.
    void check(const std::shared_ptr<const ObjectRef>& object, std::uint64_t offset, std::uint32_t length) {
        const PendingPtr pending = start(object, offset, length);
        expect_bytes(*pending, *object, offset, length);
    }
    static void expect_bytes(Pending& pending, const ObjectRef& object, std::uint64_t offset,
                             std::uint32_t length) {
        Result<ReadReply>& result = pending.wait();
        ASSERT_TRUE(result.has_value()) << result.error().message;
        std::uint64_t at = offset;
        for (const auto piece : result->pieces) {
            if (const auto place = Content(object.path).first_difference(at, piece))
                FAIL() << object.path << " differs at " << *place;
            at += piece.size();
        }
        EXPECT_EQ(at, std::max(offset, std::min<std::uint64_t>(object.size, offset + length)));
        EXPECT_EQ(result->pieces.size(), result->owners.size());
        pending.forget();
    }

    Settings settings;
    FakeOrigin origin;
    FakeNvme nvme;
    FakePack pack;
    Pins pins;
    std::unique_ptr<Store> store;
};

}  // namespace tierfs::fake
