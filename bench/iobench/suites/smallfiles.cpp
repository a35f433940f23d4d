#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>

#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/run/gate.hpp"
#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/run/workers.hpp"
#include "bench/iobench/suites/samples.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::size_t kStreamBlock = 1 << 20;

enum class Access { shuffled, ordered, tar_sequential, tar_indexed };

/// The names of the cases.
const std::vector<std::pair<std::string, Access>>& accesses() {
    static const std::vector<std::pair<std::string, Access>> kAll{{"shuffled", Access::shuffled},
                                                                  {"ordered", Access::ordered},
                                                                  {"tar-sequential", Access::tar_sequential},
                                                                  {"tar-indexed", Access::tar_indexed}};
    return kAll;
}

bool is_packed(Access access) {
    return access == Access::tar_sequential || access == Access::tar_indexed;
}

/// What one process did.
struct FileShare {
    std::uint64_t start_ns, end_ns, bytes;
};

/// Consecutive samples of one shard.
struct ShardRun {
    std::uint32_t first, count;
};

/// Reads a shard from its beginning to the end of the last of `samples`, which lie in it one behind another.
Result<void> stream(const std::string& path, std::span<const Sample> samples, FileShare& share) {
    auto file = open_for_reading(path);
    if (!file) return fail(file.error());
    const std::uint64_t end = samples.back().offset + samples.back().size;
    std::vector<std::byte> buffer(kStreamBlock);
    Hasher hasher;
    std::size_t next = 0;
    for (std::uint64_t at = 0; at < end; at += kStreamBlock) {
        const auto block = std::span(buffer).first(std::min<std::uint64_t>(kStreamBlock, end - at));
        const auto n = read_at(*file, block, at, path);
        if (!n) return fail(n.error());
        if (*n != block.size())
            return fail(EIO, path + ": ends before the samples that its index names, at byte " +
                                 std::to_string(at + *n));
        for (; next < samples.size() && samples[next].offset < at + block.size(); ++next) {
            const Sample& sample = samples[next];
            const std::uint64_t from = std::max(sample.offset, at);
            const std::uint64_t to = std::min(sample.offset + sample.size, at + block.size());
            if (!sample.hash.empty()) hasher.add(block.subspan(from - at, to - from));
            if (sample.offset + sample.size > to) break;  // its rest is in the next block
            if (!sample.hash.empty() && hasher.hex() != sample.hash)
                return fail(EIO, path + " at byte " + std::to_string(sample.offset) +
                                     ": its content is not what the manifest says");
            hasher = Hasher();
            share.bytes += sample.size;
        }
    }
    return {};
}

/// Samples that lie in one file, one behind another, as streaming needs them.
Result<std::vector<ShardRun>> runs_of(const SampleSet& set, std::uint64_t most) {
    std::vector<ShardRun> runs;
    const std::uint64_t count =
        most == 0 ? set.samples.size() : std::min<std::uint64_t>(most, set.samples.size());
    for (std::uint32_t i = 0; i < count; ++i) {
        const Sample& sample = set.samples[i];
        const bool begins = i == 0 || set.samples[i - 1].file != sample.file;
        if (begins) {
            runs.push_back({i, 0});
        } else if (set.samples[i - 1].offset + set.samples[i - 1].size > sample.offset) {
            return fail(EINVAL,
                        set.files[sample.file] + ": its index does not name the samples in their order");
        }
        ++runs.back().count;
    }
    return runs;
}

class SmallFiles : public Suite {
  public:
    SmallFiles(const RunOptions& options, SampleSet loose, SampleSet packed, std::vector<Access> accesses)
        : options_(options),
          loose_(std::move(loose)),
          packed_(std::move(packed)),
          accesses_(std::move(accesses)) {}

    [[nodiscard]] std::vector<std::string> cases() const override {
        std::vector<std::string> names;
        for (const auto& [name, access] : accesses())
            if (std::find(accesses_.begin(), accesses_.end(), access) != accesses_.end())
                names.push_back(name);
        return names;
    }

    Result<Metrics> run(std::size_t which, std::uint64_t seed) override {
        const std::string name = cases().at(which);
        const auto named = std::find_if(accesses().begin(), accesses().end(),
                                        [&](const auto& entry) { return entry.first == name; });
        const SampleSet& set = is_packed(named->second) ? packed_ : loose_;
        if (named->second == Access::tar_sequential) return read_streams(set, seed);
        auto order = order_of(set.samples.size(), options_, seed);
        // the first ones and not the sorted places of a random choice: reading on is what this case is about
        if (named->second == Access::ordered) std::iota(order.begin(), order.end(), 0U);
        return read_each(set, order);
    }

  private:
    Result<Metrics> read_each(const SampleSet& set, const std::vector<std::uint32_t>& order) {
        Shared<float> latencies(order.size());  // microseconds
        auto metrics =
            measure(order.size(), [&](unsigned index, FileShare& share, const Begin& begin) -> Result<void> {
                std::uint64_t largest = 0;
                for (std::size_t i = index; i < order.size(); i += options_.processes)
                    largest = std::max(largest, set.samples[order[i]].size);
                SampleReader reader(set, largest);
                begin();
                for (std::size_t i = index; i < order.size(); i += options_.processes) {
                    const std::uint64_t before = now_ns();
                    const auto bytes = reader.read(set.samples[order[i]]);
                    if (!bytes) return fail(bytes.error());
                    latencies[i] = static_cast<float>(now_ns() - before) / 1000;
                    share.bytes += *bytes;
                }
                return {};
            });
        if (!metrics) return metrics;
        const std::vector<double> sample(latencies.begin(), latencies.end());
        metrics->push_back({"p50_us", quantile(sample, 0.5), Better::lower});
        metrics->push_back({"p99_us", quantile(sample, 0.99), Better::lower});
        return metrics;
    }

    Result<Metrics> read_streams(const SampleSet& set, std::uint64_t seed) {
        auto runs = runs_of(set, options_.samples.files);
        if (!runs) return fail(runs.error());
        std::uint64_t samples = 0;
        for (const ShardRun& run : *runs) samples += run.count;
        shuffle(*runs, seed);
        return measure(samples, [&](unsigned index, FileShare& share, const Begin& begin) -> Result<void> {
            begin();
            for (std::size_t i = index; i < runs->size(); i += options_.processes) {
                const ShardRun& run = (*runs)[i];
                const auto part = std::span(set.samples).subspan(run.first, run.count);
                if (auto read = stream(set.files[part[0].file], part, share); !read) return read;
            }
            return {};
        });
    }

    using Begin = std::function<void()>;

    /// `read` in every process, from the first one's begin() to the last one's end; what comes before it is
    /// not measured.
    Result<Metrics> measure(std::uint64_t samples,
                            const std::function<Result<void>(unsigned, FileShare&, const Begin&)>& read) {
        Shared<FileShare> shares(options_.processes);
        Gate gate(options_.processes);
        Workers workers(options_.processes, [&](unsigned index) -> Result<void> {
            FileShare& share = shares[index];
            auto done = read(index, share, [&] {
                gate.wait();
                share.start_ns = now_ns();
            });
            share.end_ns = now_ns();
            return done;
        });
        workers.release();
        if (auto ready = gate.gather(workers); !ready) return fail(ready.error());
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        gate.open();
        if (auto done = workers.wait(); !done) return fail(done.error());
        std::uint64_t start = ~0ULL, end = 0, bytes = 0;
        for (const FileShare& share : shares) {
            start = std::min(start, share.start_ns);
            end = std::max(end, share.end_ns);
            bytes += share.bytes;
        }
        const double seconds = static_cast<double>(end - start) / 1e9;
        return Metrics{{"files_per_s", static_cast<double>(samples) / seconds, Better::higher},
                       {"mb_per_s", static_cast<double>(bytes) / 1e6 / seconds, Better::higher},
                       {"seconds", seconds, Better::lower},
                       {"files", static_cast<double>(samples)}};
    }

    const RunOptions options_;
    const SampleSet loose_, packed_;
    const std::vector<Access> accesses_;
};

class SmallFilesKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "smallfiles"; }
    [[nodiscard]] std::string help() const override {
        return "The samples of at most --max-file bytes, divided among --processes. shuffled and ordered: "
               "each file "
               "is opened, read to its end and closed. Where the dataset has tar shards (iobench gen "
               "--tar-shards), "
               "the same samples from these: tar-sequential streams whole shards, in shuffled order, in 1 "
               "MiB reads; "
               "tar-indexed reads each sample by its place in the index, shuffled, from shards that stay "
               "open. With "
               "--files the shuffled cases read so many, drawn at random, the other two the first ones. "
               "files_per_s: "
               "samples a second, packed or not, and mb_per_s of their bytes, without tar's headers: from "
               "the first "
               "process's start to the last one's end. p50_us, p99_us: of one sample.";
    }
    void add_options(CLI::App& app) override {
        std::vector<std::string> names;
        for (const auto& [name, access] : accesses()) names.push_back(name);
        app.add_option("--access", wanted_,
                       "smallfiles: which cases, a list of " + CLI::detail::join(names, ", ") +
                           "; default: all that the dataset has")
            ->delimiter(',')
            ->check(CLI::IsMember(names))
            ->option_text("NAME,...");
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override { return {{"access", wanted_}}; }

    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        auto packed = find_packed(options);
        if (!packed) return fail(packed.error());
        auto loose = find_samples(options);
        if (!loose && !(loose.error().code == ENOENT && *packed)) return fail(loose.error());
        std::vector<Access> chosen;
        for (const auto& [name, access] : accesses()) {
            const bool there = is_packed(access) ? packed->has_value() : loose.has_value();
            const bool wanted = std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end();
            if (wanted && !there)
                return fail(ENOENT, options.path + ": has no samples for " + name +
                                        (is_packed(access) ? "; iobench gen --tar-shards makes them" : ""));
            if (there && (wanted || wanted_.empty())) chosen.push_back(access);
        }
        return std::make_unique<SmallFiles>(options, loose ? std::move(*loose) : SampleSet(),
                                            *packed ? std::move(**packed) : SampleSet(), std::move(chosen));
    }

  private:
    std::vector<std::string> wanted_;
};

}  // namespace

std::unique_ptr<SuiteKind> smallfiles_kind() {
    return std::make_unique<SmallFilesKind>();
}

}  // namespace tierfs::iobench
