#include "bench/iobench/suites/checkpoint_rank.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/data/random.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kPage = 4096;

Result<void> write_all(const Fd& file, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(system_error(errno, path + ": write"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

/// Not every file system has fsync of a directory: EINVAL and ENOSYS say so.
Result<void> sync_directory(const std::string& path) {
    const Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0) return fail(system_error(errno, path));
    if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != ENOSYS)
        return fail(system_error(errno, path + ": fsync"));
    return {};
}

}  // namespace

std::string rank_file(const RankPlan& plan) {
    char name[32];
    std::snprintf(name, sizeof name, "/rank_%04u", plan.rank);
    return plan.directory + name;
}

Pattern::Pattern(const RankPlan& plan)
    : size_(plan.size), seed_(derive_seed(plan.seed, plan.rank)), chunk_(std::min(plan.chunk, plan.size)) {
    random_bytes(seed_, 0, chunk_);
}

std::span<const std::byte> Pattern::at(std::uint64_t offset) {
    const std::uint64_t length = std::min<std::uint64_t>(chunk_.size(), size_ - offset);
    for (std::uint64_t at = 0; at < length; at += kPage) {
        const std::uint64_t stamp = mix(seed_ + (offset + at) / kPage + 1);
        std::memcpy(chunk_.data() + at, &stamp, std::min<std::uint64_t>(sizeof stamp, length - at));
    }
    return std::span(chunk_).first(length);
}

std::int64_t Pattern::first_difference(std::uint64_t offset, std::span<const std::byte> found) {
    const auto wanted = at(offset);
    if (found.size() == wanted.size() && std::memcmp(found.data(), wanted.data(), found.size()) == 0)
        return -1;
    const auto place = std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end()).first;
    return static_cast<std::int64_t>(offset) + (place - found.begin());
}

Result<void> write_rank(const RankPlan& plan, RankTimes& times, const std::function<void()>& begin) {
    Pattern pattern(plan);
    const std::string path = rank_file(plan), temporary = path + ".tmp";
    begin();
    times.started = now_ns();
    Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return fail(system_error(errno, temporary));
    for (std::uint64_t at = 0; at < plan.size; at += plan.chunk)
        if (auto written = write_all(file, pattern.at(at), temporary); !written) return written;
    std::uint64_t before = now_ns();
    if (::fsync(file.get()) != 0) return fail(system_error(errno, temporary + ": fsync"));
    times.fsync = now_ns() - before;
    if (const int code = file.close(); code != 0) return fail(system_error(code, temporary + ": close"));
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(system_error(errno, path + ": rename"));
    before = now_ns();
    if (auto synced = sync_directory(plan.directory); !synced) return synced;
    times.ended = now_ns();
    times.fsync += times.ended - before;
    return {};
}

Result<void> read_rank(const RankPlan& plan, RankTimes& times, const std::function<void()>& begin) {
    Pattern pattern(plan);
    const std::string path = rank_file(plan);
    std::vector<std::byte> buffer(std::min(plan.chunk, plan.size));
    begin();
    times.started = now_ns();
    auto file = open_for_reading(path);
    if (!file) return fail(file.error());
    for (std::uint64_t at = 0; at < plan.size; at += plan.chunk) {
        const auto part = std::span(buffer).first(std::min(plan.chunk, plan.size - at));
        const auto n = read_at(*file, part, at, path);
        if (!n) return fail(n.error());
        if (*n != part.size())
            return fail(EIO, path + ": read back it ends at byte " + std::to_string(at + *n) + ", not " +
                                 std::to_string(plan.size));
        if (const std::int64_t wrong = pattern.first_difference(at, part); wrong >= 0)
            return fail(EIO, path + ": read back it differs from what was written, first at byte " +
                                 std::to_string(wrong));
    }
    struct stat attributes {};
    if (::fstat(file->get(), &attributes) != 0) return fail(system_error(errno, path + ": fstat"));
    if (static_cast<std::uint64_t>(attributes.st_size) != plan.size)
        return fail(EIO, path + ": has " + std::to_string(attributes.st_size) + " bytes, " +
                             std::to_string(plan.size) + " were written");
    times.ended = now_ns();
    return {};
}

}  // namespace tierfs::iobench
