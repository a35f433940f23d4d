// lookup, forget, getattr, setattr, statfs, readlink, extended attributes.
#include <fcntl.h>
#include <linux/limits.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fs/readwrite/live_operations.hpp"

namespace tierfs {

namespace {

constexpr std::string_view kOwnPrefix = "user.tierfs.";

void lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw, Subject{name, nullptr});
    const auto place = place_of(operations, parent);
    if (!place) return request.error(place.error().code);
    const auto found = operations.origin().look_up(*place->held, name);
    if (found) {
        const auto node = operations.nodes().met(place->node, name, *found);
        if (!request.entry(operations.entry(*node, *found))) operations.nodes().forget(node->id, 1);
        return;
    }
    if (found.error().code != ENOENT || operations.absent_s() <= 0) return request.error(found.error().code);
    fuse_entry_param absent{};  // node 0: the kernel remembers that there is no such name
    absent.entry_timeout = operations.absent_s();
    request.entry(absent);
}

void forget(fuse_req_t raw, fuse_ino_t node, std::uint64_t lookups) {
    Session::user_of<LiveOperations>(raw).nodes().forget(node, lookups);
    ::fuse_reply_none(raw);
}

void forget_many(fuse_req_t raw, std::size_t count, fuse_forget_data* forgets) {
    auto& nodes = Session::user_of<LiveOperations>(raw).nodes();
    for (const auto& one : std::span(forgets, count)) nodes.forget(one.ino, one.nlookup);
    ::fuse_reply_none(raw);
}

/// `attributes` asks the origin: after it was asked whether the node is still mapped, which may move times.
template <typename Attributes>
void reply_attributes(LiveOperations& operations, Request& request, LiveNode& node, Attributes attributes) {
    const double valid_s = operations.valid_s(node);
    const Result<PosixAttributes> now = attributes();
    if (!now) return request.error(now.error().code);
    request.attributes(operations.shown(*now), valid_s);
}

void get_attributes(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    if (file != nullptr) {
        if (const auto open = operations.files().find(file->fh)) {
            return reply_attributes(operations, request, *open->node,
                                    [&] { return open->file->attributes(); });
        }
    }
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    reply_attributes(operations, request, *place->node,
                     [&] { return operations.origin().attributes(*place->held); });
}

Result<void> set_size(LiveOperations& operations, const LivePlace& place, const fuse_file_info* file,
                      std::uint64_t size) {
    const LiveChange change(place.node);
    const auto open = file != nullptr ? operations.files().find(file->fh) : nullptr;
    if (open && open->writes) return open->file->resize(size);
    return operations.origin().resize(*place.held, size);
}

Result<void> set_times(LiveOperations& operations, const LivePlace& place, const struct stat& wanted,
                       int what) {
    const auto time = [what](int set, int now, const timespec& value) {
        if ((what & now) != 0) return timespec{0, UTIME_NOW};
        return (what & set) != 0 ? value : timespec{0, UTIME_OMIT};
    };
    return operations.origin().set_times(*place.held,
                                         time(FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, wanted.st_atim),
                                         time(FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, wanted.st_mtim));
}

// A change of the owner clears bits of the mode, so the mode comes after it.
Result<void> change_attributes(LiveOperations& operations, const LivePlace& place, const fuse_file_info* file,
                               const struct stat& wanted, int what) {
    auto& origin = operations.origin();
    Result<void> done;
    if ((what & FUSE_SET_ATTR_SIZE) != 0)
        done = set_size(operations, place, file, static_cast<std::uint64_t>(wanted.st_size));
    if (done && (what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
        done = origin.set_owner(*place.held,
                                (what & FUSE_SET_ATTR_UID) != 0 ? wanted.st_uid : static_cast<uid_t>(-1),
                                (what & FUSE_SET_ATTR_GID) != 0 ? wanted.st_gid : static_cast<gid_t>(-1));
    }
    if (done && (what & FUSE_SET_ATTR_MODE) != 0) done = origin.set_mode(*place.held, wanted.st_mode);
    constexpr int kTimes =
        FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
    if (done && (what & kTimes) != 0) done = set_times(operations, place, wanted, what);
    return done;
}

void set_attributes(fuse_req_t raw, fuse_ino_t node, struct stat* wanted, int what, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    const auto done = change_attributes(operations, *place, file, *wanted, what);
    if (!done) return request.error(done.error().code);
    reply_attributes(operations, request, *place->node,
                     [&] { return operations.origin().attributes(*place->held); });
}

void stat_file_system(fuse_req_t raw, fuse_ino_t /*node*/) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    const auto found = operations.origin().statistics();
    if (!found) return request.error(found.error().code);
    request.statfs(*found);
}

void read_link(fuse_req_t raw, fuse_ino_t node) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    const auto target = operations.origin().read_link(*place->held);
    if (!target) return request.error(target.error().code);
    request.link(target->c_str());
}

Result<std::string> own_attribute(LiveOperations& operations, const LivePlace& place, std::string_view name) {
    const auto now = operations.origin().attributes(*place.held);
    if (!now) return fail(now.error());
    const auto object = operations.files().object(place.node, *now);
    if (!object) return fail(ENODATA, object.error().message);
    const auto what = name.substr(kOwnPrefix.size());
    if (what == "tier") return operations.store().describe_location(**object);
    if (what == "version") return (*object)->version;
    if (what == "packed") {
        return std::string((*object)->size <= operations.pack_max_object() ? "true" : "false");
    }
    return fail(ENODATA, "no such attribute");
}

void get_xattr(fuse_req_t raw, fuse_ino_t node, const char* name, std::size_t size) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    if (std::string_view(name).starts_with(kOwnPrefix)) {
        const auto value = own_attribute(operations, *place, name);
        if (!value) return request.error(value.error().code);
        if (size == 0) return request.xattr_size(value->size());
        if (size < value->size()) return request.error(ERANGE);
        request.bytes(*value);
        return;
    }
    std::vector<char> value(size);
    const auto length = operations.origin().get_xattr(*place->held, name, value);
    if (!length) return request.error(length.error().code);
    if (size == 0) return request.xattr_size(*length);
    request.bytes(std::span(value).first(*length));
}

/// Names of trusted attributes are for the administrator alone (xattr(7)).
std::string visible(std::string_view names, bool is_root) {
    std::string shown;
    while (!names.empty()) {
        const auto end = std::min(names.find('\0'), names.size() - 1) + 1;
        if (is_root || !names.starts_with("trusted.")) shown += names.substr(0, end);
        names.remove_prefix(end);
    }
    return shown;
}

void list_xattrs(fuse_req_t raw, fuse_ino_t node, std::size_t size) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const bool is_root = caller_of(raw).uid == 0;
    Request request(raw);
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    std::vector<char> names(XATTR_LIST_MAX);
    const auto length = operations.origin().list_xattrs(*place->held, names);
    if (!length) return request.error(length.error().code);
    const std::string shown = visible({names.data(), *length}, is_root);
    if (size == 0) return request.xattr_size(shown.size());
    if (size < shown.size()) return request.error(ERANGE);
    request.bytes(shown);
}

void set_xattr(fuse_req_t raw, fuse_ino_t node, const char* name, const char* value, std::size_t size,
               int flags) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    if (std::string_view(name).starts_with(kOwnPrefix)) return request.error(EPERM);
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    const auto done = operations.origin().set_xattr(*place->held, name, {value, size}, flags);
    if (!done) return request.error(done.error().code);
    request.ok();
}

void remove_xattr(fuse_req_t raw, fuse_ino_t node, const char* name) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    Request request(raw);
    if (std::string_view(name).starts_with(kOwnPrefix)) return request.error(EPERM);
    const auto place = place_of(operations, node);
    if (!place) return request.error(place.error().code);
    const auto done = operations.origin().remove_xattr(*place->held, name);
    if (!done) return request.error(done.error().code);
    request.ok();
}

}  // namespace

void add_live_attributes(fuse_lowlevel_ops& table) {
    table.lookup = lookup;
    table.forget = forget;
    table.forget_multi = forget_many;
    table.getattr = get_attributes;
    table.setattr = set_attributes;
    table.statfs = stat_file_system;
    table.readlink = read_link;
    table.getxattr = get_xattr;
    table.listxattr = list_xattrs;
    table.setxattr = set_xattr;
    table.removexattr = remove_xattr;
}

}  // namespace tierfs
