#include <algorithm>

#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/run/workers.hpp"
#include "bench/iobench/suites/samples.hpp"

namespace tierfs::iobench {

namespace {

struct Share {
    std::uint64_t start_ns, end_ns, bytes;
};

class SmallFiles : public Suite {
  public:
    SmallFiles(const RunOptions& options, std::vector<Sample> samples)
        : options_(options), samples_(std::move(samples)) {}

    [[nodiscard]] std::vector<std::string> cases() const override { return {"shuffled"}; }

    Result<Metrics> run(std::size_t /*which*/, std::uint64_t seed) override {
        const auto order = order_of(samples_, options_, seed);
        Shared<Share> shares(options_.processes);
        Shared<float> latencies(order.size());  // microseconds
        Workers workers(options_.processes, [&](unsigned index) -> Result<void> {
            std::vector<std::byte> buffer(options_.samples.max_file + 1);
            Share& share = shares[index];
            share.start_ns = now_ns();
            for (std::size_t i = index; i < order.size(); i += options_.processes) {
                const std::uint64_t before = now_ns();
                const auto bytes = read_sample(samples_[order[i]], buffer);
                if (!bytes) return fail(bytes.error());
                latencies[i] = static_cast<float>(now_ns() - before) / 1000;
                share.bytes += *bytes;
            }
            share.end_ns = now_ns();
            return {};
        });
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        workers.release();
        if (auto done = workers.wait(); !done) return fail(done.error());
        return summarize(shares, latencies, order.size());
    }

  private:
    static Metrics summarize(Shared<Share>& shares, Shared<float>& latencies, std::size_t files) {
        std::uint64_t start = ~0ULL, end = 0, bytes = 0;
        for (const Share& share : shares) {
            start = std::min(start, share.start_ns);
            end = std::max(end, share.end_ns);
            bytes += share.bytes;
        }
        const double seconds = static_cast<double>(end - start) / 1e9;
        const std::vector<double> sample(latencies.begin(), latencies.end());
        return {{"files_per_s", static_cast<double>(files) / seconds, Better::higher},
                {"mb_per_s", static_cast<double>(bytes) / 1e6 / seconds, Better::higher},
                {"seconds", seconds, Better::lower},
                {"p50_us", quantile(sample, 0.5), Better::lower},
                {"p99_us", quantile(sample, 0.99), Better::lower},
                {"files", static_cast<double>(files)}};
    }

    const RunOptions options_;
    const std::vector<Sample> samples_;
};

class SmallFilesKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "smallfiles"; }
    [[nodiscard]] std::string help() const override {
        return "Each file of at most --max-file is opened, read to its end and closed, in shuffled order, "
               "divided among "
               "--processes. files_per_s and mb_per_s: from the first process's start to the last one's end. "
               "p50_us, "
               "p99_us: of one file.";
    }
    void add_options(CLI::App& app) override { static_cast<void>(app); }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return nlohmann::ordered_json::object();
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        auto samples = find_samples(options);
        if (!samples) return fail(samples.error());
        return std::make_unique<SmallFiles>(options, std::move(*samples));
    }
};

}  // namespace

std::unique_ptr<SuiteKind> smallfiles_kind() {
    return std::make_unique<SmallFilesKind>();
}

}  // namespace tierfs::iobench
