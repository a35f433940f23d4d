#include "bench/iobench/data/dataset.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/data/shards.hpp"
#include "bench/iobench/run/progress.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::iobench {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = 4 << 20;  // files of random bytes are made in pieces of this many

std::uint64_t directories_of(const DatasetPlan& plan) {
    const std::uint64_t wanted = plan.directories != 0 ? plan.directories : (plan.files + 999) / 1000;
    return std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(plan.files, 1));
}

bool holds(const std::string& path, const Bytes& expected) {
    auto file = open_for_reading(path);
    if (!file) return false;
    Bytes found(expected.size() + 1);
    const auto n = read_at(*file, found, 0, path);
    return n && *n == expected.size() &&
           (expected.empty() || std::memcmp(found.data(), expected.data(), expected.size()) == 0);
}

/// Takes a piece of a file's bytes at an offset; false: enough.
using Use = std::function<bool(std::uint64_t, const Bytes&)>;

/// Makes a file's bytes piece by piece, the same each time; stops at the first false.
using Produce = std::function<Result<void>(const Use&)>;

Result<void> random_pieces(std::uint64_t seed, std::uint64_t size, const Use& use) {
    for (std::uint64_t at = 0; at < size; at += kPiece) {
        Bytes piece(std::min<std::uint64_t>(kPiece, size - at));
        random_bytes(seed, at, piece);
        if (!use(at, piece)) break;
    }
    return {};
}

/// Whether the file holds what `produce` makes; `hash` is that of the content when it does.
Result<bool> holds_all(const std::string& path, std::uint64_t size, const Produce& produce,
                       std::string& hash) {
    std::error_code error;
    if (fs::file_size(path, error) != size || error) return false;
    auto file = open_for_reading(path);
    if (!file) return false;
    Hasher hasher;
    Bytes found;
    bool same = true;
    auto produced = produce([&](std::uint64_t at, const Bytes& piece) {
        hasher.add(piece);
        found.resize(piece.size());
        const auto n = read_at(*file, found, at, path);
        same = n && *n == piece.size() && std::memcmp(found.data(), piece.data(), piece.size()) == 0;
        return same;
    });
    if (!produced) return fail(produced.error());
    hash = hasher.hex();
    return same;
}

/// Compares the bytes that a shard has to have with those of a file; an error says that they differ.
class Comparison {
  public:
    explicit Comparison(const std::string& path) : path_(path), file_(open_for_reading(path)) {}

    Result<void> take(std::span<const std::byte> bytes) {
        found_.resize(bytes.size());
        const auto n = file_ ? read_at(*file_, found_, at_, path_) : Result<std::size_t>(0);
        if (!n || *n != bytes.size() || std::memcmp(found_.data(), bytes.data(), bytes.size()) != 0)
            return fail(kDifferent, path_ + ": differs");
        hasher.add(bytes);
        at_ += bytes.size();
        return {};
    }
    [[nodiscard]] bool ended() const {
        std::error_code error;
        return fs::file_size(path_, error) == at_ && !error;
    }

    static constexpr int kDifferent = ECANCELED;
    Hasher hasher;

  private:
    const std::string path_;
    Result<Fd> file_;
    Bytes found_;
    std::uint64_t at_ = 0;
};

/// The work of one make_dataset, divided among threads by an atomic index.
class Maker {
  public:
    explicit Maker(const DatasetPlan& plan) : plan_(plan) {
        outcome_.manifest.resize(plan.files + plan.large.size());
        if (plan.records > 1) records_.resize(plan.files * plan.records);
        for (const auto& large : plan.large) total_ += large.size;
        for (std::uint64_t i = 0; i < plan.files * plan.records; ++i) total_ += sample_size(plan, i);
    }

    Result<DatasetOutcome> run() {
        const std::uint64_t samples_total = total_ - large_total();
        if (plan_.shards.any()) total_ += samples_total;
        Progress progress("iobench: making " + plan_.directory, total_);
        auto made = on_threads(progress, plan_.files + plan_.large.size(), [&](std::uint64_t i) {
            if (i >= plan_.files) return make_large(i - plan_.files);
            return plan_.records > 1 ? make_records(i) : make_file(i);
        });
        if (made && plan_.records > 1) made = make_index(kRecordIndex, records_);
        if (made && plan_.shards.any()) made = make_shards(progress);
        if (!made) return fail(explained(made.error()));
        outcome_.written = written_.load();
        outcome_.kept = kept_.load();
        for (const auto& entry : outcome_.manifest) outcome_.bytes += entry.size;
        return std::move(outcome_);
    }

  private:
    Result<void> on_threads(Progress& progress, std::uint64_t count,
                            const std::function<Result<void>(std::uint64_t)>& make) {
        const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
        const unsigned threads_wanted = plan_.threads != 0 ? plan_.threads : processors;
        std::atomic<unsigned> running = threads_wanted;
        std::atomic<std::uint64_t> next = 0;
        std::atomic<bool> stop = false;
        const auto work = [&] {
            for (std::uint64_t i = next.fetch_add(1); i < count && !stop.load(); i = next.fetch_add(1)) {
                auto made = make(i);
                if (made) continue;
                MutexLock lock(mutex_);
                if (!error_) error_ = made.error();
                stop.store(true);
            }
            running.fetch_sub(1);
        };
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < threads_wanted; ++i) threads.emplace_back(work);
        while (running.load() != 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            progress.update(done_bytes_.load());
        }
        for (auto& thread : threads) thread.join();
        MutexLock lock(mutex_);
        if (error_) return fail(*error_);
        return {};
    }

    [[nodiscard]] std::uint64_t large_total() const {
        std::uint64_t total = 0;
        for (const auto& large : plan_.large) total += large.size;
        return total;
    }

    /// A full disk is what a large dataset meets: say how much it takes and what to do.
    [[nodiscard]] Error explained(Error error) const {
        if (error.code != ENOSPC && error.code != EDQUOT && error.code != EFBIG) return error;
        error.message += "; the dataset takes " + std::to_string(total_) + " bytes, of which " +
                         std::to_string(done_bytes_.load()) +
                         " are there: make room and run this again, which keeps what is right";
        return error;
    }

    void count(bool kept) { (kept ? kept_ : written_).fetch_add(1); }

    /// Writes a whole small file unless it is there.
    Result<void> put(const std::string& name, const Bytes& bytes, ManifestEntry& entry) {
        const std::string path = plan_.directory + "/" + name;
        entry = {name, bytes.size(), hash_of(bytes)};
        const bool kept = holds(path, bytes);
        if (!kept) {
            auto written = write_atomically(path, false, [&](const Sink& sink) { return sink(bytes); });
            if (!written) return written;
        }
        count(kept);
        done_bytes_.fetch_add(bytes.size());
        return {};
    }

    Result<void> make_file(std::uint64_t index) {
        const std::string name = file_path(plan_, index);
        const auto bytes =
            make_payload(plan_.kind, derive_seed(plan_.seed, index), sample_size(plan_, index));
        if (!bytes) return fail(bytes.error().within(plan_.directory + "/" + name));
        return put(name, *bytes, outcome_.manifest[index]);
    }

    /// A file that is too large to be made in memory.
    Result<void> put_pieces(const std::string& name, std::uint64_t size, const Produce& produce,
                            ManifestEntry& entry) {
        const std::string path = plan_.directory + "/" + name;
        std::string hash;
        const auto kept = holds_all(path, size, produce, hash);
        if (!kept) return fail(kept.error());
        if (!*kept) {
            Hasher hasher;
            auto written = write_atomically(path, false, [&](const Sink& sink) {
                Result<void> result;
                auto produced = produce([&](std::uint64_t, const Bytes& piece) {
                    hasher.add(piece);
                    done_bytes_.fetch_add(piece.size());
                    return (result = sink(piece)).has_value();
                });
                return produced ? result : produced;
            });
            if (!written) return written;
            hash = hasher.hex();
        }
        count(*kept);
        entry = {name, size, hash};
        return {};
    }

    Result<void> make_large(std::uint64_t index) {
        const LargeFile& large = plan_.large[index];
        const std::uint64_t seed = large_file_seed(plan_.seed, large.name);
        const auto produce = [&](const Use& use) { return random_pieces(seed, large.size, use); };
        return put_pieces(large.name, large.size, produce, outcome_.manifest[plan_.files + index]);
    }

    Result<void> make_records(std::uint64_t index) {
        const std::string name = file_path(plan_, index);
        const std::uint64_t first = index * plan_.records, seed = derive_seed(plan_.seed, index);
        std::uint64_t size = 0;
        for (std::uint64_t i = first; i < first + plan_.records; ++i) size += sample_size(plan_, i);
        const auto produce = [&](const Use& use) -> Result<void> {
            std::uint64_t at = 0;
            for (std::uint64_t i = 0; i < plan_.records; ++i) {
                const auto bytes =
                    make_payload(plan_.kind, derive_seed(seed, i), sample_size(plan_, first + i));
                if (!bytes) return fail(bytes.error().within(plan_.directory + "/" + name));
                records_[first + i] = {name + "#" + std::to_string(i + 1), name, at, bytes->size(),
                                       hash_of(*bytes)};
                if (!use(at, *bytes)) break;
                at += bytes->size();
            }
            return {};
        };
        return put_pieces(name, size, produce, outcome_.manifest[index]);
    }

    Result<void> make_index(std::string_view name, const Index& entries) {
        const std::string text = index_text(entries);
        const auto view = std::as_bytes(std::span(text));
        return put(std::string(name), Bytes(view.begin(), view.end()), outcome_.manifest.emplace_back());
    }

    Result<void> make_shards(Progress& progress) {
        std::vector<std::uint64_t> sizes(plan_.files);
        for (std::uint64_t i = 0; i < plan_.files; ++i) sizes[i] = outcome_.manifest[i].size;
        const auto ranges = divide(plan_.shards, sizes);
        const std::uint64_t before = outcome_.manifest.size();
        outcome_.manifest.resize(before + ranges.size());
        Index index(plan_.files);
        auto made = on_threads(progress, ranges.size(), [&](std::uint64_t i) {
            const auto members = std::span(outcome_.manifest).subspan(ranges[i].first, ranges[i].count);
            const auto entries = std::span(index).subspan(ranges[i].first, ranges[i].count);
            return make_shard(shard_path(i), members, entries, outcome_.manifest[before + i]);
        });
        return made ? make_index(kShardIndex, index) : made;
    }

    Result<void> make_shard(const std::string& name, std::span<const ManifestEntry> members,
                            std::span<IndexEntry> entries, ManifestEntry& made) {
        const std::string path = plan_.directory + "/" + name;
        Comparison comparison(path);
        auto same = produce_shard(plan_.directory, name, members, entries,
                                  [&](std::span<const std::byte> bytes) { return comparison.take(bytes); });
        if (!same && same.error().code != Comparison::kDifferent) return same;
        const bool kept = same && comparison.ended();
        Hasher hasher;
        if (!kept) {
            auto written = write_atomically(path, false, [&](const Sink& sink) {
                return produce_shard(plan_.directory, name, members, entries,
                                     [&](std::span<const std::byte> bytes) {
                                         hasher.add(bytes);
                                         return sink(bytes);
                                     });
            });
            if (!written) return written;
        }
        count(kept);
        std::error_code error;
        made = {name, fs::file_size(path, error), (kept ? comparison.hasher : hasher).hex()};
        for (const auto& member : members) done_bytes_.fetch_add(member.size);
        if (error) return fail(error.value(), path + ": " + error.message());
        return {};
    }

    const DatasetPlan& plan_;
    std::uint64_t total_ = 0;
    DatasetOutcome outcome_;  // each thread writes manifest entries of its own; read after they have ended
    Index records_;           // likewise
    std::atomic<std::uint64_t> done_bytes_ = 0, written_ = 0, kept_ = 0;
    Mutex mutex_;
    std::optional<Error> error_ TIERFS_GUARDED_BY(mutex_);
};

Result<void> check_plan(const DatasetPlan& plan) {
    if (plan.files > 0)
        if (auto checked = check_size(plan.kind, plan.size); !checked) return checked;
    if (plan.files > 99'999'999) return fail(EINVAL, "--files: at most 99999999");
    if (plan.records == 0 || plan.records > 100'000'000)
        return fail(EINVAL, "--records-per-file: from 1 to 100000000");
    if (plan.records > 1 && plan.kind != Kind::tfrecord)
        return fail(EINVAL,
                    "--records-per-file: only with --kind tfrecord; the others are one sample a file");
    if (plan.shards.count != 0 && plan.shards.size != 0)
        return fail(EINVAL, "--tar-shards and --shard-size: give one of them");
    if (plan.shards.any() && (plan.records > 1 || plan.files == 0))
        return fail(EINVAL,
                    "--tar-shards, --shard-size: pack files of one sample each, of which there are none");
    if (plan.shards.count > plan.files)
        return fail(EINVAL, "--tar-shards " + std::to_string(plan.shards.count) + ": more than --files " +
                                std::to_string(plan.files));
    for (const auto& large : plan.large) {
        const fs::path name(large.name);
        const bool outside = name.empty() || name.is_absolute() || !name.has_filename() ||
                             std::find(name.begin(), name.end(), "..") != name.end();
        if (outside || large.name.find_first_of("\t\n") != std::string::npos)
            return fail(EINVAL, "--large " + large.name +
                                    ": give a path inside the dataset, without .., tab or newline");
    }
    return {};
}

Result<void> make_directory(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return fail(error.value(), path.string() + ": cannot be created: " + error.message());
    return {};
}

}  // namespace

std::string file_path(const DatasetPlan& plan, std::uint64_t index) {
    const std::uint64_t directory = plan.files == 0 ? 0 : index * directories_of(plan) / plan.files;
    char text[64];
    std::snprintf(text, sizeof text, "class_%03" PRIu64 "/%08" PRIu64, directory, index + 1);
    return std::string(text) + std::string(extension(plan.kind));
}

std::uint64_t large_file_seed(std::uint64_t seed, const std::string& name) {
    return derive_seed(seed, XXH3_64bits(name.data(), name.size()));
}

std::uint64_t sample_size(const DatasetPlan& plan, std::uint64_t index) {
    if (plan.size_stdev == 0) return plan.size;
    // The sum of n uniform numbers has a variance of n/12: twelve of them, each below 2^32, have one of 2^64.
    constexpr int kNumbers = 12;
    Random random(derive_seed(plan.seed ^ 0x73697a65, index));
    std::uint64_t sum = 0;
    for (int i = 0; i < kNumbers; ++i) sum += random.next() >> 32;
    __extension__ using Wide = __int128;
    const Wide above = static_cast<Wide>(sum) - (static_cast<Wide>(kNumbers / 2) << 32);
    const Wide size =
        static_cast<Wide>(plan.size) + above * static_cast<Wide>(plan.size_stdev) / (Wide{1} << 32);
    const SizeRange range = size_range(plan.kind);
    const auto least = static_cast<Wide>(std::max(range.least, plan.size / 16));
    const auto most = std::min(static_cast<Wide>(range.most),
                               static_cast<Wide>(plan.size) + 4 * static_cast<Wide>(plan.size_stdev));
    return static_cast<std::uint64_t>(std::clamp(size, least, most));
}

Result<DatasetOutcome> make_dataset(const DatasetPlan& plan) {
    if (auto checked = check_plan(plan); !checked) return fail(checked.error());
    if (auto made = make_directory(plan.directory); !made) return fail(made.error());
    std::string last;
    for (std::uint64_t i = 0; i < plan.files; ++i) {
        const fs::path parent = fs::path(file_path(plan, i)).parent_path();
        if (parent == last) continue;
        last = parent.string();
        if (auto made = make_directory(plan.directory / parent); !made) return fail(made.error());
    }
    for (const auto& large : plan.large)
        if (auto made = make_directory((plan.directory / fs::path(large.name)).parent_path()); !made)
            return fail(made.error());
    if (plan.shards.any())
        if (auto made = make_directory(plan.directory + "/shards"); !made) return fail(made.error());
    return Maker(plan).run();
}

}  // namespace tierfs::iobench
