#include <sys/statvfs.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench/iobench/run/gate.hpp"
#include "bench/iobench/suites/checkpoint_rank.hpp"
#include "bench/iobench/suites/names.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

namespace {

struct Shape {
    unsigned ranks = 4;
    std::uint64_t size = 256 << 20, chunk = 4 << 20;  // bytes
};

/// Removes what a run leaves in its directory, also when it failed.
class Cleaned {
  public:
    explicit Cleaned(Scratch& scratch) : scratch_(scratch) {}
    ~Cleaned() { static_cast<void>(scratch_.remove()); }
    Cleaned(const Cleaned&) = delete;
    Cleaned& operator=(const Cleaned&) = delete;

  private:
    Scratch& scratch_;
};

/// Earlier than by the first write that fails. File systems that do not know their size say 0.
Result<void> check_room(const std::string& path, std::uint64_t needed) {
    struct statvfs room {};
    if (::statvfs(path.c_str(), &room) != 0) return fail(system_error(errno, path));
    const std::uint64_t free = room.f_bavail * room.f_frsize;
    if (room.f_blocks != 0 && free < needed)
        return fail(ENOSPC, path + ": " + std::to_string(free) + " bytes are free, a checkpoint takes " +
                                std::to_string(needed) +
                                "; choose smaller --checkpoint-size or fewer --checkpoint-ranks");
    return {};
}

/// Over all ranks. Seconds, and MB (10^6 bytes) a second.
struct Figures {
    double longest = 0, least_rate = 0, total_rate = 0, fsync = 0;
};

Figures figures_of(Shared<RankTimes>& ranks, std::uint64_t size) {
    Figures figures;
    std::uint64_t first = ranks[0].started, last = 0, count = 0, longest = 1, fsync = 0;
    for (const RankTimes& rank : ranks) {
        first = std::min(first, rank.started);
        last = std::max(last, rank.ended);
        longest = std::max(longest, rank.ended - rank.started);
        fsync = std::max(fsync, rank.fsync);
        ++count;
    }
    const auto megabytes = static_cast<double>(size) / 1e6;
    figures.longest = static_cast<double>(longest) / 1e9;
    figures.fsync = static_cast<double>(fsync) / 1e9;
    figures.least_rate = megabytes / figures.longest;  // all ranks have the same size
    figures.total_rate =
        megabytes * static_cast<double>(count) / (static_cast<double>(std::max(last - first, longest)) / 1e9);
    return figures;
}

class Checkpoint : public Suite {
  public:
    Checkpoint(const RunOptions& options, const Shape& shape, std::unique_ptr<Scratch> scratch)
        : options_(options), shape_(shape), scratch_(std::move(scratch)) {}

    [[nodiscard]] std::vector<std::string> cases() const override {
        return {"ranks-" + std::to_string(shape_.ranks)};
    }

    Result<Metrics> run(std::size_t /*which*/, std::uint64_t seed) override {
        if (auto room = check_room(options_.path, shape_.size * shape_.ranks); !room)
            return fail(room.error());
        if (auto made = scratch_->make(); !made) return fail(made.error());
        const Cleaned cleaned(*scratch_);
        Shared<RankTimes> writes(shape_.ranks), reads(shape_.ranks);
        if (auto done = by_all(scratch_->path(), seed, write_rank, writes, DropCaches::none); !done)
            return fail(done.error());
        if (auto done = by_all(scratch_->path(), seed, read_rank, reads, options_.drop); !done)
            return fail(done.error());
        if (auto removed = scratch_->remove(); !removed) return fail(removed.error());
        const Figures write = figures_of(writes, shape_.size), read = figures_of(reads, shape_.size);
        return Metrics{{"write_mb_per_s", write.least_rate, Better::higher},
                       {"write_total_mb_per_s", write.total_rate, Better::higher},
                       {"write_s", write.longest, Better::lower},
                       {"fsync_s", write.fsync, Better::lower},
                       {"read_mb_per_s", read.least_rate, Better::higher},
                       {"read_total_mb_per_s", read.total_rate, Better::higher},
                       {"read_s", read.longest, Better::lower}};
    }

  private:
    using Phase = Result<void> (*)(const RankPlan&, RankTimes&, const std::function<void()>&);

    Result<void> by_all(const std::string& directory, std::uint64_t seed, Phase phase,
                        Shared<RankTimes>& times, DropCaches drop) {
        Gate gate(shape_.ranks);
        Workers workers(shape_.ranks, [&](unsigned rank) {
            return phase({directory, rank, shape_.size, shape_.chunk, seed}, times[rank],
                         [&] { gate.wait(); });
        });
        workers.release();
        if (auto ready = gate.gather(workers); !ready) return ready;
        if (auto dropped = drop_caches(drop); !dropped) return dropped;
        gate.open();
        return workers.wait();
    }

    const RunOptions options_;
    const Shape shape_;
    const std::unique_ptr<Scratch> scratch_;  // of the process that made it: it cleans up after a killed run
};

class CheckpointKind : public SuiteKind {
  public:
    [[nodiscard]] std::string name() const override { return "checkpoint"; }
    [[nodiscard]] std::string help() const override {
        return "--checkpoint-ranks processes each write a file of --checkpoint-size by writes of --chunk, "
               "fsync it, "
               "rename it "
               "into place and fsync the directory; when all have, caches are dropped as --drop-caches says, "
               "and "
               "each reads its file back and compares every byte (also without --verify). Everything lies in "
               "one "
               "new directory below --path, which is removed at the end of each run, also of one that "
               "failed. "
               "write_s, fsync_s, read_s: of the slowest rank. write_mb_per_s, read_mb_per_s: of the slowest "
               "rank, "
               "as MLPerf Storage reports them; write_total_mb_per_s, read_total_mb_per_s: the bytes of all "
               "ranks "
               "from the first one's start to the last one's end.";
    }
    void add_options(CLI::App& app) override {
        app.add_option("--checkpoint-ranks", shape_.ranks, "checkpoint: processes that write a file each")
            ->check(CLI::Range(1U, 4096U))
            ->capture_default_str();
        app.add_option("--checkpoint-size", shape_.size,
                       "checkpoint: bytes of each rank's file; default 256M")
            ->transform(CLI::AsSizeValue(false))
            ->option_text("SIZE");
        app.add_option("--chunk", shape_.chunk, "checkpoint: bytes of one write, of one read; default 4M")
            ->transform(CLI::AsSizeValue(false))
            ->option_text("SIZE");
    }
    [[nodiscard]] nlohmann::ordered_json parameters() const override {
        return {{"ranks", shape_.ranks}, {"checkpoint_size", shape_.size}, {"chunk", shape_.chunk}};
    }
    [[nodiscard]] Result<std::unique_ptr<Suite>> make(const RunOptions& options) const override {
        if (shape_.size == 0 || shape_.size > std::uint64_t{1} << 50)
            return fail(EINVAL, "--checkpoint-size: choose from 1 to 2^50 bytes");
        if (shape_.chunk == 0 || shape_.chunk % 4096 != 0 || shape_.chunk > std::uint64_t{1} << 30)
            return fail(EINVAL, "--chunk: choose a multiple of 4096, at most 1G");
        // a mount that is read-only or full is known before anything is measured
        auto scratch = Scratch::reserve(options.path);
        if (!scratch) return fail(scratch.error());
        if (auto room = check_room(options.path, shape_.size * shape_.ranks); !room)
            return fail(room.error());
        return std::make_unique<Checkpoint>(options, shape_, std::move(*scratch));
    }

  private:
    Shape shape_;
};

}  // namespace

std::unique_ptr<SuiteKind> checkpoint_kind() {
    return std::make_unique<CheckpointKind>();
}

}  // namespace tierfs::iobench
