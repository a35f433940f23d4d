// Writing to an NFS server: a temporary file beside the target, committed, then renamed.
#pragma once

#include "backends/nfs/lister.hpp"
#include "backends/nfs/reader.hpp"
#include "backends/origin/writable_origin.hpp"

namespace tierfs::nfs {

/// See WritableOrigin. Bytes travel as UNSTABLE writes, side by side; COMMIT then makes them durable, and a
/// write verifier that has changed by then says that the server was started anew and may have lost them: the
/// part is written again (RFC 1813, 3.3.7 and 3.3.21). Everything else is durable when the server has
/// answered (RFC 1813, 4.8). An answer that was lost is asked for again, so a RENAME or LINK that finds its
/// work done looks whether it was its own.
///
/// An upload is a file ".tierfs-upload-TARGET-RANDOM" in the target's directory, as in a directory. NFSv3
/// cannot tell holes from zeros: parts() knows of none, and an upload that is taken up again sends all of
/// them.
class NfsWriter final : public WritableOrigin {
  public:
    NfsWriter(Client& client, Root& root, Resolver& resolver, Reader& reader, Lister& lister,
              std::chrono::milliseconds deadline)
        : client_(client),
          root_(root),
          resolver_(resolver),
          reader_(reader),
          lister_(lister),
          deadline_(deadline) {}

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

  private:
    struct Writing;
    struct There {
        Handle handle;
        FileAttributes3 file;
    };
    Result<There> look_up(const std::string& path);
    Result<Handle> parent_of(const std::string& path, bool make);
    /// Sends a call of which only the status matters; a status of `accepted` is no failure.
    Result<std::uint32_t> act(const Procedure& procedure, std::string arguments, const std::string& what,
                              std::uint32_t accepted = 0);
    Result<void> write_once(const Handle& handle, std::uint64_t offset, std::span<const std::byte> bytes,
                            const std::string& what, bool& is_lost);
    void send(const std::shared_ptr<Writing>& writing, std::uint64_t offset,
              std::span<const std::byte> bytes);
    Result<void> set_attributes(const Handle& handle, const PutOptions& options, const std::string& what);
    Result<void> rename_into_place(const Upload& upload, const There& temporary, const PutOptions& options);
    Result<std::string> md5_at(const std::string& path, const std::string& version, std::uint64_t offset,
                               std::span<std::byte> buffer);
    [[nodiscard]] Clock::time_point deadline() const { return Clock::now() + deadline_; }

    Client& client_;
    Root& root_;
    Resolver& resolver_;
    Reader& reader_;
    Lister& lister_;
    const std::chrono::milliseconds deadline_;
};

}  // namespace tierfs::nfs
