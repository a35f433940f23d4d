#include "bench/iobench/run/peak.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::size_t kAlignment = 4096;

struct Share {
    std::uint64_t start_ns, end_ns, bytes;
};

/// Reads until the time is over; pieces are handed out by `next`, which all readers share.
Result<void> read_pieces(const Fd& file, const std::string& path, std::uint64_t pieces, std::uint64_t& next,
                         std::uint64_t time_ns, Share& share) {
    const std::unique_ptr<std::byte, void (*)(void*)> memory(
        static_cast<std::byte*>(std::aligned_alloc(kAlignment, kPeakRead)), std::free);
    if (!memory) return fail(ENOMEM, "no memory to read into");
    share.start_ns = now_ns();
    do {
        const std::uint64_t piece = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % pieces;
        const auto n = read_at(file, std::span(memory.get(), kPeakRead), piece * kPeakRead, path);
        if (!n) return fail(n.error());
        if (*n == 0) return fail(EIO, path + ": ends before its size");
        share.bytes += *n;
        share.end_ns = now_ns();
    } while (share.end_ns - share.start_ns < time_ns);
    return {};
}

}  // namespace

Result<double> measure_peak(const std::string& path, std::chrono::milliseconds time) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (file.get() < 0) return fail(system_error(errno, path));
    const off_t size = lseek(file.get(), 0, SEEK_END);
    if (size < static_cast<off_t>(kPeakRead))
        return fail(EINVAL, path + ": is too small to measure what its device gives at most");
    const std::uint64_t pieces = static_cast<std::uint64_t>(size) / kPeakRead;
    Shared<std::uint64_t> next(1);
    Shared<Share> shares(kPeakReaders);
    Workers readers(kPeakReaders, [&](unsigned index) {
        return read_pieces(file, path, pieces, next[0], static_cast<std::uint64_t>(time.count()) * 1'000'000,
                           shares[index]);
    });
    readers.release();
    if (auto done = readers.wait(); !done) return fail(done.error());
    std::uint64_t start = ~0ULL, end = 0, bytes = 0;
    for (const Share& share : shares) {
        start = std::min(start, share.start_ns);
        end = std::max(end, share.end_ns);
        bytes += share.bytes;
    }
    return static_cast<double>(bytes) / 1e6 / (static_cast<double>(end - start) / 1e9);
}

}  // namespace tierfs::iobench
