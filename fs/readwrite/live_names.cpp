// create, mknod, mkdir, symlink, link, unlink, rmdir, rename.
#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fs/readwrite/live_deed.hpp"
#include "fs/readwrite/live_operations.hpp"

namespace tierfs {

namespace {

/// FUSE_TMPFILE comes as FUSE_CREATE (see Session), with a name that no file has.
bool is_of_nameless(std::string_view name) {
    return name == "/";
}

/// Opens a file that an earlier daemon has made for a request which it did not answer. Nothing: it has not.
std::optional<PosixCreated> made_before(PosixOrigin& origin, const LiveDeed& deed, const PosixNode& directory,
                                        const char* name, int flags, const Caller& caller) {
    if (!deed.was_begun()) return std::nullopt;
    const auto held = origin.hold(directory, name);
    auto found = held ? origin.attributes(**held) : fail(held.error());
    if (!found || !deed.made(*found, S_IFREG, caller.uid)) return std::nullopt;
    auto file = origin.open(**held, flags & ~(O_TRUNC | O_CREAT | O_EXCL));
    if (!file) return std::nullopt;
    return PosixCreated{std::move(*file), std::move(*found), *held};
}

/// The answer that an earlier daemon did not get out. False: it had not got so far.
bool create_answered_before(LiveOperations& operations, LiveRequest& request, std::uint64_t unique) {
    const auto opened = operations.files().answered_before(unique);
    const auto file = opened ? operations.files().find(opened->handle) : nullptr;
    const auto now = file ? file->file->attributes() : fail(EBADF, "");
    if (!now) return false;
    if (!request.created(operations.entry(*file->node, *now), open_reply(operations, *opened))) {
        operations.files().close(opened->handle);
        operations.nodes().forget(file->node->id, 1);
    }
    return true;
}

void create(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const auto caller = caller_of(raw);
    const pid_t asker = ::fuse_req_ctx(raw)->pid;
    const auto unique = Session::current().unique;
    LiveDeed deed(operations.record(), unique);
    LiveRequest request(raw, parent, name);
    if (create_answered_before(operations, request, unique)) return;
    const auto place = place_of(operations, parent);
    if (!place) return request.refuse(place.error());
    auto share = operations.shares().take(caller.uid, descriptors_of(file->flags));
    if (!share) return request.error(ENFILE);
    const bool is_nameless = is_of_nameless(name);
    const int flags = is_nameless ? file->flags & ~O_TMPFILE : file->flags;
    auto& origin = operations.origin();
    auto made = is_nameless ? origin.make_nameless(*place->held, flags, mode, caller)
                            : origin.create(*place->held, name, flags, mode, caller);
    if (!made && !is_nameless) {
        if (auto before = made_before(origin, deed, *place->held, name, flags, caller))
            made = std::move(*before);
    }
    if (!made) return request.refuse(made.error());
    const auto node = is_nameless ? operations.nodes().met_nameless(made->attributes, made->node)
                                  : operations.nodes().met(place->node, name, made->attributes);
    const auto opened =
        operations.files().created(node, made->node, std::move(made->file), flags, {unique, caller.uid});
    if (const auto open = operations.files().find(opened.handle)) {
        open->share = std::move(*share);
        open->users.add(asker);
    }
    if (request.created(operations.entry(*node, made->attributes), open_reply(operations, opened))) return;
    operations.files().close(opened.handle);
    operations.nodes().forget(node->id, 1);
}

/// What makes something that is not open afterwards.
template <typename Make>
void make(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t type, Make make) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const auto caller = caller_of(raw);
    LiveDeed deed(operations.record(), Session::current().unique);
    LiveRequest request(raw, parent, name);
    const auto place = place_of(operations, parent);
    if (!place) return request.refuse(place.error());
    auto& origin = operations.origin();
    Result<void> done = deed.was_done() ? Result<void>{} : make(origin, *place->held, caller);
    if (!done && done.error().code == EEXIST && deed.was_begun()) {
        const auto found = origin.look_up(*place->held, name);
        if (found && deed.made(*found, type, caller.uid)) done = {};
    }
    if (!done) return request.refuse(done.error());
    deed.done();
    reply_entry(operations, request, *place, name);
}

void make_node(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    const mode_t type = (mode & S_IFMT) != 0 ? mode & S_IFMT : S_IFREG;
    make(raw, parent, name, type, [=](PosixOrigin& origin, const PosixNode& directory, const Caller& caller) {
        return origin.make_node(directory, name, mode, device, caller);
    });
}

void make_directory(fuse_req_t raw, fuse_ino_t parent, const char* name, mode_t mode) {
    make(raw, parent, name, S_IFDIR,
         [=](PosixOrigin& origin, const PosixNode& directory, const Caller& caller) {
             return origin.make_directory(directory, name, mode, caller);
         });
}

void make_symlink(fuse_req_t raw, const char* target, fuse_ino_t parent, const char* name) {
    make(raw, parent, name, S_IFLNK,
         [=](PosixOrigin& origin, const PosixNode& directory, const Caller& caller) {
             return origin.make_link(directory, name, target, caller);
         });
}

void make_link(fuse_req_t raw, fuse_ino_t node, fuse_ino_t parent, const char* name) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveDeed deed(operations.record(), Session::current().unique);
    LiveRequest request(raw, parent, name);
    const auto file = place_of(operations, node);
    const auto place = place_of(operations, parent);
    if (!file || !place) return request.refuse((file ? place : file).error());
    auto& origin = operations.origin();
    auto done = deed.was_done() ? Result<void>{} : origin.add_name(*file->held, *place->held, name);
    if (!done && done.error().code == EEXIST && deed.was_begun()) {
        const auto found = origin.look_up(*place->held, name);
        if (found && found->identity() == file->node->identity) done = {};
    }
    if (!done) return request.refuse(done.error());
    deed.done();
    reply_entry(operations, request, *place, name);
}

void remove(fuse_req_t raw, fuse_ino_t parent, const char* name, bool is_directory) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveDeed deed(operations.record(), Session::current().unique);
    LiveRequest request(raw, parent, name);
    const auto place = place_of(operations, parent);
    if (!place) return request.refuse(place.error());
    auto& nodes = operations.nodes();
    auto leaving = nodes.leaving(*place->held, place->node, name);
    // Another file of that name is somebody else's.
    if (deed.was_done() || deed.missed(leaving.identity)) {
        request.ok();
        return;
    }
    deed.concerns(leaving.identity);
    const auto done = operations.origin().remove(*place->held, name, is_directory);
    if (!done) return request.refuse(done.error());
    deed.done();
    nodes.left(std::move(leaving), place->node, name, LiveNodes::Lost::removed);
    request.ok();
}

void remove_file(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    remove(raw, parent, name, false);
}

void remove_directory(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    remove(raw, parent, name, true);
}

void rename(fuse_req_t raw, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
            unsigned flags) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveDeed deed(operations.record(), Session::current().unique);
    LiveRequest request(raw, parent, name);
    if ((flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0)
        return request.error(EINVAL);
    const auto from = place_of(operations, parent);
    const auto to = place_of(operations, new_parent);
    if (!from || !to) return request.refuse((from ? to : from).error());
    auto& nodes = operations.nodes();
    auto moved = nodes.leaving(*from->held, from->node, name);
    auto replaced = nodes.leaving(*to->held, to->node, new_name);
    // What is there under the new name is known by it now: it was moved before.
    if (deed.was_done() || (deed.concerned(replaced.identity) && deed.missed(moved.identity))) {
        request.ok();
        return;
    }
    deed.concerns(moved.identity);
    const auto done = operations.origin().rename(*from->held, name, *to->held, new_name, flags);
    if (!done) return request.refuse(done.error());
    deed.done();
    nodes.named(moved.node, to->node, new_name);
    const bool is_same = replaced.node == moved.node;  // two names of one file: nothing happened
    nodes.left(std::move(moved), from->node, name, LiveNodes::Lost::removed);
    if ((flags & RENAME_EXCHANGE) != 0) nodes.named(replaced.node, from->node, name);
    if (!is_same) nodes.left(std::move(replaced), to->node, new_name, LiveNodes::Lost::replaced);
    request.ok();
}

}  // namespace

void add_live_names(fuse_lowlevel_ops& table) {
    table.create = create;
    table.mknod = make_node;
    table.mkdir = make_directory;
    table.symlink = make_symlink;
    table.link = make_link;
    table.unlink = remove_file;
    table.rmdir = remove_directory;
    table.rename = rename;
}

}  // namespace tierfs
