// Readers of the suite seqrand: pread, mmap and io_uring.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/run/latencies.hpp"
#include "bench/iobench/suites/seqrand_blocks.hpp"
#include "bench/iobench/suites/seqrand_content.hpp"

namespace tierfs::iobench {

/// What one reader did; lies in Shared memory. Times by CLOCK_MONOTONIC, in nanoseconds.
struct Tally {
    std::uint64_t started = 0, ended = 0, reads = 0, bytes = 0;
    Latencies latencies;

    void add(std::uint64_t ns, std::uint64_t length) {
        ++reads;
        bytes += length;
        latencies.add(ns);
    }
};

/// What a reader is made for. Outlives it; `contents` is empty (nothing is checked) or has one for each file.
struct ReadPlan {
    const std::vector<ReadFile>& files;
    const ReadCase& one;
    const std::vector<Content>& contents;
    bool advise = false;  ///< tell the kernel the order: fadvise, madvise
};

/// Memory for one read, aligned for O_DIRECT, its pages touched.
class ReadBuffer {
  public:
    explicit ReadBuffer(std::uint64_t size);
    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] std::span<std::byte> first(std::uint64_t size) const { return {data_.get(), size}; }

  private:
    struct Free {
        void operator()(std::byte* data) const { std::free(data); }  // NOLINT: of aligned_alloc
    };
    std::unique_ptr<std::byte, Free> data_;
};

/// One process's reader: everything is open and allocated when it is made, so that only reading is timed. Not
/// thread-safe.
class Reader {
  public:
    virtual ~Reader() = default;

    /// Reads until the feed ends and notes each read. An error names the file and the place: a read that
    /// fails, one that is short before the end of the file, and content that is wrong.
    virtual Result<void> read(Feed& feed, Tally& tally) = 0;
};

/// Opens the files as the case's mode says. The caller is the process that will read.
Result<std::unique_ptr<Reader>> make_reader(const ReadPlan& plan);

/// In seqrand_iouring.cpp, called by make_reader with the open files.
Result<std::unique_ptr<Reader>> make_iouring_reader(const ReadPlan& plan, std::vector<Fd> fds);

/// EINVAL with the file system's name when `file` cannot be read with O_DIRECT in blocks of `block` bytes, as
/// far as statx (STATX_DIOALIGN, Linux 6.1) and open can tell; what these do not tell, the first read does.
Result<void> check_direct(const ReadFile& file, std::uint64_t block);

/// Whether this process may use io_uring; if not, who forbids it and what to do.
Result<void> check_iouring();

/// The error of io_uring_setup(2) in words. `disabled`: /proc/sys/kernel/io_uring_disabled, -1: there is
/// none.
Error iouring_error(int code, int disabled);

/// A read that came to its end with `got` of `block.length` bytes.
Error short_read(const ReadPlan& plan, const Block& block, std::uint64_t got);

/// A read that failed.
Error failed_read(const ReadPlan& plan, const Block& block, int code);

/// Checks the bytes of a read where the plan has contents.
Result<void> check_block(const ReadPlan& plan, const Block& block, const ReadBuffer& buffer);

}  // namespace tierfs::iobench
