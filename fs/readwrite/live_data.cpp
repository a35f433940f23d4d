// open, release, read, write, flush, fsync, fallocate, lseek, copy_file_range.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "backends/dir/caller_scope.hpp"
#include "config/base/log.hpp"
#include "fs/readwrite/live_operations.hpp"

namespace tierfs {

namespace {

/// The last that is heard of what is read: the kernel reads by itself from now on.
void trace_passthrough(LiveOperations& operations, const LivePlace& place, pid_t asker, uid_t uid) {
    if (!operations.trace().is_on()) return;
    ObjectRef named;
    named.path = operations.nodes().path(place.node).value_or("");
    if (const auto now = operations.origin().attributes(*place.held))
        named.size = static_cast<std::uint64_t>(now->status.st_size);
    if (named.size == 0) return;
    TraceEvent event;
    event.kind = TraceEvent::Kind::passthrough;
    event.time = std::chrono::system_clock::now();
    event.reader = look_up_reader(asker, uid);
    event.length = event.origin_bytes = named.size;
    event.object = std::make_shared<const ObjectRef>(std::move(named));
    operations.trace().add(event);
}

void open_file(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const pid_t asker = ::fuse_req_ctx(raw)->pid;
    const auto uid = ::fuse_req_ctx(raw)->uid;
    const auto changer = changer_of(raw);
    const auto unique = Session::current().unique;
    LiveRequest request(raw, node);
    if (const auto answered = operations.files().answered_before(unique)) {
        if (!request.opened(open_reply(operations, *answered))) operations.files().close(answered->handle);
        return;
    }
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    const int flags = file->flags;
    auto share = operations.shares().take(uid, descriptors_of(flags));
    if (!share) return request.error(ENFILE);
    if ((flags & O_TRUNC) != 0 && Session::current().clears_set_id && operations.origin().answers_cheaply()) {
        if (const auto done = drop_set_id(operations.origin(), *place->held, changer); !done)
            return request.refuse(done.error());
        act_for({uid, true});
    }
    const auto opened = operations.files().open(place->node, place->held, flags, {unique, uid}, [&] {
        return operations.origin().open(*place->held, flags);
    });
    if (!opened) return request.refuse(opened.error());
    if (const auto made = operations.files().find(opened->handle)) {
        made->share = std::move(*share);
        if (made->writes) made->users.add(asker);
    }
    if (opened->backing_id != 0 && (flags & O_ACCMODE) != O_WRONLY)
        trace_passthrough(operations, *place, Session::current().asker, uid);
    // From now on a store to a mapped page changes the times without a word: what the kernel knows of them is not to last.
    if (opened->backing_id != 0 && (flags & O_ACCMODE) == O_RDWR)
        (void)::fuse_lowlevel_notify_inval_inode(Session::of(raw).raw(), node, -1, 0);
    if (!request.opened(open_reply(operations, *opened))) operations.files().close(opened->handle);
}

void release_file(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    if (const auto open = operations.files().find(file->fh); open && operations.locks().serves())
        operations.locks().released(open->node, file->fh);
    operations.files().close(file->fh);
    ::fuse_reply_err(raw, 0);
}

/// Null while nobody traces. A file that has lost its last name is shown without one.
std::shared_ptr<TracedRead> trace_read(LiveOperations& operations, const LiveFile& file, uid_t uid,
                                       off_t offset) {
    if (!operations.trace().is_on()) return nullptr;
    ObjectRef named;
    named.path = operations.nodes().path(file.node).value_or("");
    return TracedRead::begin(operations.trace(), std::make_shared<const ObjectRef>(std::move(named)),
                             Session::current().asker, uid, static_cast<std::uint64_t>(offset));
}

// A byte that is stored behind the end moves the end that the kernel knows there. The byte itself is read anew, since its
// page is not filled by it, but for one at the beginning of a page; and the page must be none that a reader waits for,
// which is locked until we answer.
bool tell_length(fuse_session* session, fuse_ino_t node, const PosixFile::Renewal& renewal) {
    if (renewal.size <= renewal.old_size) return true;
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto last = renewal.size - 1;
    if (renewal.old_size == 0 || last / page == (renewal.old_size - 1) / page || last % page == 0)
        return false;
    char nothing = 0;
    fuse_bufvec bytes{};
    bytes.count = 1;
    bytes.buf[0].size = 1;
    bytes.buf[0].fd = -1;
    bytes.buf[0].mem = &nothing;
    return ::fuse_lowlevel_notify_store(session, node, static_cast<off_t>(last), &bytes,
                                        static_cast<fuse_buf_copy_flags>(0)) == 0;
}

void read_file(fuse_req_t raw, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info* info) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const auto uid = ::fuse_req_ctx(raw)->uid;
    auto request = std::make_shared<LiveRequest>(raw, node);
    const auto file = operations.files().find(info->fh);
    if (!file) return request->error(EBADF);
    const auto traced = trace_read(operations, *file, uid, offset);
    operations.files().read(
        file, static_cast<std::uint64_t>(offset), static_cast<std::uint32_t>(size),
        [request, traced](Result<ReadReply> reply) {
            if (traced) traced->answered(reply);
            if (!reply) return request->refuse(reply.error());
            std::vector<iovec> vector;
            vector.reserve(reply->pieces.size());
            for (const auto piece : reply->pieces) {
                if (piece.empty()) continue;
                // writev only reads; the structure has no const.
                vector.push_back(iovec{const_cast<std::byte*>(piece.data()),  // NOLINT
                                       piece.size()});
            }
            request->pieces(vector);
        },
        [session = Session::of(raw).raw(), node](const PosixFile::Renewal& renewal,
                                                 const std::function<void()>& untold) {
            const bool is_known = tell_length(session, node, renewal);
            if (!is_known) untold();
            (void)::fuse_lowlevel_notify_inval_inode(session, node, -1, 0);
            return is_known;
        });
}

void write_file(fuse_req_t raw, fuse_ino_t node, const char* bytes, std::size_t size, off_t offset,
                fuse_file_info* info) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const pid_t asker = ::fuse_req_ctx(raw)->pid;
    LiveRequest request(raw, node);
    const auto file = operations.files().find(info->fh);
    if (!file) return request.error(EBADF);
    file->users.add(asker);
    // Pages of a mapping: the kernel does not say whose. Natively they clear no bits.
    if (info->writepage != 0) act_for({file->opener, true});
    const auto done = operations.files().write(*file, std::as_bytes(std::span(bytes, size)),
                                               static_cast<std::uint64_t>(offset));
    if (!done) return request.refuse(done.error());
    request.written(size);
}

/// What answers with success or an errno.
template <typename Work>
void on_file(fuse_req_t raw, fuse_ino_t node, const fuse_file_info* info, Work work) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto file = operations.files().find(info->fh);
    if (!file) return request.error(EBADF);
    const Result<void> done = work(*file->file);
    if (!done) return request.refuse(done.error());
    request.ok();
}

/// As close(2) of a local file: the process has no locks on it any more, whatever else became of it.
void flush_and_unlock(fuse_req_t raw, fuse_ino_t node, LiveFile& file, const fuse_file_info& info) {
    auto& locks = Session::user_of<LiveOperations>(raw).locks();
    auto request = std::make_shared<LiveRequest>(raw, node);
    const Result<void> flushed = file.writes ? file.file->flush() : Result<void>{};
    if (!flushed) request->tell(flushed.error());
    locks.flushed(file.node, info.lock_owner, info.fh, [request, code = flushed ? 0 : flushed.error().code] {
        if (code != 0) return request->error(code);
        request->ok();
    });
}

/// Whether a close(2) is none of the file's end: of a child that inherited the descriptor and leaves the file to others,
/// who are in the middle of writing it.
bool is_left_to_others(LiveOperations& operations, LiveFile& file, pid_t asker) {
    const auto& device = operations.mount_device();
    const auto inode = file.node->identity.inode;
    if (file.users.has(asker))
        return file.file->awaits_content() && is_open_for_writing_by(asker, device, inode);
    // The child may have written what the kernel passed through.
    return !file.is_passed || file.users.have_open_for_writing(device, inode);
}

void flush_file(fuse_req_t raw, fuse_ino_t node, fuse_file_info* info) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const auto file = operations.files().find(info->fh);
    if (file && operations.locks().serves()) return flush_and_unlock(raw, node, *file, *info);
    const pid_t asker = ::fuse_req_ctx(raw)->pid;
    const bool goes_on =
        file && !operations.origin().answers_cheaply() && is_left_to_others(operations, *file, asker);
    on_file(raw, node, info, [=](PosixFile& open) { return goes_on ? Result<void>{} : open.flush(); });
}

void sync_file(fuse_req_t raw, fuse_ino_t node, int data_only, fuse_file_info* info) {
    on_file(raw, node, info, [=](PosixFile& file) { return file.sync(data_only != 0); });
}

void allocate(fuse_req_t raw, fuse_ino_t node, int mode, off_t offset, off_t length, fuse_file_info* info) {
    on_file(raw, node, info, [=](PosixFile& file) {
        return file.allocate(mode, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(length));
    });
}

void seek(fuse_req_t raw, fuse_ino_t node, off_t offset, int whence, fuse_file_info* info) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto file = operations.files().find(info->fh);
    if (!file) return request.error(EBADF);
    const auto found = file->file->seek(static_cast<std::uint64_t>(offset), whence);
    if (!found) return request.refuse(found.error());
    request.offset(*found);
}

void copy(fuse_req_t raw, fuse_ino_t node, off_t offset, fuse_file_info* info, fuse_ino_t /*to*/,
          off_t to_offset, fuse_file_info* to_info, std::size_t length, int /*flags*/) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto from = operations.files().find(info->fh);
    const auto to = operations.files().find(to_info->fh);
    if (!from || !to) return request.error(EBADF);
    // The kernel's reply has 32 bits for the length.
    const auto copied =
        from->file->copy(static_cast<std::uint64_t>(offset), *to->file, static_cast<std::uint64_t>(to_offset),
                         std::min<std::uint64_t>(length, std::uint64_t{1} << 30U));
    if (!copied) return request.refuse(copied.error());
    request.written(*copied);
}

}  // namespace

void add_live_data(fuse_lowlevel_ops& table) {
    table.open = open_file;
    table.release = release_file;
    table.read = read_file;
    table.write = write_file;
    table.flush = flush_file;
    table.fsync = sync_file;
    table.fallocate = allocate;
    table.lseek = seek;
    table.copy_file_range = copy;
}

}  // namespace tierfs
