#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/run/workers.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kSequential = 1 << 20, kRandom = 64 << 10;

struct Choice {
    std::string file;  ///< relative to the directory; empty: the largest
    std::uint64_t reads = 4000;
    std::uint64_t bytes = 0;  ///< of the sequential read; 0: all
};

class SeqRand : public Suite {
  public:
    SeqRand(const RunOptions& options, const Choice& choice, std::string path, std::uint64_t size,
            std::string hash)
        : options_(options), choice_(choice), path_(std::move(path)), hash_(std::move(hash)), size_(size) {}

    [[nodiscard]] std::vector<std::string> cases() const override { return {"buffered"}; }

    Result<Metrics> run(std::size_t /*which*/, std::uint64_t seed) override {
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        const auto sequential = read_through();
        if (!sequential) return fail(sequential.error());
        auto metrics = read_around(seed);
        if (!metrics) return metrics;
        metrics->insert(metrics->begin(), *sequential);
        return metrics;
    }

  private:
    Result<Metric> read_through() {
        const std::uint64_t end = choice_.bytes == 0 ? size_ : std::min(size_, choice_.bytes);
        auto file = open_for_reading(path_);
        if (!file) return fail(file.error());
        std::vector<std::byte> buffer(kSequential);
        Hasher hasher;
        const std::uint64_t start = now_ns();
        for (std::uint64_t at = 0; at < end; at += kSequential) {
            const auto block = std::span(buffer).first(std::min(kSequential, end - at));
            const auto n = read_at(*file, block, at, path_);
            if (!n) return fail(n.error());
            if (*n != block.size())
                return fail(EIO, path_ + ": ends before its size, at byte " + std::to_string(at + *n));
            if (!hash_.empty()) hasher.add(block);
        }
        const double seconds = static_cast<double>(now_ns() - start) / 1e9;
        if (!hash_.empty() && end == size_ && hasher.hex() != hash_)
            return fail(EIO, path_ + ": its content is not what the manifest says");
        return Metric{"seq_mb_per_s", static_cast<double>(end) / 1e6 / seconds, Better::higher};
    }

    Result<void> read_blocks(unsigned index, std::uint64_t seed, Shared<float>& latencies,
                             Shared<std::uint64_t>& ends) {
        auto file = open_for_reading(path_);
        if (!file) return fail(file.error());
        std::vector<std::byte> buffer(kRandom);
        Random random(derive_seed(seed, index));
        for (std::uint64_t i = index; i < choice_.reads; i += options_.processes) {
            const std::uint64_t at = random.below(size_ / kRandom) * kRandom, before = now_ns();
            const auto n = read_at(*file, buffer, at, path_);
            if (!n) return fail(n.error());
            if (*n != kRandom)
                return fail(EIO, path_ + ": ends before its size, at byte " + std::to_string(at + *n));
            latencies[i] = static_cast<float>(now_ns() - before) / 1000;
        }
        ends[index] = now_ns();
        return {};
    }

    Result<Metrics> read_around(std::uint64_t seed) {
        Shared<float> latencies(choice_.reads);  // microseconds
        Shared<std::uint64_t> ends(options_.processes);
        Workers workers(options_.processes,
                        [&](unsigned index) { return read_blocks(index, seed, latencies, ends); });
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        const std::uint64_t start = now_ns();
        workers.release();
        if (auto done = workers.wait(); !done) return fail(done.error());
        const double seconds = static_cast<double>(*std::max_element(ends.begin(), ends.end()) - start) / 1e9;
        const double rate = static_cast<double>(choice_.reads) / seconds;
        const std::vector<double> sample(latencies.begin(), latencies.end());
        return Metrics{{"rand_reads_per_s", rate, Better::higher},
                       {"rand_mb_per_s", rate * static_cast<double>(kRandom) / 1e6, Better::higher},
                       {"rand_p50_us", quantile(sample, 0.5), Better::lower},
                       {"rand_p99_us", quantile(sample, 0.99), Better::lower}};
    }

    const RunOptions options_;
    const Choice choice_;
    const std::string path_, hash_;
    const std::uint64_t size_;
};

class SeqRandKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "seqrand"; }
    [[nodiscard]] std::string help() const override {
        return "The largest file (or --file), buffered: 1 MiB reads in order by one process, seq_mb_per_s; "
               "then --reads "
               "reads of 64 KiB at random multiples of 64 KiB, divided among --processes.";
    }
    void add_options(CLI::App& app) override {
        app.add_option("--file", choice_.file,
                       "seqrand: the file to read, relative to --path; default: the largest");
        app.add_option("--reads", choice_.reads, "seqrand: random reads in a run")
            ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{100'000'000}))
            ->capture_default_str();
        app.add_option("--bytes", choice_.bytes, "seqrand: read so much in order; default: the whole file")
            ->transform(CLI::AsSizeValue(false))
            ->option_text("SIZE");
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return {{"file", choice_.file}, {"reads", choice_.reads}, {"bytes", choice_.bytes}};
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        const auto chosen = choose(options);
        if (!chosen) return fail(chosen.error());
        const std::string path = options.path + "/" + chosen->path;
        std::string hash;
        if (!options.manifest.empty()) {
            const auto manifest = read_manifest(options.manifest);
            if (!manifest) return fail(manifest.error());
            for (const auto& entry : *manifest)
                if (entry.path == chosen->path) hash = entry.hash;
            if (hash.empty()) return fail(EINVAL, path + ": is not in " + options.manifest);
        }
        return std::make_unique<SeqRand>(options, choice_, path, chosen->size, hash);
    }

  private:
    [[nodiscard]] Result<FoundFile> choose(const RunOptions& options) const {
        auto found = walk(options.path);
        if (!found) return fail(found.error());
        auto chosen = std::max_element(found->begin(), found->end(), [&](const auto& a, const auto& b) {
            return choice_.file.empty() ? a.size < b.size
                                        : (a.path != choice_.file && b.path == choice_.file);
        });
        if (chosen == found->end() || (!choice_.file.empty() && chosen->path != choice_.file))
            return fail(ENOENT, options.path + "/" + choice_.file + ": no such file to read");
        if (chosen->size < kRandom)
            return fail(EINVAL, options.path + "/" + chosen->path + ": is smaller than one read of 64 KiB");
        return *chosen;
    }

    Choice choice_;
};

}  // namespace

std::unique_ptr<SuiteKind> seqrand_kind() {
    return std::make_unique<SeqRandKind>();
}

}  // namespace tierfs::iobench
