#include "bench/iobench/suites/samples.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <unordered_map>

#include "bench/iobench/data/manifest.hpp"
#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

bool stays_below(const std::filesystem::path& path) {
    return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

Result<FoundFile> look_at(const std::string& directory, const std::string& name) {
    const std::string path = directory + "/" + name;
    struct stat attributes {};
    if (::lstat(path.c_str(), &attributes) != 0) return fail(system_error(errno, path));
    if (!S_ISREG(attributes.st_mode)) return fail(EINVAL, path + ": is not a regular file");
    return FoundFile{name, static_cast<std::uint64_t>(attributes.st_size)};
}

/// The files that a list names: no directory is listed, which on some file systems asks for every file in it.
Result<std::vector<FoundFile>> named_in(const std::string& list, const std::string& directory) {
    std::ifstream file(list);
    if (!file) return fail(system_error(errno, list));
    std::vector<FoundFile> found;
    for (std::string line; std::getline(file, line);) {
        if (line.empty()) continue;
        if (!stays_below(line)) return fail(EINVAL, list + ": " + line + ": is not below the directory");
        auto one = look_at(directory, line);
        if (!one) return fail(one.error().within(list));
        found.push_back(std::move(*one));
    }
    if (file.bad()) return fail(EIO, list + ": cannot be read");
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    const auto twice = std::adjacent_find(found.begin(), found.end(),
                                          [](const auto& a, const auto& b) { return a.path == b.path; });
    if (twice != found.end()) return fail(EINVAL, list + ": names " + twice->path + " twice");
    return found;
}

}  // namespace

Result<std::vector<Sample>> find_samples(const RunOptions& options) {
    const std::string& list = options.samples.list;
    auto found = list.empty() ? walk(options.path) : named_in(list, options.path);
    if (!found) return fail(found.error());
    std::unordered_map<std::string, std::string> hashes;
    if (!options.manifest.empty()) {
        auto manifest = read_manifest(options.manifest);
        if (!manifest) return fail(manifest.error());
        for (auto& entry : *manifest) hashes.emplace(std::move(entry.path), std::move(entry.hash));
    }
    std::vector<Sample> samples;
    for (const auto& file : *found) {
        if (file.size > options.samples.max_file) continue;
        Sample sample{options.path + "/" + file.path, file.size, {}};
        if (!options.manifest.empty()) {
            const auto known = hashes.find(file.path);
            if (known == hashes.end()) return fail(EINVAL, sample.path + ": is not in " + options.manifest);
            sample.hash = known->second;
        }
        samples.push_back(std::move(sample));
    }
    if (samples.empty())
        return fail(ENOENT, options.path + ": no file of at most " +
                                std::to_string(options.samples.max_file) + " bytes in it; see --max-file");
    return samples;
}

Result<std::uint64_t> read_sample(const Sample& sample, std::vector<std::byte>& buffer) {
    Fd file(::open(sample.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return fail(system_error(errno, sample.path));
    struct stat attributes {};
    if (::fstat(file.get(), &attributes) != 0) return fail(system_error(errno, sample.path + ": fstat"));
    if (buffer.size() < sample.size + 1) buffer.resize(sample.size + 1);
    std::size_t done = 0;
    for (;;) {
        const ssize_t n = ::read(file.get(), buffer.data() + done, buffer.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(system_error(errno, sample.path + ": read"));
        done += static_cast<std::size_t>(n);
        if (n == 0 || done == buffer.size()) break;
    }
    if (const int code = file.close(); code != 0) return fail(system_error(code, sample.path + ": close"));
    if (done != sample.size || static_cast<std::uint64_t>(attributes.st_size) != sample.size)
        return fail(EIO, sample.path + ": read " + std::to_string(done) + " bytes, its size was " +
                             std::to_string(sample.size));
    if (!sample.hash.empty() && hash_of(std::span(buffer).first(done)) != sample.hash)
        return fail(EIO, sample.path + ": its content is not what the manifest says");
    return done;
}

std::vector<std::uint32_t> order_of(const std::vector<Sample>& samples, const RunOptions& options,
                                    std::uint64_t seed) {
    std::vector<std::uint32_t> order(samples.size());
    std::iota(order.begin(), order.end(), 0U);
    shuffle(order, seed);
    if (options.samples.files != 0 && options.samples.files < order.size())
        order.resize(options.samples.files);
    return order;
}

}  // namespace tierfs::iobench
