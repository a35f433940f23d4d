// Files of this machine that hold what is being written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs::s3 {

/// A file of this machine. One of LocalCopies has no name: nothing is left of it when the process ends, however it
/// ends. Sparse; what was never written reads as zeros. Thread-safe, but for one range at a time.
class LocalCopy {
  public:
    /// `name`: in the journal's folder; empty: it has none.
    explicit LocalCopy(FileDescriptor file, std::string name = {})
        : file_(std::move(file)), name_(std::move(name)) {}
    /// ENOSPC, EDQUOT, EIO.
    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset);
    /// Beyond the end: zeros.
    Result<void> read(std::span<std::byte> destination, std::uint64_t offset) const;
    Result<void> resize(std::uint64_t size);
    /// Gives the room of a range back; it reads as zeros.
    Result<void> punch(std::uint64_t begin, std::uint64_t end);
    /// Durable: fdatasync(2).
    Result<void> sync();
    /// What it looks like from outside: of a file whose writes are told from each other by their times (see Journal), two
    /// equal ones say that nothing has been written in between.
    struct Stamp {
        std::int64_t changed_ns = 0;  ///< st_mtim
        std::uint64_t size = 0;
        friend bool operator==(const Stamp&, const Stamp&) = default;
    };
    [[nodiscard]] Result<Stamp> stamp() const;
    /// Whether nothing that was written has failed to get to the disk since this was asked last: waits for what is on its way.
    [[nodiscard]] Result<void> is_written_back() const;
    /// Gives an empty copy all that this one has, by shared blocks alone (FICLONE of ioctl_ficlone(2)), which waits for
    /// writes that are under way. Returns its size.
    Result<std::uint64_t> share_with(LocalCopy& other) const;
    /// Whether no other descriptor or mapping of it is left (a lease, F_SETLEASE of fcntl(2)). False where that cannot be told.
    [[nodiscard]] bool is_open_nowhere_else() const;
    /// For who registers it at the kernel; its own.
    [[nodiscard]] int descriptor() const { return file_.get(); }
    /// Gives an empty copy the first `size` bytes of this one: shared on the disk where the file system can.
    Result<void> copy_to(LocalCopy& other, std::uint64_t size) const;
    [[nodiscard]] const std::string& name() const { return name_; }
    /// So many records of the journal need its name, which stays when nobody here has it any more.
    void keep() { ++keepers_; }
    void let_go() { --keepers_; }
    [[nodiscard]] bool is_kept() const { return keepers_ > 0; }
    /// What it takes on the disk, bytes.
    [[nodiscard]] std::uint64_t allocated() const;
    /// What the file system has left for others, bytes.
    [[nodiscard]] std::uint64_t free_space() const;

  private:
    const FileDescriptor file_;
    const std::string name_;
    std::atomic<int> keepers_{0};
};

/// Makes them in one folder. Thread-safe.
class LocalCopies {
  public:
    /// `folders`: the first that takes files; each is private to who may read the cache, or sticky.
    explicit LocalCopies(std::vector<std::string> folders) : folders_(std::move(folders)) {}
    /// The error of the last folder.
    Result<std::shared_ptr<LocalCopy>> make() const;

  private:
    const std::vector<std::string> folders_;
};

}  // namespace tierfs::s3
