#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <numeric>

#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/run/gate.hpp"
#include "bench/iobench/suites/seqrand_reader.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

namespace {

struct SeqrandChoice {
    std::vector<std::string> files;  ///< relative to the directory; none: the largest
    Matrix matrix;
    double seconds = 5;
    std::uint64_t bytes = 0;     ///< of all readers together; 0: no limit
    std::uint64_t gen_seed = 1;  ///< that iobench gen was given
    bool time_based = false, advise = false;
};

class SeqRand : public Suite {
  public:
    SeqRand(const RunOptions& options, const SeqrandChoice& choice, std::vector<ReadCase> cases,
            std::vector<ReadFile> files, std::vector<Content> contents)
        : options_(options),
          choice_(choice),
          cases_(std::move(cases)),
          files_(std::move(files)),
          contents_(std::move(contents)) {}

    [[nodiscard]] std::vector<std::string> cases() const override {
        std::vector<std::string> names;
        names.reserve(cases_.size());
        for (const ReadCase& one : cases_) names.push_back(one.name());
        return names;
    }

    Result<Metrics> run(std::size_t which, std::uint64_t seed) override {
        const ReadCase& one = cases_[which];
        Shared<Tally> tallies(one.threads);
        Gate gate(one.threads);
        Workers workers(one.threads,
                        [&](unsigned index) { return read(one, index, seed, gate, tallies[index]); });
        workers.release();
        if (auto ready = gate.gather(workers); !ready) return fail(ready.error());
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        gate.open();
        if (auto done = workers.wait(); !done) return fail(explained(one, done.error()));
        return figures(tallies);
    }

  private:
    Result<void> read(const ReadCase& one, unsigned index, std::uint64_t seed, Gate& gate, Tally& tally) {
        auto reader = make_reader({files_, one, contents_, choice_.advise});
        if (!reader) return fail(reader.error());
        const Limits limits{choice_.seconds, (choice_.bytes + one.threads - 1) / one.threads,
                            choice_.time_based};
        Feed feed(files_, one, index, seed, limits);
        // SIGBUS ends this process, and the parent says why, also where a sanitizer has a handler of its own.
        if (one.mode == Mode::mmap) static_cast<void>(std::signal(SIGBUS, SIG_DFL));
        gate.wait();
        return (*reader)->read(feed, tally);
    }

    static Error explained(const ReadCase& one, Error error) {
        if (one.mode == Mode::mmap && error.message.find("signal 7") != std::string::npos)
            error.message +=
                " (SIGBUS: a page of the mapped file could not be read, by an I/O error or because "
                "the file has become shorter)";
        return error;
    }

    static Metrics figures(Shared<Tally>& tallies) {
        Tally sum;
        sum.started = tallies[0].started;
        for (const Tally& tally : tallies) {
            sum.started = std::min(sum.started, tally.started);
            sum.ended = std::max(sum.ended, tally.ended);
            sum.reads += tally.reads;
            sum.bytes += tally.bytes;
            sum.latencies.add(tally.latencies);
        }
        const double seconds = static_cast<double>(std::max<std::uint64_t>(sum.ended - sum.started, 1)) / 1e9;
        return {{"mb_per_s", static_cast<double>(sum.bytes) / 1e6 / seconds, Better::higher},
                {"reads_per_s", static_cast<double>(sum.reads) / seconds, Better::higher},
                {"p50_us", sum.latencies.quantile(0.5) / 1e3, Better::lower},
                {"p99_us", sum.latencies.quantile(0.99) / 1e3, Better::lower},
                {"p999_us", sum.latencies.quantile(0.999) / 1e3, Better::lower}};
    }

    const RunOptions options_;
    const SeqrandChoice choice_;
    const std::vector<ReadCase> cases_;
    const std::vector<ReadFile> files_;
    const std::vector<Content> contents_;
};

/// The largest file below the directory.
Result<std::vector<ReadFile>> largest(const std::string& directory) {
    const auto found = walk(directory);
    if (!found) return fail(found.error());
    const auto chosen = std::max_element(found->begin(), found->end(),
                                         [](const auto& a, const auto& b) { return a.size < b.size; });
    if (chosen == found->end()) return fail(ENOENT, directory + ": no file in it to read");
    return std::vector<ReadFile>{{directory + "/" + chosen->path, chosen->path, chosen->size}};
}

Result<std::vector<ReadFile>> named(const std::string& directory, const std::vector<std::string>& names) {
    std::vector<ReadFile> files;
    for (const auto& name : names) {
        const std::string path = directory + "/" + name;
        struct stat attributes {};
        if (::lstat(path.c_str(), &attributes) != 0) return fail(system_error(errno, path));
        if (!S_ISREG(attributes.st_mode)) return fail(EINVAL, path + ": is not a regular file");
        files.push_back({path, name, static_cast<std::uint64_t>(attributes.st_size)});
    }
    return files;
}

Result<void> check_case(const ReadCase& one, const std::vector<ReadFile>& files) {
    for (const auto& file : files) {
        if (file.size < one.block)
            return fail(EINVAL, file.path + ": its " + std::to_string(file.size) +
                                    " bytes are less than one block of " + std::to_string(one.block) +
                                    " bytes; choose smaller --block-sizes or another --file");
        if (one.mode == Mode::direct)
            if (auto possible = check_direct(file, one.block); !possible) return possible;
    }
    if (one.engine == Engine::iouring) return check_iouring();
    return {};
}

Result<std::vector<Content>> contents_of(const std::string& manifest_path, const std::vector<ReadFile>& files,
                                         const SeqrandChoice& choice) {
    if (manifest_path.empty()) return std::vector<Content>{};
    const auto manifest = read_manifest(manifest_path);
    if (!manifest) return fail(manifest.error());
    std::uint64_t unit = 0;  // every block of every case has to be whole units
    for (const std::uint64_t block : choice.matrix.blocks) unit = std::gcd(unit, block);
    std::vector<Content> contents;
    for (const auto& file : files) {
        const auto entry = std::find_if(manifest->begin(), manifest->end(),
                                        [&](const auto& one) { return one.path == file.relative; });
        if (entry == manifest->end()) return fail(EINVAL, file.path + ": is not in " + manifest_path);
        auto content = Content::of(file, *entry, unit, choice.gen_seed);
        if (!content) return fail(content.error());
        contents.push_back(std::move(*content));
    }
    return contents;
}

class SeqRandKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "seqrand"; }
    [[nodiscard]] std::string help() const override {
        return "Reads the largest file (or those of --file) in blocks, one case for each combination of "
               "--orders, "
               "--block-sizes, --modes, --engines, --depths (io_uring) and --threads; mmap copies each block "
               "out "
               "of a mapping and has no engine. A thread is a process with descriptors of its own (fio's "
               "numjobs). The blocks of all files are one list, of which each thread reads a part: in order, "
               "or "
               "in a random order in which each comes once (fio's norandommap=0). A run ends when all are "
               "read, "
               "after --seconds or after --bytes, whichever comes first. mb_per_s and reads_per_s: from the "
               "first thread's start to the last one's end, files open and memory there. p50_us, p99_us, "
               "p999_us: "
               "of one read, from its submission to its completion. io_uring registers files and buffers "
               "where "
               "the limit of locked memory lets it. --verify checks every block that is read, in the time "
               "that is measured: files of iobench gen --large are made again from --gen-seed for that, "
               "others "
               "are read once before.";
    }
    void add_options(CLI::App& app) override {
        Matrix& matrix = choice_.matrix;
        app.add_option("--file", choice_.files,
                       "seqrand: a file to read, relative to --path; may be repeated; default: the largest")
            ->take_all();
        app.add_option("--orders", matrix.orders, "seqrand: of read (in order), randread")
            ->delimiter(',')
            ->check(CLI::IsMember({"read", "randread"}))
            ->capture_default_str();
        app.add_option("--block-sizes", matrix.blocks, "seqrand: 512 to 64M; default 4K,64K,1M")
            ->delimiter(',')
            ->transform(CLI::AsSizeValue(false))
            ->option_text("SIZE,...");
        app.add_option("--modes", matrix.modes, "seqrand: of buffered, direct (O_DIRECT), mmap")
            ->delimiter(',')
            ->check(CLI::IsMember({"buffered", "direct", "mmap"}))
            ->capture_default_str();
        app.add_option("--engines", matrix.engines, "seqrand: of pread, io_uring")
            ->delimiter(',')
            ->check(CLI::IsMember({"pread", "io_uring", "iouring"}))
            ->capture_default_str();
        app.add_option("--depths", matrix.depths, "seqrand: reads in flight of each thread with io_uring")
            ->delimiter(',')
            ->capture_default_str();
        app.add_option("--threads", matrix.threads, "seqrand: how many read at the same time")
            ->delimiter(',')
            ->capture_default_str();
        add_limits(app);
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        const Matrix& matrix = choice_.matrix;
        return {{"file", choice_.files},        {"orders", matrix.orders},
                {"block_sizes", matrix.blocks}, {"modes", matrix.modes},
                {"engines", matrix.engines},    {"depths", matrix.depths},
                {"threads", matrix.threads},    {"seconds", choice_.seconds},
                {"bytes", choice_.bytes},       {"time_based", choice_.time_based},
                {"advise", choice_.advise},     {"gen_seed", choice_.gen_seed}};
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        auto cases = cases_of(choice_.matrix);
        if (!cases) return fail(cases.error());
        auto files = choice_.files.empty() ? largest(options.path) : named(options.path, choice_.files);
        if (!files) return fail(files.error());
        for (const ReadCase& one : *cases)
            if (auto possible = check_case(one, *files); !possible) return fail(possible.error());
        auto contents = contents_of(options.manifest, *files, choice_);
        if (!contents) return fail(contents.error());
        return std::make_unique<SeqRand>(options, choice_, std::move(*cases), std::move(*files),
                                         std::move(*contents));
    }

  private:
    void add_limits(CLI::App& app) {
        app.add_option("--seconds", choice_.seconds, "seqrand: a run ends after so long at the latest")
            ->check(CLI::Range(0.001, 86400.0))
            ->capture_default_str();
        app.add_option("--bytes", choice_.bytes,
                       "seqrand: a run ends after so much, of all threads together; default: no limit")
            ->transform(CLI::AsSizeValue(false))
            ->option_text("SIZE");
        app.add_flag("--time-based", choice_.time_based,
                     "seqrand: begin anew at the end of the files, until --seconds are over");
        app.add_flag(
            "--advise", choice_.advise,
            "seqrand: tell the kernel the order by posix_fadvise or madvise, as fio does; most programs "
            "do not");
        app.add_option("--gen-seed", choice_.gen_seed,
                       "seqrand: the --seed that iobench gen was given, for --verify")
            ->capture_default_str();
    }

    SeqrandChoice choice_;
};

}  // namespace

std::unique_ptr<SuiteKind> seqrand_kind() {
    return std::make_unique<SeqRandKind>();
}

}  // namespace tierfs::iobench
