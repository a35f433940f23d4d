// Open files and directories of an export.
#pragma once

#include <deque>

#include "backends/nfs/posix_export.hpp"

namespace tierfs::nfs {

/// See PosixFile. The first write returns when the server has answered it, later ones at once. What was
/// written is durable after sync() and after flush(): then other clients see it, too (close-to-open).
/// `origin` must outlive it.
class PosixExportFile final : public PosixFile {
  public:
    PosixExportFile(PosixExport& origin, Handle handle, std::shared_ptr<UnstableWrites> writes, int flags);
    ~PosixExportFile() override;

    Result<std::size_t> read(std::span<std::byte> destination, std::uint64_t offset) override;
    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) override;
    Result<void> resize(std::uint64_t size) override;
    Result<void> allocate(int mode, std::uint64_t offset, std::uint64_t length) override;
    Result<std::uint64_t> seek(std::uint64_t offset, int whence) override;
    Result<std::uint64_t> copy(std::uint64_t offset, PosixFile& to, std::uint64_t to_offset,
                               std::uint64_t length) override;
    Result<void> sync(bool data_only) override;
    Result<void> flush() override;
    Result<PosixAttributes> attributes() override;

  private:
    Result<void> problem();

    PosixExport& origin_;
    const Handle handle_;
    const std::shared_ptr<UnstableWrites> writes_;
    const bool is_synchronous_;
    std::atomic<bool> has_written_ = false;
    Mutex mutex_;
    std::uint64_t told_ TIERFS_GUARDED_BY(mutex_);  ///< see UnstableWrites::problem
};

/// See PosixDirectory. The server's cookies are the places.
class PosixExportDirectory final : public PosixDirectory {
  public:
    PosixExportDirectory(PosixExport& origin, Handle handle) : origin_(origin), handle_(std::move(handle)) {}

    Result<std::optional<PosixEntry>> read(std::int64_t after) override;
    /// Names are durable when the server has answered.
    Result<void> sync(bool) override { return {}; }

  private:
    Result<void> fetch(std::uint64_t after) TIERFS_REQUIRES(mutex_);

    PosixExport& origin_;
    const Handle handle_;
    Mutex mutex_;
    std::deque<DirectoryEntry3> page_ TIERFS_GUARDED_BY(mutex_);  ///< what follows place_
    Clock::time_point asked_ TIERFS_GUARDED_BY(mutex_);           ///< for the page
    std::uint64_t place_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool is_last_ TIERFS_GUARDED_BY(mutex_) = false;
    std::string verifier_ TIERFS_GUARDED_BY(mutex_) = std::string(8, '\0');
};

}  // namespace tierfs::nfs
