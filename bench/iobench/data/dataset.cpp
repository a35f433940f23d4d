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
#include "bench/iobench/run/progress.hpp"
#include "config/mutex.hpp"

namespace tierfs::iobench {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = 4 << 20;  // large files are made and compared in pieces of this many bytes

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

/// Hands the bytes of a large file to `use` piece by piece; stops at its first false.
bool each_piece(std::uint64_t seed, std::uint64_t size,
                const std::function<bool(std::uint64_t, const Bytes&)>& use) {
    for (std::uint64_t at = 0; at < size; at += kPiece) {
        Bytes piece(std::min<std::uint64_t>(kPiece, size - at));
        random_bytes(seed, at, piece);
        if (!use(at, piece)) return false;
    }
    return true;
}

bool holds_large(const std::string& path, std::uint64_t seed, std::uint64_t size, std::string& hash) {
    std::error_code error;
    if (fs::file_size(path, error) != size || error) return false;
    auto file = open_for_reading(path);
    if (!file) return false;
    Hasher hasher;
    Bytes found(kPiece);
    const bool same = each_piece(seed, size, [&](std::uint64_t at, const Bytes& piece) {
        hasher.add(piece);
        const auto n = read_at(*file, std::span(found).first(piece.size()), at, path);
        return n && *n == piece.size() && std::memcmp(found.data(), piece.data(), piece.size()) == 0;
    });
    hash = hasher.hex();
    return same;
}

/// The work of one make_dataset, divided among threads by an atomic index.
class Maker {
  public:
    explicit Maker(const DatasetPlan& plan) : plan_(plan) {
        outcome_.manifest.resize(plan.files + plan.large.size());
        for (const auto& large : plan.large) total_ += large.size;
        total_ += plan.files * plan.size;
    }

    Result<DatasetOutcome> run() {
        const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
        const unsigned count = plan_.threads != 0 ? plan_.threads : processors;
        std::atomic<unsigned> running = count;
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < count; ++i)
            threads.emplace_back([&] {
                work();
                running.fetch_sub(1);
            });
        Progress progress("iobench: making " + plan_.directory, total_);
        while (running.load() != 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            progress.update(done_bytes_.load());
        }
        for (auto& thread : threads) thread.join();
        MutexLock lock(mutex_);
        if (error_) return fail(*error_);
        outcome_.written = written_.load();
        outcome_.kept = kept_.load();
        outcome_.bytes = total_;
        return std::move(outcome_);
    }

  private:
    void work() {
        const std::uint64_t all = plan_.files + plan_.large.size();
        for (std::uint64_t i = next_.fetch_add(1); i < all && !stop_.load(); i = next_.fetch_add(1)) {
            auto made = i < plan_.files ? make_file(i) : make_large(i - plan_.files);
            if (made) continue;
            MutexLock lock(mutex_);
            if (!error_) error_ = made.error();
            stop_.store(true);
        }
    }

    Result<void> make_file(std::uint64_t index) {
        const std::string name = file_path(plan_, index), path = plan_.directory + "/" + name;
        const auto bytes = make_payload(plan_.kind, derive_seed(plan_.seed, index), plan_.size);
        if (!bytes) return fail(bytes.error().within(path));
        outcome_.manifest[index] = {name, bytes->size(), hash_of(*bytes)};
        const bool kept = holds(path, *bytes);
        if (!kept) {
            auto written = write_atomically(path, false, [&](const Sink& sink) { return sink(*bytes); });
            if (!written) return written;
        }
        (kept ? kept_ : written_).fetch_add(1);
        done_bytes_.fetch_add(bytes->size());
        return {};
    }

    Result<void> make_large(std::uint64_t index) {
        const LargeFile& large = plan_.large[index];
        const std::string path = plan_.directory + "/" + large.name;
        const std::uint64_t seed = large_file_seed(plan_.seed, large.name);
        std::string hash;
        const bool kept = holds_large(path, seed, large.size, hash);
        if (!kept) {
            Hasher hasher;
            auto written = write_atomically(path, false, [&](const Sink& sink) {
                Result<void> result;
                each_piece(seed, large.size, [&](std::uint64_t, const Bytes& piece) {
                    hasher.add(piece);
                    done_bytes_.fetch_add(piece.size());
                    return (result = sink(piece)).has_value();
                });
                return result;
            });
            if (!written) return written;
            hash = hasher.hex();
        }
        (kept ? kept_ : written_).fetch_add(1);
        outcome_.manifest[plan_.files + index] = {large.name, large.size, hash};
        return {};
    }

    const DatasetPlan& plan_;
    std::uint64_t total_ = 0;
    DatasetOutcome outcome_;  // each thread writes manifest entries of its own; read after they have ended
    std::atomic<std::uint64_t> next_ = 0, done_bytes_ = 0, written_ = 0, kept_ = 0;
    std::atomic<bool> stop_ = false;
    Mutex mutex_;
    std::optional<Error> error_ TIERFS_GUARDED_BY(mutex_);
};

Result<void> check_plan(const DatasetPlan& plan) {
    if (plan.files > 0)
        if (auto checked = check_size(plan.kind, plan.size); !checked) return checked;
    if (plan.files > 99'999'999) return fail(EINVAL, "--files: at most 99999999");
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
    return Maker(plan).run();
}

}  // namespace tierfs::iobench
