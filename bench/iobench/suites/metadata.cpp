#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "bench/iobench/data/random.hpp"
#include "bench/iobench/run/statistics.hpp"
#include "bench/iobench/run/workers.hpp"
#include "bench/iobench/suites/names.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

namespace {

struct MetadataChoice {
    std::vector<std::string> operations;  // none: all
    std::uint64_t names = 0;              // 0: all
    bool write = false;
    std::uint64_t write_names = 1000;  // of each process
    std::uint64_t write_size = 0;
};

/// Of one process.
struct Share {
    std::uint64_t start_ns, end_ns, names;
    std::uint64_t first_entry_ns;  // the longest of its directories
};

/// One process's part of an operation that is repeated: number i of n, timed by itself.
using Operation = std::function<Result<void>(unsigned process, std::size_t number)>;

Result<void> checked(int result, const std::string& path, const char* what) {
    if (result == 0) return {};
    return fail(system_error(errno, path + ": " + what));
}

Result<void> look_up(const std::string& path) {
    struct stat attributes {};
    return checked(::lstat(path.c_str(), &attributes), path, "lstat");
}

Result<void> open_and_close(const std::string& path) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail(system_error(errno, path));
    if (const int code = file.close(); code != 0) return fail(system_error(code, path + ": close"));
    return {};
}

/// `path` must not exist.
Result<void> look_up_absent(const std::string& path) {
    struct stat attributes {};
    if (::lstat(path.c_str(), &attributes) == 0)
        return fail(EEXIST, path + ": exists, though nobody made it");
    if (errno != ENOENT) return fail(system_error(errno, path + ": lstat"));
    return {};
}

Result<void> create_file(const std::string& path, const std::vector<std::byte>& content) {
    Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return fail(system_error(errno, path));
    for (std::size_t done = 0; done < content.size();) {
        const ssize_t n = ::write(file.get(), content.data() + done, content.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(system_error(errno, path + ": write"));
        done += static_cast<std::size_t>(n);
    }
    if (const int code = file.close(); code != 0) return fail(system_error(code, path + ": close"));
    return {};
}

/// The writing cases work on these names: each process in a directory of its own, as ranks that write their
/// own files do.
struct OwnNames {
    std::string scratch;
    [[nodiscard]] std::string directory(unsigned process) const {
        return scratch + "/" + std::to_string(process);
    }
    [[nodiscard]] std::string name(unsigned process, std::size_t number, const char* prefix) const {
        return directory(process) + "/" + prefix + std::to_string(number);
    }
};

constexpr std::array<std::string_view, 6> kReading = {"list", "stat", "find", "lookup", "open", "negative"};
constexpr std::array<std::string_view, 5> kWriting = {"create", "rename", "unlink", "mkdir", "rmdir"};

std::vector<std::string> all_cases(bool write) {
    std::vector<std::string> names(kReading.begin(), kReading.end());
    if (write) names.insert(names.end(), kWriting.begin(), kWriting.end());
    return names;
}

bool reads_names(const std::string& name) {
    return std::find(kReading.begin(), kReading.end(), name) != kReading.end();
}

class Metadata : public Suite {
  public:
    Metadata(const RunOptions& options, const MetadataChoice& choice, NameTree tree,
             std::unique_ptr<Scratch> scratch)
        : options_(options),
          choice_(choice),
          tree_(std::move(tree)),
          scratch_(std::move(scratch)),
          content_(choice.write_size) {
        random_bytes(1, 0, content_);
    }

    [[nodiscard]] std::vector<std::string> cases() const override {
        auto names = all_cases(choice_.write);
        const auto& wanted = choice_.operations;
        if (!wanted.empty())
            std::erase_if(names, [&](const auto& name) {
                return std::find(wanted.begin(), wanted.end(), name) == wanted.end();
            });
        return names;
    }

    Result<Metrics> run(std::size_t which, std::uint64_t seed) override {
        const std::string name = cases().at(which);
        if (name == "list") return list();
        if (name == "stat") return stat_all();
        if (name == "find") return find();
        if (reads_names(name)) return known_names(name, seed);
        return in_scratch(name);
    }

  private:
    Result<Metrics> list() {
        return walking(
            [&](Share& share, Shared<float>&) -> Result<void> {
                for (const auto& directory : tree_.directories) {
                    const std::uint64_t before = now_ns();
                    std::uint64_t here = 0;
                    auto listed = for_each_name(directory, [&](int, const dirent&) -> Result<void> {
                        if (here++ == 0)
                            share.first_entry_ns = std::max(share.first_entry_ns, now_ns() - before);
                        return {};
                    });
                    if (!listed) return listed;
                    share.names += here;
                }
                return {};
            },
            [](const Share& share, const std::vector<double>&, Metrics& metrics) {
                metrics.push_back(
                    {"first_entry_ms", static_cast<double>(share.first_entry_ns) / 1e6, Better::lower});
            });
    }

    /// As `ls -l`: all names of a directory first, then the attributes of each.
    Result<Metrics> stat_all() {
        return walking(
            [&](Share& share, Shared<float>& latencies) -> Result<void> {
                std::vector<std::string> paths;
                for (const auto& directory : tree_.directories) {
                    paths.clear();
                    auto listed = for_each_name(directory, [&](int, const dirent& entry) -> Result<void> {
                        paths.push_back(directory + "/" + entry.d_name);
                        return {};
                    });
                    if (!listed) return listed;
                    for (const auto& path : paths) {
                        const std::uint64_t before = now_ns();
                        if (auto known = look_up(path); !known) return known;
                        if (share.names < tree_.names)
                            latencies[share.names] = static_cast<float>(now_ns() - before) / 1000;
                        ++share.names;
                    }
                }
                return {};
            },
            [](const Share&, const std::vector<double>& latencies, Metrics& metrics) {
                metrics.push_back({"p50_us", quantile(latencies, 0.5), Better::lower});
                metrics.push_back({"p99_us", quantile(latencies, 0.99), Better::lower});
            });
    }

    /// As `find -size`: the tree is found anew, and each name's attributes are asked for when it is seen.
    Result<Metrics> find() {
        return walking(
            [&](Share& share, Shared<float>&) -> Result<void> {
                std::vector<std::string> left = {options_.path};
                while (!left.empty()) {
                    const std::string here = left.back();
                    left.pop_back();
                    auto listed = for_each_name(here, [&](int fd, const dirent& entry) -> Result<void> {
                        struct stat attributes {};
                        if (::fstatat(fd, entry.d_name, &attributes, AT_SYMLINK_NOFOLLOW) != 0)
                            return fail(system_error(errno, here + "/" + entry.d_name + ": fstatat"));
                        ++share.names;
                        if (S_ISDIR(attributes.st_mode)) left.push_back(here + "/" + entry.d_name);
                        return {};
                    });
                    if (!listed) return listed;
                }
                return {};
            },
            [](const Share&, const std::vector<double>&, Metrics&) {});
    }

    using Walk = std::function<Result<void>(Share&, Shared<float>&)>;
    using More = std::function<void(const Share&, const std::vector<double>&, Metrics&)>;

    /// One process walks, as ls and find do. It is a child: what interrupts the walk leaves us alive.
    Result<Metrics> walking(const Walk& walk, const More& more) {
        Shared<Share> share(1);
        Shared<float> latencies(tree_.names);  // microseconds
        Workers worker(1, [&](unsigned) {
            share[0].start_ns = now_ns();
            auto walked = walk(share[0], latencies);
            share[0].end_ns = now_ns();
            return walked;
        });
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        worker.release();
        if (auto done = worker.wait(); !done) return fail(done.error());
        if (share[0].names != tree_.names)
            return fail(EIO, options_.path + ": has " + std::to_string(share[0].names) + " names, had " +
                                 std::to_string(tree_.names) +
                                 " before: something changes it, or listings of it are not reliable");
        const double seconds = static_cast<double>(share[0].end_ns - share[0].start_ns) / 1e9;
        Metrics metrics = {{"names_per_s", static_cast<double>(tree_.names) / seconds, Better::higher},
                           {"seconds", seconds, Better::lower}};
        more(share[0], std::vector<double>(latencies.begin(), latencies.end()), metrics);
        metrics.push_back({"names", static_cast<double>(tree_.names)});
        metrics.push_back({"directories", static_cast<double>(tree_.directories.size())});
        return metrics;
    }

    /// lookup, open and negative: shuffled files, divided among the processes.
    Result<Metrics> known_names(const std::string& name, std::uint64_t seed) {
        std::vector<std::uint32_t> order(tree_.files.size());
        std::iota(order.begin(), order.end(), 0U);
        shuffle(order, seed);
        if (choice_.names != 0 && choice_.names < order.size()) order.resize(choice_.names);
        // A name of its own, not the file's with something added: that may be too long for a name.
        const std::string absent = "/.iobench-absent-" + std::to_string(seed) + "-";
        // Chosen once, not inside the time of each operation.
        if (name == "lookup")
            return repeated(order.size(), [&](unsigned, std::size_t number) {
                return look_up(tree_.files[order[number]]);
            });
        if (name == "open")
            return repeated(order.size(), [&](unsigned, std::size_t number) {
                return open_and_close(tree_.files[order[number]]);
            });
        return repeated(order.size(), [&](unsigned, std::size_t number) {
            const std::string& file = tree_.files[order[number]];
            return look_up_absent(file.substr(0, file.rfind('/')) + absent + std::to_string(number));
        });
    }

    /// The writing cases. What they need is made before the time that is measured, and everything is removed.
    Result<Metrics> in_scratch(const std::string& name) {
        if (auto made = scratch_->make(); !made) return fail(made.error());
        const OwnNames own{scratch_->path()};
        const auto prepared = prepare(own, name);
        auto metrics = prepared ? repeated(choice_.write_names * options_.processes, writing(name, own))
                                : Result<Metrics>(fail(prepared.error()));
        if (auto removed = scratch_->remove(); metrics && !removed) return fail(removed.error());
        return metrics;
    }

    /// `own` outlives what is returned.
    Operation writing(const std::string& name, const OwnNames& own) {
        const auto on_path = [&own](auto call, const char* what) -> Operation {
            return [&own, call, what](unsigned process, std::size_t number) {
                const std::string path = own.name(process, number, "");
                return checked(call(path.c_str()), path, what);
            };
        };
        if (name == "unlink") return on_path(::unlink, "unlink");
        if (name == "rmdir") return on_path(::rmdir, "rmdir");
        if (name == "mkdir") return on_path([](const char* path) { return ::mkdir(path, 0700); }, "mkdir");
        if (name == "create")
            return [&](unsigned process, std::size_t number) {
                return create_file(own.name(process, number, ""), content_);
            };
        return [&own](unsigned process, std::size_t number) {
            const std::string path = own.name(process, number, "");
            return checked(::rename(path.c_str(), own.name(process, number, "renamed-").c_str()), path,
                           "rename");
        };
    }

    Result<void> prepare(const OwnNames& own, const std::string& name) {
        Workers workers(options_.processes, [&](unsigned process) -> Result<void> {
            const std::string directory = own.directory(process);
            if (auto made = checked(::mkdir(directory.c_str(), 0700), directory, "mkdir"); !made) return made;
            if (name == "create" || name == "mkdir") return {};
            for (std::size_t i = process; i < choice_.write_names * options_.processes;
                 i += options_.processes) {
                const std::string path = own.name(process, i, "");
                auto made = name == "rmdir" ? checked(::mkdir(path.c_str(), 0700), path, "mkdir")
                                            : create_file(path, content_);
                if (!made) return made;
            }
            return {};
        });
        workers.release();
        return workers.wait();
    }

    /// Numbers 0 … count-1, in turns to each process.
    Result<Metrics> repeated(std::size_t count, const Operation& operation) {
        Shared<Share> shares(options_.processes);
        Shared<float> latencies(count);  // microseconds
        Workers workers(options_.processes, [&](unsigned process) -> Result<void> {
            shares[process].start_ns = now_ns();
            for (std::size_t i = process; i < count; i += options_.processes) {
                const std::uint64_t before = now_ns();
                if (auto done = operation(process, i); !done) return done;
                latencies[i] = static_cast<float>(now_ns() - before) / 1000;
            }
            shares[process].end_ns = now_ns();
            return {};
        });
        if (auto dropped = drop_caches(options_.drop); !dropped) return fail(dropped.error());
        workers.release();
        if (auto done = workers.wait(); !done) return fail(done.error());
        std::uint64_t start = ~0ULL, end = 0;
        for (const Share& share : shares) {
            start = std::min(start, share.start_ns);
            end = std::max(end, share.end_ns);
        }
        const double seconds = static_cast<double>(end - start) / 1e9;
        const std::vector<double> sample(latencies.begin(), latencies.end());
        return Metrics{{"ops_per_s", static_cast<double>(count) / seconds, Better::higher},
                       {"p50_us", quantile(sample, 0.5), Better::lower},
                       {"p99_us", quantile(sample, 0.99), Better::lower},
                       {"seconds", seconds, Better::lower},
                       {"ops", static_cast<double>(count)}};
    }

    const RunOptions options_;
    const MetadataChoice choice_;
    const NameTree tree_;
    const std::unique_ptr<Scratch> scratch_;  // none: nothing is written
    std::vector<std::byte> content_;
};

class MetadataKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "metadata"; }
    [[nodiscard]] std::string help() const override {
        return "Names and attributes, no content. One process, all directories below --path: list "
               "(readdir), stat (all names of a directory, then lstat of each, as ls -l), find (walks "
               "the tree anew, lstat of each name as it is seen, as find -size). By --processes, in "
               "shuffled order: lookup (lstat of each file by its path), open (open and close), "
               "negative (lstat of names that do not exist). With --write also, each process in a "
               "directory of its own below --path that is removed afterwards: create, rename, unlink, "
               "mkdir, rmdir. names_per_s, ops_per_s: from the first process's start to the last one's "
               "end. p50_us, p99_us: of one operation. first_entry_ms: the longest time of any "
               "directory from opendir to its first name. The walk that finds the names leaves them in "
               "the kernel's caches: --drop-caches all measures without those.";
    }
    void add_options(CLI::App& app) override {
        app.add_option("--operations", choice_.operations,
                       "metadata: which cases, a list; default: all, those that write only with --write")
            ->delimiter(',')
            ->check(CLI::IsMember(all_cases(true)))
            ->option_text("NAME,...");
        app.add_option("--names", choice_.names,
                       "metadata: lookup, open, negative: at most so many of the shuffled files; 0: all")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
        app.add_flag("--write", choice_.write,
                     "metadata: also create, rename, unlink, mkdir, rmdir; nothing is written without this");
        app.add_option("--write-names", choice_.write_names,
                       "metadata: files or directories that each process makes in a run of a writing case")
            ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10'000'000}))
            ->capture_default_str();
        app.add_option("--write-size", choice_.write_size, "metadata: bytes of each file made; default 0")
            ->transform(CLI::AsSizeValue(false))
            ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{64} << 20))
            ->option_text("SIZE");
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return {{"operations", choice_.operations},
                {"names", choice_.names},
                {"write", choice_.write},
                {"write_names", choice_.write_names},
                {"write_size", choice_.write_size}};
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        if (!options.manifest.empty())
            return fail(EINVAL, "metadata reads no content that --verify could check");
        const auto possible = all_cases(choice_.write);
        for (const auto& name : choice_.operations)
            if (std::find(possible.begin(), possible.end(), name) == possible.end())
                return fail(EINVAL, "--operations " + name + ": writes, and needs --write");
        auto tree = find_names(options.path);
        if (!tree) return fail(tree.error());
        const bool only_writes =
            std::none_of(choice_.operations.begin(), choice_.operations.end(), reads_names) &&
            !choice_.operations.empty();
        if (tree->files.empty() && !only_writes)
            return fail(ENOENT, options.path +
                                    ": no file in it, which the cases that read names need; with --write, "
                                    "--operations create,rename,unlink measures those that write alone");
        std::unique_ptr<Scratch> scratch;
        if (choice_.write) {
            // Said now, not after the reading cases, which may have taken an hour.
            auto reserved = Scratch::reserve(options.path);
            if (!reserved) return fail(reserved.error().within("--write"));
            scratch = std::move(*reserved);
        }
        return std::make_unique<Metadata>(options, choice_, std::move(*tree), std::move(scratch));
    }

  private:
    MetadataChoice choice_;
};

}  // namespace

std::unique_ptr<SuiteKind> metadata_kind() {
    return std::make_unique<MetadataKind>();
}

}  // namespace tierfs::iobench
