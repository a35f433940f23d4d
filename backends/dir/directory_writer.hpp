// Writing to a directory: a temporary file beside the target, synced, then renamed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "backends/origin/writable_origin.hpp"
#include "config/base/file_descriptor.hpp"

namespace tierfs {

/// See WritableOrigin. Names are resolved below `root` without following symbolic links (backends/dir/
/// beneath.hpp); missing directories are made with mode 0777 less the umask. An upload is a file
/// ".tierfs-upload-TARGET-RANDOM" in the target's directory, where TARGET is a digest of the path: what was
/// begun by a process that died can be found again. Bytes go past the page cache where memory and sizes allow
/// it. parts() reads what the temporary file holds: a part counts when it has no holes, and its checksum is
/// computed anew. After complete() the rename is durable: file, directory and the directories that were made
/// are synced (fsync(2), NOTES; rename(2)).
///
/// only_if_version is checked just before the rename: another writer may come in between. Ownership is kept
/// where the process may give files away. A file system that hangs holds the caller: no deadline can end a
/// system call.
class DirectoryWriter final : public WritableOrigin {
  public:
    struct Stats {
        std::uint64_t put = 0, remove = 0, bytes_written = 0;
    };

    /// `root`: of an existing directory, O_PATH is enough. `shown`: its path, for messages.
    DirectoryWriter(FileDescriptor root, std::string shown)
        : root_(std::move(root)), shown_(std::move(shown)) {}

    [[nodiscard]] UploadLimits limits() const override;
    Result<Written> put(const std::string& path, std::span<const std::byte> bytes, const PutOptions& options,
                        const std::string& checksum_md5) override;
    Result<Upload> begin(const std::string& path, const PutOptions& options) override;
    Result<UploadPart> part(const Upload& upload, unsigned number, std::uint64_t offset,
                            std::span<const std::byte> bytes, const std::string& checksum_md5) override;
    Result<std::vector<UploadPart>> parts(const Upload& upload, std::uint64_t part_size) override;
    Result<Written> complete(const Upload& upload, std::span<const UploadPart> parts,
                             const PutOptions& options) override;
    Result<void> abort(const Upload& upload) override;
    Result<std::vector<PendingUpload>> pending(const std::string& path) override;
    Result<Attributes> stat_file(const std::string& path) override;
    Result<std::string> checksum(const std::string& path, std::uint64_t part_size) override;
    Result<void> remove(const std::string& path) override;

    [[nodiscard]] Stats stats() const { return {puts_, removes_, bytes_written_}; }

  private:
    /// The directory of `path`, made when `make` and absent.
    Result<FileDescriptor> parent_of(const std::string& path, bool make);
    Result<FileDescriptor> make_directory(int above, const std::string& name, const std::string& path);
    /// The temporary file. ENOENT for an id that is none of ours.
    Result<FileDescriptor> open_upload(const Upload& upload, int flags);
    Result<void> rename_into_place(int directory, const Upload& upload, const PutOptions& options);
    [[nodiscard]] tl::unexpected<Error> error(int code, const std::string& path, const char* what) const;

    const FileDescriptor root_;
    const std::string shown_;
    std::atomic<std::uint64_t> puts_ = 0, removes_ = 0, bytes_written_ = 0;
};

}  // namespace tierfs
