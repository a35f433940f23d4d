// A request of a writable mount, and the word about those that fail.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/base/result.hpp"
#include "fs/readwrite/last_error.hpp"
#include "fs/readwrite/live_nodes.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

/// See Request. To be made by the thread that read it, from a handler of LiveOperations' table.
class LiveRequest : public Request {
  public:
    /// `name`: in the directory that `node` is; null: the request is about the node itself. It must stay until
    /// the request is answered.
    explicit LiveRequest(fuse_req_t raw, NodeId node, const char* name = nullptr);

    /// Answers with an error. What is no answer to the caller's own doing, but the fault of the origin or of
    /// this host (EIO, EACCES, ESTALE, ETIMEDOUT, ENOSPC and the like), has a line in the log first: operation,
    /// path, reason.
    void refuse(const Error& error);
    /// The line alone.
    void tell(const Error& error);

  private:
    [[nodiscard]] std::string path() const;

    LiveNodes& nodes_;
    LastError& last_;
    const NodeId node_;
    const char* const name_;
    const std::uint32_t opcode_;
};
using LiveRequestPtr = std::shared_ptr<LiveRequest>;

}  // namespace tierfs
