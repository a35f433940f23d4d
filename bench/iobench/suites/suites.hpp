// The suites of iobench. A suite has one or more cases (a block size, an order, a depth); who calls it
// repeats them, takes medians and compares: see run/runner.hpp.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/run/host.hpp"
#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Which samples smallfiles, epoch and depth read.
struct SampleOptions {
    std::uint64_t files = 0;           ///< at most so many, see chosen() in samples.hpp; 0: all
    std::uint64_t max_file = 4 << 20;  ///< bytes; larger samples are left out
    std::uint64_t record_size = 0;     ///< bytes; 0: a sample is a file, or what an index says
    std::string list;                  ///< a file that names those to read, a path a line; empty: all
};

/// The emulated trainer of epoch and depth.
struct TrainerOptions {
    unsigned batch = 32;        ///< samples
    unsigned prefetch = 2;      ///< batches that a worker may be ahead
    double compute_ms = 10;     ///< of a batch
    unsigned ranks = 1;         ///< accelerators
    unsigned workers = 0;       ///< processes of each rank; 0: RunOptions::processes
    unsigned epochs = 1;        ///< of a run
    bool keep_last = false;     ///< samples that do not fill a batch are read too
    double au_bar_percent = 0;  ///< what the preset asks for; 0: nothing
};

/// What every suite is told. Sizes in bytes.
struct RunOptions {
    std::string path;      ///< the directory to measure
    std::string manifest;  ///< content is checked against it; empty: not checked
    unsigned processes = 4;
    DropCaches drop = DropCaches::none;
    SampleOptions samples;
    TrainerOptions trainer;
    std::string preset;  ///< a name of data/presets.hpp; empty: none. Already applied to the rest.
};

/// Which way a figure is better: a comparison has to know.
enum class Better { higher, lower, neither };

struct Metric {
    std::string name;  ///< ends in its unit: files_per_s, mb_per_s (10^6 bytes), seconds, p99_us, au_percent
    double value = 0;
    Better better = Better::neither;
};

using Metrics = std::vector<Metric>;

/// Made for one directory. Not thread-safe. Errors name the file and what is wrong.
class Suite {
  public:
    virtual ~Suite() = default;

    /// Names of what it measures, at least one, each once: lower case, digits, dashes
    /// ("read-64k-direct-qd8").
    [[nodiscard]] virtual std::vector<std::string> cases() const = 0;

    /// One run of cases()[which], caches dropped before it as the options say; `seed` belongs to this run,
    /// and the same seed gives the same order of reading. Every run of a case returns the same metrics in the
    /// same order, all of them finite.
    ///
    /// Called in a process of its own, forked from the one that made the suite: what a run leaves in members
    /// is gone after it. After a signal its Workers die, their error unwinds the run, and files that it made
    /// are removed by destructors; what takes longer than 3 s is killed (run/run_apart.hpp).
    virtual Result<Metrics> run(std::size_t which, std::uint64_t seed) = 0;

    /// What a reader of these figures of a run has to know beside them, in sentences: printed, and kept with
    /// the result. A function of the figures and the options alone, since the run itself may have been
    /// another process.
    [[nodiscard]] virtual std::vector<std::string> remarks(const Metrics& metrics) const {
        static_cast<void>(metrics);
        return {};
    }
};

/// A suite's name, its options on the command line, and how it is made from them. The parser writes into the
/// object, which has to outlive it.
class SuiteKind {
  public:
    virtual ~SuiteKind() = default;
    [[nodiscard]] virtual std::string name() const = 0;

    /// What it does and what each figure means: prose without line breaks, shown by --help.
    [[nodiscard]] virtual std::string help() const = 0;

    /// Options of this suite alone; their help begins with its name.
    virtual void add_options(CLI::App& app) = 0;

    /// Those options as given, for the report. Two members, both texts, go to places of their own in the
    /// result file: "preset", and "dataset_rule", how it was made sure that reads reach the device.
    [[nodiscard]] virtual nlohmann::ordered_json parameters() const = 0;

    [[nodiscard]] virtual Result<std::unique_ptr<Suite>> make(const RunOptions& options) const = 0;
};

/// Each kind once, in the order in which they are documented.
std::vector<std::unique_ptr<SuiteKind>> suite_kinds();

/// One for each file, called by suite_kinds.
std::unique_ptr<SuiteKind> seqrand_kind();
std::unique_ptr<SuiteKind> smallfiles_kind();
std::unique_ptr<SuiteKind> epoch_kind();
std::unique_ptr<SuiteKind> depth_kind();
std::unique_ptr<SuiteKind> metadata_kind();
std::unique_ptr<SuiteKind> loader_kind();
std::unique_ptr<SuiteKind> checkpoint_kind();

}  // namespace tierfs::iobench
