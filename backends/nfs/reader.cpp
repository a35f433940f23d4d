#include "backends/nfs/reader.hpp"

#include <algorithm>

#include "backends/origin/young_version.hpp"

namespace tierfs::nfs {

namespace {

bool is_wanted(const OriginRead& read, const std::string& version) {
    return read.version.empty() || unmarked(read.version) == version;
}

}  // namespace

/// The pieces end on several threads.
struct Reader::Operation {
    OriginRead request;
    Clock::time_point deadline;
    Handle handle;
    bool looked_up = false;  ///< the handle is the server's answer to this read, not from the cache
    std::atomic<unsigned> pieces = 0;
    std::atomic<bool> wants_attributes = false;
    Mutex mutex;
    std::optional<Error> problem TIERFS_GUARDED_BY(mutex);

    void fail_with(Error error) {
        const MutexLock lock(mutex);
        if (!problem) problem = std::move(error);
    }
};

void Reader::read(OriginRead request, Clock::time_point deadline) {
    if (request.destination.empty()) return request.done({});
    auto operation = std::make_shared<Operation>();
    operation->request = std::move(request);
    operation->deadline = deadline;
    if (const auto known = handles_.find(operation->request.path))
        return send_pieces(operation, known->handle);
    look_up(operation);
}

void Reader::look_up(const OperationPtr& operation) {
    operation->looked_up = true;
    const auto& request = operation->request;
    resolver_.look_up(request.path, {operation->deadline, request.priority},
                      [this, operation](Result<Found> found) {
                          auto& read = operation->request;
                          if (!found) return read.done(fail(std::move(found.error())));
                          if (found->attributes && !is_wanted(read, version_of(*found->attributes)))
                              return read.done(fail(ESTALE, "'" + read.path + "' has changed on the server"));
                          send_pieces(operation, found->handle);
                      });
}

void Reader::send_pieces(const OperationPtr& operation, const Handle& handle) {
    operation->handle = handle;
    operation->wants_attributes = false;
    const std::size_t size = root_.read_size();
    auto rest = operation->request.destination;
    auto offset = operation->request.offset;
    const auto count = (rest.size() + size - 1) / size;
    operation->pieces = static_cast<unsigned>(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto piece = rest.first(std::min(size, rest.size()));
        rest = rest.subspan(piece.size());
        send(operation, offset, piece);
        offset += piece.size();
    }
}

void Reader::send(const OperationPtr& operation, std::uint64_t offset, std::span<std::byte> to) {
    Call call;
    call.procedure = kRead;
    call.arguments = read_arguments(operation->handle, offset, static_cast<std::uint32_t>(to.size()));
    call.destination = to;
    call.priority = operation->request.priority;
    call.deadline = operation->deadline;
    call.done = [this, operation, offset, to](Result<Reply> reply) {
        took(operation, offset, to, std::move(reply));
    };
    client_.start(std::move(call));
}

void Reader::took(const OperationPtr& operation, std::uint64_t offset, std::span<std::byte> to,
                  Result<Reply> reply) {
    if (!reply) {
        operation->fail_with(reply.error().within("READ of '" + operation->request.path + "'"));
        return piece_done(operation);
    }
    const auto& head = reply->read;
    if (auto problem = judge(*operation, head, to.size())) {
        operation->fail_with(std::move(*problem));
        return piece_done(operation);
    }
    client_.counters().bytes_read += head.length;
    if (!head.attributes) operation->wants_attributes = true;
    // A server may send less than was asked for (RFC 1813, 3.3.6).
    if (head.length < to.size()) return send(operation, offset + head.length, to.subspan(head.length));
    piece_done(operation);
}

std::optional<Error> Reader::judge(const Operation& operation, const ReadHead& head,
                                   std::size_t wanted) const {
    const auto& request = operation.request;
    const std::string name = "'" + request.path + "'";
    if (head.status == kStale || head.status == kBadHandle)
        return Error{ESTALE, name + ": the server does not know the file any more"};
    if (head.status != kOk)
        return Error{to_errno(head.status), "READ of " + name + ": " + status_name(head.status)};
    if (head.attributes && !is_wanted(request, version_of(*head.attributes)))
        return Error{ESTALE, name + " has changed on the server"};
    if (head.length < wanted && head.at_end) return Error{ESTALE, name + " has become shorter on the server"};
    if (head.length == 0) return Error{EIO, "READ of " + name + ": the server sends no data"};
    return std::nullopt;
}

/// The destination belongs to the caller again only when no piece can be written to it any more.
void Reader::piece_done(const OperationPtr& operation) {
    if (--operation->pieces > 0) return;
    if (operation->wants_attributes) return ask_attributes(operation);
    finish(operation);
}

void Reader::ask_attributes(const OperationPtr& operation) {
    Call call;
    call.procedure = kGetattr;
    call.arguments = handle_arguments(operation->handle);
    call.priority = operation->request.priority;
    call.deadline = operation->deadline;
    call.done = [this, operation](Result<Reply> answer) {
        const auto& request = operation->request;
        if (!answer) {
            operation->fail_with(answer.error().within("GETATTR of '" + request.path + "'"));
            return finish(operation);
        }
        XdrReader in(answer->body);
        const auto reply = read_getattr(in);
        if (!in.ok()) {
            operation->fail_with(Error{EIO, "GETATTR of '" + request.path + "': the reply makes no sense"});
        } else if (reply.status != kOk || !is_wanted(request, version_of(reply.attributes))) {
            operation->fail_with(Error{ESTALE, "'" + request.path + "' has changed on the server"});
        }
        finish(operation);
    };
    client_.start(std::move(call));
}

void Reader::finish(const OperationPtr& operation) {
    std::optional<Error> problem;
    {
        const MutexLock lock(operation->mutex);
        problem.swap(operation->problem);
    }
    if (!problem) return operation->request.done({});
    if (problem->code == ESTALE) {
        resolver_.distrust(operation->request.path, operation->handle);
        // The handle may be out of date, not the file: another one may have its name now, or the server its
        // numbers.
        if (!operation->looked_up) return look_up(operation);
    }
    operation->request.done(fail(std::move(*problem)));
}

}  // namespace tierfs::nfs
