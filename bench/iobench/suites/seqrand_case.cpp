#include "bench/iobench/suites/seqrand_case.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace tierfs::iobench {

namespace {

const std::map<std::string, Order> kOrders = {{"read", Order::sequential}, {"randread", Order::random}};
const std::map<std::string, Mode> kModes = {
    {"buffered", Mode::buffered}, {"direct", Mode::direct}, {"mmap", Mode::mmap}};
const std::map<std::string, Engine> kEngines = {
    {"pread", Engine::pread}, {"io_uring", Engine::iouring}, {"iouring", Engine::iouring}};

/// 4096 is "4k", 1048576 "1m", what is no multiple of 1024 stays a number.
std::string short_size(std::uint64_t bytes) {
    if (bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "m";
    if (bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "k";
    return std::to_string(bytes);
}

template <typename T>
Result<std::vector<T>> look_up(const std::string& option, const std::map<std::string, T>& known,
                               const std::vector<std::string>& words) {
    std::vector<T> found;
    for (const auto& word : words) {
        const auto at = known.find(word);
        if (at == known.end()) return fail(EINVAL, option + ": " + word + " is not known");
        if (std::find(found.begin(), found.end(), at->second) == found.end()) found.push_back(at->second);
    }
    return found;
}

template <typename T>
Result<std::vector<T>> in_range(const std::string& option, const std::vector<T>& values, T least, T most) {
    std::vector<T> found;
    for (const T value : values) {
        if (value < least || value > most)
            return fail(EINVAL, option + ": " + std::to_string(value) + " is not from " +
                                    std::to_string(least) + " to " + std::to_string(most));
        if (std::find(found.begin(), found.end(), value) == found.end()) found.push_back(value);
    }
    return found;
}

struct Parsed {
    std::vector<Order> orders;
    std::vector<std::uint64_t> blocks;
    std::vector<Mode> modes;
    std::vector<Engine> engines;
    std::vector<unsigned> depths, threads;
};

Result<Parsed> parse(const Matrix& matrix) {
    auto orders = look_up("--orders", kOrders, matrix.orders);
    if (!orders) return fail(orders.error());
    auto blocks = in_range("--block-sizes", matrix.blocks, kLeastBlock, kMostBlock);
    if (!blocks) return fail(blocks.error());
    for (const std::uint64_t block : *blocks)
        if (block % 512 != 0)
            return fail(EINVAL, "--block-sizes: " + std::to_string(block) + " is no multiple of 512");
    auto modes = look_up("--modes", kModes, matrix.modes);
    if (!modes) return fail(modes.error());
    auto engines = look_up("--engines", kEngines, matrix.engines);
    if (!engines) return fail(engines.error());
    auto depths = in_range("--depths", matrix.depths, 1U, kMostDepth);
    if (!depths) return fail(depths.error());
    auto threads = in_range("--threads", matrix.threads, 1U, kMostThreads);
    if (!threads) return fail(threads.error());
    return Parsed{std::move(*orders),  std::move(*blocks), std::move(*modes),
                  std::move(*engines), std::move(*depths), std::move(*threads)};
}

/// The ways of reading with one order and block size: modes by engines by depths by threads.
void add_ways(const Parsed& parsed, const ReadCase& base, std::vector<ReadCase>& cases) {
    for (const Mode mode : parsed.modes) {
        const auto engines = mode == Mode::mmap ? std::vector{Engine::pread} : parsed.engines;
        for (const Engine engine : engines) {
            const auto depths = engine == Engine::iouring ? parsed.depths : std::vector{1U};
            for (const unsigned depth : depths)
                for (const unsigned threads : parsed.threads)
                    cases.push_back({base.order, base.block, mode, engine, depth, threads});
        }
    }
}

}  // namespace

std::string ReadCase::name() const {
    std::string name = (order == Order::sequential ? "read-" : "randread-") + short_size(block);
    if (mode == Mode::mmap) {
        name += "-mmap";
    } else {
        name += mode == Mode::direct ? "-direct" : "-buffered";
        name += engine == Engine::iouring ? "-iouring-qd" + std::to_string(depth) : "-pread";
    }
    if (threads != 1) name += "-t" + std::to_string(threads);
    return name;
}

Result<std::vector<ReadCase>> cases_of(const Matrix& matrix) {
    const auto parsed = parse(matrix);
    if (!parsed) return fail(parsed.error());
    std::vector<ReadCase> cases;
    for (const Order order : parsed->orders)
        for (const std::uint64_t block : parsed->blocks)
            add_ways(*parsed, {.order = order, .block = block}, cases);
    for (const ReadCase& one : cases)
        if (one.block * one.depth * one.threads > std::uint64_t{64} << 30)
            return fail(EINVAL, one.name() + ": its buffers would take more than 64 GiB");
    if (cases.empty()) return fail(EINVAL, "no case: every list needs at least one value");
    return cases;
}

}  // namespace tierfs::iobench
