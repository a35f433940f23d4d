#include "bench/iobench/suites/samples.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "bench/iobench/data/index.hpp"
#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/suites/sample_list.hpp"

namespace tierfs::iobench {

namespace {

constexpr rlim_t kMostOpen = 65536, kOtherFiles = 64;

/// Any number: it belongs to no run, so that all of them draw the same samples.
constexpr std::uint64_t kChoiceSeed = 1;

/// What options.manifest says: nothing when there is none.
class Hashes {
  public:
    static Result<Hashes> of(const RunOptions& options) {
        Hashes hashes;
        hashes.given_ = options.manifest;
        hashes.listed_ = !options.samples.list.empty();
        if (options.manifest.empty()) return hashes;
        auto manifest = read_manifest(options.manifest);
        if (!manifest) return fail(manifest.error());
        for (auto& entry : *manifest) hashes.known_.emplace(std::move(entry.path), std::move(entry.hash));
        return hashes;
    }
    [[nodiscard]] bool given() const { return !given_.empty(); }

    /// Empty without a manifest; EINVAL for a file that is not in it.
    [[nodiscard]] Result<std::string> hash(const std::string& path) const {
        if (!given()) return std::string();
        const auto found = known_.find(path);
        if (found == known_.end()) return fail(EINVAL, path + ": is not in " + given_);
        return found->second;
    }

    /// An index of the dataset, which the manifest covers like any file. None where a list says what is read:
    /// then nothing is asked of the directory but that.
    [[nodiscard]] Result<std::optional<Index>> index(const std::string& directory,
                                                     std::string_view name) const {
        if (listed_) return std::nullopt;
        const auto found = known_.find(std::string(name));
        if (found != known_.end()) return read_index(directory, name, found->second);
        auto index = read_index(directory, name, std::nullopt);
        if (index && *index && given())
            return fail(EINVAL, directory + "/" + std::string(name) + ": is not in " + given_);
        return index;
    }

  private:
    std::string given_;
    bool listed_ = false;
    std::unordered_map<std::string, std::string> known_;
};

/// Adds files to a set, each once however many samples it has.
class Adder {
  public:
    Adder(const RunOptions& options, SampleSet& set) : options_(options), set_(set) {}

    void add(const std::string& file, Sample sample) {
        if (sample.size > options_.samples.max_file) return;
        const auto [known, is_new] =
            numbers_.try_emplace(file, static_cast<std::uint32_t>(set_.files.size()));
        if (is_new) set_.files.push_back(options_.path + "/" + file);
        sample.file = known->second;
        set_.samples.push_back(std::move(sample));
    }
    void add(const Index& index, bool check) {
        for (const auto& entry : index)
            add(entry.file, {0, false, entry.offset, entry.size, check ? entry.hash : std::string()});
    }

  private:
    const RunOptions& options_;
    SampleSet& set_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
};

Result<void> add_files(const RunOptions& options, const Hashes& hashes, Adder& adder) {
    const std::string& list = options.samples.list;
    const auto found = list.empty() ? walk(options.path) : listed_files(list, options.path);
    if (!found) return fail(found.error());
    std::unordered_set<std::string> packs{std::string(kShardIndex), std::string(kRecordIndex)};
    const auto shards =
        list.empty() ? hashes.index(options.path, kShardIndex) : Result<std::optional<Index>>(std::nullopt);
    if (!shards) return fail(shards.error());
    if (*shards)
        for (const auto& entry : **shards) packs.insert(entry.file);
    const std::uint64_t record = options.samples.record_size;
    for (const auto& file : *found) {
        if (packs.contains(file.path)) continue;
        if (record != 0) {
            for (std::uint64_t at = 0; at + record <= file.size; at += record)
                adder.add(file.path, {0, false, at, record, {}});
            continue;
        }
        if (file.size > options.samples.max_file) continue;
        auto hash = hashes.hash(file.path);
        if (!hash) return fail(hash.error());
        adder.add(file.path, {0, true, 0, file.size, std::move(*hash)});
    }
    return {};
}

}  // namespace

Result<SampleSet> find_samples(const RunOptions& options) {
    if (options.samples.record_size != 0 && !options.manifest.empty())
        return fail(EINVAL, "--verify cannot check pieces of --record-size: a manifest names whole files");
    const auto hashes = Hashes::of(options);
    if (!hashes) return fail(hashes.error());
    SampleSet set;
    Adder adder(options, set);
    const bool whole = !options.samples.list.empty() || options.samples.record_size != 0;
    const auto records =
        whole ? Result<std::optional<Index>>(std::nullopt) : hashes->index(options.path, kRecordIndex);
    if (!records) return fail(records.error());
    if (*records) {
        adder.add(**records, hashes->given());
    } else if (auto added = add_files(options, *hashes, adder); !added) {
        return fail(added.error());
    }
    if (set.samples.empty())
        return fail(ENOENT, options.path + ": no file of at most " +
                                std::to_string(options.samples.max_file) + " bytes in it; see --max-file");
    return set;
}

Result<std::optional<SampleSet>> find_packed(const RunOptions& options) {
    if (!options.samples.list.empty()) return std::nullopt;
    const auto hashes = Hashes::of(options);
    if (!hashes) return fail(hashes.error());
    const auto index = hashes->index(options.path, kShardIndex);
    if (!index) return fail(index.error());
    if (!*index) return std::nullopt;
    SampleSet set;
    Adder adder(options, set);
    adder.add(**index, hashes->given());
    if (set.samples.empty()) return std::nullopt;
    return set;
}

std::size_t most_open_files() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    rlimit more = limit;
    more.rlim_cur = std::min(limit.rlim_max, kMostOpen);
    if (limit.rlim_cur < more.rlim_cur && setrlimit(RLIMIT_NOFILE, &more) == 0) limit = more;
    return std::clamp(limit.rlim_cur, kOtherFiles + 1, kMostOpen) - kOtherFiles;
}

Result<std::uint64_t> SampleReader::read(const Sample& sample) {
    if (buffer_.size() < sample.size + 1) buffer_.resize(sample.size + 1);
    return sample.whole ? read_whole(sample) : read_part(sample);
}

Result<std::uint64_t> SampleReader::read_whole(const Sample& sample) {
    const std::string& path = set_.files[sample.file];
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail(system_error(errno, path));
    struct stat attributes {};
    if (::fstat(file.get(), &attributes) != 0) return fail(system_error(errno, path + ": fstat"));
    std::size_t done = 0;
    for (;;) {
        const ssize_t n = ::read(file.get(), buffer_.data() + done, sample.size + 1 - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(system_error(errno, path + ": read"));
        done += static_cast<std::size_t>(n);
        if (n == 0 || done == sample.size + 1) break;
    }
    if (const int code = file.close(); code != 0) return fail(system_error(code, path + ": close"));
    if (static_cast<std::uint64_t>(attributes.st_size) != sample.size)
        return fail(EIO, path + ": is " + std::to_string(attributes.st_size) + " bytes, its size was " +
                             std::to_string(sample.size));
    return checked(sample, done);
}

Result<std::uint64_t> SampleReader::read_part(const Sample& sample) {
    const std::string& path = set_.files[sample.file];
    auto known = open_.find(sample.file);
    if (known == open_.end()) {
        if (open_.size() >= most_open_) {
            open_.erase(opened_.front());
            opened_.pop_front();
        }
        auto file = open_for_reading(path);
        if (!file) return fail(file.error());
        opened_.push_back(sample.file);
        known = open_.emplace(sample.file, std::move(*file)).first;
    }
    const auto n = read_at(known->second, std::span(buffer_).first(sample.size), sample.offset, path);
    if (!n) return fail(n.error());
    return checked(sample, *n);
}

Result<std::uint64_t> SampleReader::checked(const Sample& sample, std::uint64_t bytes) const {
    const std::string& path = set_.files[sample.file];
    const std::string where = sample.whole ? "" : " at byte " + std::to_string(sample.offset);
    if (bytes != sample.size)
        return fail(EIO, path + where + ": read " + std::to_string(bytes) + " bytes, its size was " +
                             std::to_string(sample.size));
    if (!sample.hash.empty() && hash_of(std::span(buffer_).first(bytes)) != sample.hash)
        return fail(EIO, path + where + ": its content is not what the manifest says");
    return bytes;
}

std::vector<std::uint32_t> chosen(std::size_t count, const RunOptions& options) {
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0U);
    if (options.samples.files == 0 || options.samples.files >= count) return numbers;
    shuffle(numbers, kChoiceSeed);
    numbers.resize(options.samples.files);
    return numbers;
}

std::vector<std::uint32_t> order_of(std::size_t count, const RunOptions& options, std::uint64_t seed) {
    auto order = chosen(count, options);
    shuffle(order, seed);
    return order;
}

double mean_size(const SampleSet& set, const RunOptions& options) {
    const auto numbers = chosen(set.samples.size(), options);
    double bytes = 0;
    for (const std::uint32_t number : numbers) bytes += static_cast<double>(set.samples[number].size);
    return bytes / static_cast<double>(numbers.size());
}

}  // namespace tierfs::iobench
