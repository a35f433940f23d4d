// Memory for data, and the checksums over it.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <vector>

#include "backends/extent/format.hpp"
#include "tiering/ram/arena.hpp"

namespace tierfs::micro {
namespace {

/// A full arena in which files of this size come and go.
void arena_churn(benchmark::State& state) {
    static const std::shared_ptr<Arena> arena = *Arena::create(std::uint64_t{256} << 20, nullptr);
    const auto size = static_cast<std::size_t>(state.range(0));
    std::vector<ArenaBufferPtr> held;
    const std::uint64_t most =
        (arena->capacity() / 2) / static_cast<std::uint64_t>(state.threads()) / Arena::rounded(size);
    while (held.size() < most) held.push_back(arena->allocate(size));
    std::size_t next = 0;
    for (auto _ : state) {
        held[next].reset();
        held[next] = arena->allocate(size);
        next = (next + 7) % held.size();
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(arena_churn)->Arg(16 << 10)->Arg(110 << 10)->Arg(1 << 20)->ThreadRange(1, 4)->UseRealTime();

void unit_checksums(benchmark::State& state) {
    const std::vector<std::byte> bytes(kExtentUnit, std::byte{7});
    std::uint64_t unit = 0;
    for (auto _ : state) benchmark::DoNotOptimize(unit_checksum(ContentId{1, 2}, ++unit, kExtentUnit, bytes));
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes.size()));
}
BENCHMARK(unit_checksums);

}  // namespace
}  // namespace tierfs::micro

BENCHMARK_MAIN();
