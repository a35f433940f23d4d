// lookup, forget, getattr, setattr, statfs, readlink, extended attributes.
#include <fcntl.h>
#include <linux/limits.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/dir/caller_scope.hpp"
#include "fs/readwrite/live_deed.hpp"
#include "fs/readwrite/live_operations.hpp"

namespace tierfs {

namespace {

constexpr std::string_view kOwnPrefix = "user.tierfs.";
constexpr std::string_view kAccessList = "system.posix_acl_access";

void lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, parent, name);
    const auto place = place_of(operations, parent);
    if (!place) return request.refuse(place.error());
    auto found = operations.nodes().look_up(place->node, *place->held, name);
    if (found) {
        const auto node =
            operations.nodes().met(place->node, name, found->attributes, std::move(found->held));
        if (!request.entry(operations.entry(*node, found->attributes)))
            operations.nodes().forget(node->id, 1);
        return;
    }
    if (found.error().code != ENOENT || operations.absent_s() <= 0) return request.refuse(found.error());
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

/// `attributes` asks the origin: after it was asked whether the node is still mapped, which may move times. `renew`: see
/// LiveFiles::renew_to_show.
template <typename Attributes, typename Renew>
void reply_attributes(LiveOperations& operations, LiveRequest& request, LiveNode& node, Attributes attributes,
                      Renew renew) {
    const double valid_s = operations.valid_s(node);
    const auto asked = LiveFiles::asking(node);
    Result<PosixAttributes> now = attributes();
    const bool is_nameless = now && now->status.st_nlink == 0 && S_ISREG(now->status.st_mode);
    if (is_nameless && LiveFiles::renew_to_show(node, renew)) now = attributes();
    if (!now) return request.refuse(now.error());
    LiveFiles::tell(node, asked, [&] {
        request.attributes(operations.shown(*now), LiveOperations::valid_s(valid_s, *now));
    });
}

void get_attributes(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    if (file != nullptr) {
        if (const auto open = operations.files().find(file->fh)) {
            return reply_attributes(
                operations, request, *open->node, [&] { return open->file->attributes(); },
                [&] { return open->file->renew(PosixFile::kAnySize); });
        }
    }
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    reply_attributes(
        operations, request, *place->node, [&] { return operations.origin().attributes(*place->held); },
        [&] { return operations.origin().renew(*place->held, PosixFile::kAnySize); });
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

bool is_open_for_writing(LiveNode& node) {
    const MutexLock lock(node.content.mutex);
    return node.content.writers != 0;
}

// Before somebody writes to a file or changes its extent, the kernel asks for nothing to be set: that is how
// it has set-user-ID and set-group-ID bits cleared, with FUSE_HANDLE_KILLPRIV_V2, if those that it knows of are
// not for the writer to keep. It holds the file until it has the new mode, and so nobody runs what has been
// written with the old one. A truncation and a change of the owner are such changes themselves. chown(2) to
// nobody in particular looks the same, and is the owner's to ask for.
Result<void> drop_what_goes(LiveOperations& operations, const LivePlace& place, const Changer& changer,
                            int what) {
    const auto& request = Session::current();
    const bool cuts = (what & FUSE_SET_ATTR_SIZE) != 0 && request.clears_set_id;
    const bool gives = (what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0;
    // Servers see to those by themselves.
    if (what != 0 && !((cuts || gives) && operations.origin().answers_cheaply())) return {};
    const auto of = what == 0 && !is_open_for_writing(*place.node) ? AskedBy::owner : AskedBy::writer;
    auto done = drop_set_id(operations.origin(), *place.held, changer, of);
    if (done) act_for({request.uid, true});
    return done;
}

// A change of the owner clears bits of the mode, so the mode comes after it.
Result<void> change_attributes(LiveOperations& operations, const LivePlace& place, const fuse_file_info* file,
                               const struct stat& wanted, int what, const Changer& changer) {
    auto& origin = operations.origin();
    Result<void> done = drop_what_goes(operations, place, changer, what);
    if (done && (what & FUSE_SET_ATTR_SIZE) != 0)
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
    const auto changer = changer_of(raw);
    LiveRequest request(raw, node);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    const auto done = change_attributes(operations, *place, file, *wanted, what, changer);
    if (!done) return request.refuse(done.error());
    reply_attributes(
        operations, request, *place->node, [&] { return operations.origin().attributes(*place->held); },
        [&] { return operations.origin().renew(*place->held, PosixFile::kAnySize); });
}

void stat_file_system(fuse_req_t raw, fuse_ino_t node) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto found = operations.origin().statistics();
    if (!found) return request.refuse(found.error());
    request.statfs(*found);
}

void read_link(fuse_req_t raw, fuse_ino_t node) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    const auto target = operations.origin().read_link(*place->held);
    if (!target) return request.refuse(target.error());
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
    LiveRequest request(raw, node);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    if (std::string_view(name).starts_with(kOwnPrefix)) {
        const auto value = own_attribute(operations, *place, name);
        if (!value) return request.refuse(value.error());
        if (size == 0) return request.xattr_size(value->size());
        if (size < value->size()) return request.error(ERANGE);
        request.bytes(*value);
        return;
    }
    std::vector<char> value(size);
    const auto length = operations.origin().get_xattr(*place->held, name, value);
    if (!length) return request.refuse(length.error());
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
    LiveRequest request(raw, node);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    std::vector<char> names(XATTR_LIST_MAX);
    const auto length = operations.origin().list_xattrs(*place->held, names);
    if (!length) return request.refuse(length.error());
    const std::string shown = visible({names.data(), *length}, is_root);
    if (size == 0) return request.xattr_size(shown.size());
    if (size < shown.size()) return request.error(ERANGE);
    request.bytes(shown);
}

bool has_value(LiveOperations& operations, const LivePlace& place, const char* name,
               std::span<const char> value) {
    std::vector<char> found(value.size() + 1);
    const auto size = operations.origin().get_xattr(*place.held, name, found);
    return size && *size == value.size() && std::equal(value.begin(), value.end(), found.begin());
}

/// The list sets the mode, too, and the set-group-ID bit is for members of the group alone
/// (posix_acl_update_mode of the kernel).
Result<void> leave_group(LiveOperations& operations, const LivePlace& place, const Changer& changer) {
    const auto now = operations.origin().attributes(*place.held);
    if (!now) return fail(now.error());
    const auto mode = now->status.st_mode;
    if ((mode & S_ISGID) == 0 || may_have_group_bit(changer, now->status.st_gid)) return {};
    return operations.origin().set_mode(*place.held, mode & ~static_cast<mode_t>(S_ISGID));
}

void set_xattr(fuse_req_t raw, fuse_ino_t node, const char* name, const char* value, std::size_t size,
               int flags) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const auto changer = changer_of(raw);
    LiveDeed deed(operations.record(), Session::current().unique);
    LiveRequest request(raw, node);
    if (std::string_view(name).starts_with(kOwnPrefix)) return request.error(EPERM);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    auto done = operations.origin().set_xattr(*place->held, name, {value, size}, flags);
    if (!done && done.error().code == EEXIST && deed.was_begun() &&
        has_value(operations, *place, name, {value, size}))
        done = {};
    if (done && std::string_view(name) == kAccessList) done = leave_group(operations, *place, changer);
    if (!done) return request.refuse(done.error());
    request.ok();
}

void remove_xattr(fuse_req_t raw, fuse_ino_t node, const char* name) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveDeed deed(operations.record(), Session::current().unique);
    LiveRequest request(raw, node);
    if (std::string_view(name).starts_with(kOwnPrefix)) return request.error(EPERM);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    auto done = operations.origin().remove_xattr(*place->held, name);
    if (!done && done.error().code == ENODATA && deed.was_begun()) done = {};
    if (!done) return request.refuse(done.error());
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
