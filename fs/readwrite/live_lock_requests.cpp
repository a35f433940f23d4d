// getlk, setlk, flock.
#include <sys/file.h>

#include <cerrno>
#include <memory>

#include "fs/readwrite/live_operations.hpp"

namespace tierfs {

namespace {

LockAsker asker_of(const LiveFile& file, const fuse_file_info& info, pid_t pid) {
    return {info.lock_owner, info.fh, file.writes, pid, file.file};
}

void get_lock(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* info, struct flock* wanted) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    auto request = std::make_shared<Request>(raw);
    const auto file = operations.files().find(info->fh);
    if (!file) return request->error(EBADF);
    operations.locks().get(std::move(request), file->node, asker_of(*file, *info, 0), lock_of(*wanted));
}

void set(fuse_req_t raw, const fuse_file_info& info, const LockWish& wish, bool waits) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    auto* const session = Session::of(raw).raw();
    auto request = std::make_shared<Request>(raw);
    const auto file = operations.files().find(info.fh);
    if (!file) return request->error(EBADF);
    operations.locks().set(std::move(request), session, file->node, asker_of(*file, info, wish.lock.pid),
                           wish, waits);
}

void set_lock(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* info, struct flock* wanted, int waits) {
    set(raw, *info, {false, lock_of(*wanted)}, waits != 0);
}

void flock_file(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* info, int operation) {
    LockWish wish{true, {}};
    if ((operation & LOCK_UN) == 0)
        wish.lock.kind = (operation & LOCK_SH) != 0 ? FileLock::Kind::shared : FileLock::Kind::exclusive;
    set(raw, *info, wish, (operation & LOCK_NB) == 0);
}

}  // namespace

void add_live_locks(fuse_lowlevel_ops& table) {
    table.getlk = get_lock;
    table.setlk = set_lock;
    table.flock = flock_file;
}

}  // namespace tierfs
