// Reads that the RAM tier answers, by one thread and by several.
#include "tiering/store/store.hpp"

#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "bench/micro/instant_origin.hpp"
#include "config/memory_plan.hpp"

namespace tierfs::micro {
namespace {

constexpr std::uint32_t kObjectSize = 4 * 1024;
constexpr std::size_t kObjects = 64 * 1024;

/// A store that has all of its objects in RAM.
class WarmStore {
  public:
    WarmStore() {
        settings_.dataset_class = DatasetClass::hot;
        MemoryPlan plan;
        plan.limit = plan.data = std::uint64_t{4} * kObjects * kObjectSize;
        plan.ram_tier = plan.data / 2;
        auto opened = Store::open(settings_, plan, origin_, nullptr, nullptr);
        if (!opened) throw std::runtime_error(opened.error().message);
        store_ = std::move(*opened);
        for (std::size_t number = 0; number < kObjects; ++number) {
            auto object = std::make_shared<ObjectRef>();
            object->path = "directory/" + std::to_string(number);
            object->version = "1";
            object->size = kObjectSize;
            object->content = content_id(origin_.identity(), object->path, object->version);
            objects_.push_back(std::move(object));
            read(number);
        }
    }
    ~WarmStore() { store_->stop(); }
    WarmStore(const WarmStore&) = delete;
    WarmStore& operator=(const WarmStore&) = delete;

    void read(std::size_t number) {
        store_->read(objects_[number], 0, kObjectSize, [](Result<ReadReply> reply) {
            if (!reply) throw std::runtime_error(reply.error().message);
            benchmark::DoNotOptimize(reply->pieces.front().data());
        });
    }
    [[nodiscard]] std::uint64_t hits() const { return store_->stats().ram.hits; }

  private:
    InstantOrigin origin_;
    Settings settings_;
    std::vector<std::shared_ptr<const ObjectRef>> objects_;
    std::unique_ptr<Store> store_;
};

void ram_hit(benchmark::State& state) {
    static WarmStore store;
    std::minstd_rand random(static_cast<unsigned>(state.thread_index()) + 1);
    const std::uint64_t before = store.hits();
    for (auto _ : state) store.read(random() % kObjects);
    state.SetItemsProcessed(state.iterations());
    if (store.hits() == before) state.SkipWithError("the RAM tier did not answer");
}
BENCHMARK(ram_hit)->ThreadRange(1, 8)->UseRealTime();

}  // namespace
}  // namespace tierfs::micro
