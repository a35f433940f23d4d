// open, read, flush, release.
#include <fcntl.h>

#include <vector>

#include "config/base/log.hpp"
#include "fs/readonly/operations.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

namespace {

OpenReply open_reply(const OpenFiles::Answer& answer, bool is_answered_directly) {
    OpenReply reply;
    reply.handle = answer.handle();  // RELEASE brings it back
    reply.flags = kOpenNoFlush;
    if (answer.mode == OpenFiles::Mode::passthrough) {
        reply.flags |= kOpenPassthrough;
        if (is_answered_directly) reply.flags |= kOpenDirectIo;  // it outdoes the other
        reply.backing_id = answer.backing_id;
    } else {
        reply.flags |= kOpenKeepsCache;  // a node is one version: its pages are always right
    }
    return reply;
}

// The last that is heard of such a file: the kernel reads it by itself.
void trace_passthrough(Operations& operations, uid_t uid, const std::shared_ptr<const ObjectRef>& object) {
    if (!operations.trace().is_on()) return;
    TraceEvent event;
    event.kind = TraceEvent::Kind::passthrough;
    event.time = std::chrono::system_clock::now();
    event.reader = look_up_reader(Session::current().asker, uid);
    event.object = object;
    event.length = object->size;
    operations.trace().add(event);
}

void open_file(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<Operations>(raw);
    const auto uid = ::fuse_req_ctx(raw)->uid;
    Request request(raw);  // before the index and the cache's disk are asked: they may stall
    if ((file->flags & O_ACCMODE) != O_RDONLY) return request.error(EROFS);
    auto& names = operations.names();
    const auto object = names.object(node);
    if (!object) return request.error(object.error().code);
    request.is_about(Subject{{}, *object});
    auto& files = operations.open_files();
    const auto answer = files.open(
        node, names.file_sizes(), [&] { return operations.store().whole_file(**object); },
        Session::current().unique);
    if (answer.mode == OpenFiles::Mode::no_opens) return request.error(ENOSYS);  // no further one is sent
    if (answer.mode == OpenFiles::Mode::too_many) return request.error(ENFILE);
    const bool is_answered_directly = (file->flags & O_DIRECT) != 0 && !operations.direct().may_pass();
    if (answer.mode == OpenFiles::Mode::passthrough && !is_answered_directly)
        trace_passthrough(operations, uid, *object);
    if (!request.opened(open_reply(answer, is_answered_directly))) files.close(node, answer.handle());
}

void release_file(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    Session::user_of<Operations>(raw).open_files().close(node, file->fh);
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
    if (error.code != ECANCELED)
        log::error("reading " + object.path + " failed: " + error.message, {object.path, error.code});
    request.error(error.code);
}

void read_file(fuse_req_t raw, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* file) {
    auto& operations = Session::user_of<Operations>(raw);
    const auto uid = ::fuse_req_ctx(raw)->uid;
    auto request = std::make_shared<Request>(raw);  // before the index is asked: its disk may stall
    auto object = operations.names().object(node);
    if (!object || offset < 0) return request->error(object ? EINVAL : object.error().code);
    auto reference = *object;
    request->is_about(Subject{{}, reference});
    if ((file->flags & O_DIRECT) != 0) operations.direct().note(static_cast<std::uint64_t>(offset), size);
    const auto traced = TracedRead::begin(operations.trace(), reference, Session::current().asker, uid,
                                          static_cast<std::uint64_t>(offset));
    operations.store().read(std::move(*object), static_cast<std::uint64_t>(offset),
                            static_cast<std::uint32_t>(size),
                            [request, &operations, node, reference, traced](Result<ReadReply> reply) {
                                if (traced) traced->answered(reply);
                                if (reply) return reply_pieces(*request, *reply);
                                read_failed(operations, *request, node, *reference, reply.error());
                            });
}

}  // namespace

void add_read_operations(fuse_lowlevel_ops& table) {
    table.open = open_file;
    table.release = release_file;
    table.flush = flush_file;
    table.read = read_file;
}

}  // namespace tierfs
