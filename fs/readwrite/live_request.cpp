#include "fs/readwrite/live_request.hpp"

#include <linux/fuse.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "backends/dir/caller_scope.hpp"
#include "config/base/log.hpp"
#include "fs/readwrite/live_operations.hpp"
#include "fs/session/faults.hpp"
#include "fs/session/request_table.hpp"

namespace tierfs {

namespace {

/// The kernel looks the name up once more and asks again; of these it does not.
bool ends_there(std::uint32_t opcode) {
    switch (opcode) {
        case FUSE_READ:
        case FUSE_WRITE:
        case FUSE_FLUSH:
        case FUSE_FSYNC:
        case FUSE_FALLOCATE:
        case FUSE_LSEEK:
        case FUSE_READDIR:
        case FUSE_READDIRPLUS:
            return true;
        default:
            return false;
    }
}

}  // namespace

LiveRequest::LiveRequest(fuse_req_t raw, NodeId node, const char* name)
    : Request(raw, Subject{name != nullptr ? name : "", nullptr}),
      nodes_(Session::user_of<LiveOperations>(raw).nodes()),
      last_(Session::user_of<LiveOperations>(raw).last_error()),
      node_(node),
      name_(name),
      opcode_(Session::current().opcode) {
    const auto& now = Session::current();
    // A user with CAP_FSETID who is not root is held for one without it: kernels before 5.11 have no such flag.
    act_for({now.uid, now.uid == 0 && !now.clears_set_id, now.gid, now.asker});
}

std::string LiveRequest::path() const {
    const auto node = nodes_.find(node_);
    auto path = node ? nodes_.path(*node) : Result<std::string>(fail(ESTALE, ""));
    std::string text = path ? std::move(*path) : "a file without a name";
    if (name_ == nullptr) return text.empty() ? "/" : text;
    return text.empty() ? name_ : text + "/" + name_;
}

void LiveRequest::tell(const Error& error) {
    if (!is_fault(error.code)) return;
    const bool is_asked_again = error.code == ESTALE && !ends_there(opcode_);
    // By a name, that is; of a descriptor it is not, and the kernel does not say which it was.
    const bool may_end_there = is_asked_again && nodes_.is_open(node_);
    if (is_asked_again && !may_end_there && !log::enabled(log::Level::debug)) return;
    const auto about = path();
    auto text = opcode_name(opcode_) + " of " + about + " failed: " + error.message + " (" +
                ::strerrorname_np(error.code) + ")";
    if (may_end_there) return log::warning(text, {about, error.code});
    if (is_asked_again) return log::debug(text);
    log::error(text, {about, error.code});
    last_.set(std::move(text));
}

void LiveRequest::refuse(const Error& error) {
    tell(error);
    this->error(error.code);
}

}  // namespace tierfs
