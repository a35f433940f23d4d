// Reads of one version of a file.
#pragma once

#include "backends/nfs/resolver.hpp"

namespace tierfs::nfs {

/// A read is cut into pieces of the size that the server offers, which travel side by side. A file whose
/// handle is known costs its READs and nothing else: their replies carry the attributes that tell which
/// version the bytes are of. Since those are taken after the bytes, and a change moves ctime for good, equal
/// attributes mean equal bytes. A server that sends none is asked by GETATTR after the last piece.
/// Thread-safe; nothing blocks.
class Reader {
  public:
    Reader(Client& client, Root& root, Resolver& resolver, HandleCache& handles)
        : client_(client), root_(root), resolver_(resolver), handles_(handles) {}

    void read(OriginRead request, Clock::time_point deadline);

  private:
    struct Operation;
    using OperationPtr = std::shared_ptr<Operation>;
    void look_up(const OperationPtr& operation);
    void send_pieces(const OperationPtr& operation, const Handle& handle);
    void send(const OperationPtr& operation, std::uint64_t offset, std::span<std::byte> to);
    void took(const OperationPtr& operation, std::uint64_t offset, std::span<std::byte> to,
              Result<Reply> reply);
    std::optional<Error> judge(const Operation& operation, const ReadHead& head, std::size_t wanted) const;
    void piece_done(const OperationPtr& operation);
    void ask_attributes(const OperationPtr& operation);
    void finish(const OperationPtr& operation);

    Client& client_;
    Root& root_;
    Resolver& resolver_;
    HandleCache& handles_;
};

}  // namespace tierfs::nfs
