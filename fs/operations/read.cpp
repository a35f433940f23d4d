// open, read, flush, release, ioctl.
#include <fcntl.h>

#include <vector>

#include "config/log.hpp"
#include "fs/operations/operations.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

namespace {

void open_file(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<Operations>(raw);
    if ((file->flags & O_ACCMODE) != O_RDONLY) {
        ::fuse_reply_err(raw, EROFS);
        return;
    }
    if (operations.profile().zero_message_opens) {
        ::fuse_reply_err(raw, ENOSYS);  // this open succeeds, and no further one is sent
        return;
    }
    if (const auto object = operations.names().object(node); !object) {
        ::fuse_reply_err(raw, object.error().code);
        return;
    }
    file->keep_cache = 1;  // a node is one version: its pages are always right
    file->noflush = 1;
    file->fh = 0;
    ::fuse_reply_open(raw, file);
}

void release_file(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* /*file*/) {
    ::fuse_reply_err(raw, 0);
}

// Nothing is ever written, so there is nothing to flush: the kernel stops asking.
void flush_file(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* /*file*/) {
    ::fuse_reply_err(raw, ENOSYS);
}

void reply_pieces(Request& request, const ReadReply& reply) {
    std::vector<iovec> vector;
    vector.reserve(reply.pieces.size());
    for (const auto piece : reply.pieces) {
        if (piece.empty()) continue;
        // writev only reads; the structure has no const.
        vector.push_back(iovec{const_cast<std::byte*>(piece.data()), piece.size()});  // NOLINT
    }
    request.pieces(vector);
}

void read_failed(Operations& operations, Request& request, NodeId node, const ObjectRef& object,
                 const Error& error) {
    if (error.code == ESTALE || error.code == ENOENT) {
        request.error(ESTALE);
        operations.names().version_gone(node);
        return;
    }
    if (error.code != ECANCELED) log::error("reading " + object.path + " failed: " + error.message);
    request.error(error.code);
}

void read_file(fuse_req_t raw, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* /*file*/) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw);  // before the index is asked: its disk may stall
    auto object = operations.names().object(node);
    if (!object || offset < 0) return request->error(object ? EINVAL : object.error().code);
    auto reference = *object;
    request->is_about(Subject{{}, reference});
    operations.store().read(std::move(*object), static_cast<std::uint64_t>(offset),
                            static_cast<std::uint32_t>(size),
                            [request, &operations, node, reference](Result<ReadReply> reply) {
                                if (reply) return reply_pieces(*request, *reply);
                                read_failed(operations, *request, node, *reference, reply.error());
                            });
}

// Python's open() asks every file whether it is a terminal, and nothing in FUSE remembers the answer.
void control_file(fuse_req_t raw, fuse_ino_t /*node*/, unsigned /*command*/, void* /*argument*/,
                  fuse_file_info* /*file*/, unsigned /*flags*/, const void* /*in*/, size_t /*in_size*/,
                  size_t /*out_size*/) {
    ::fuse_reply_err(raw, ENOTTY);
}

}  // namespace

void add_read_operations(fuse_lowlevel_ops& table) {
    table.open = open_file;
    table.release = release_file;
    table.flush = flush_file;
    table.read = read_file;
    table.ioctl = control_file;
}

}  // namespace tierfs
