#include "backends/nfs/change_messages.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

namespace tierfs::nfs {
namespace {

constexpr std::uint32_t kUnstable = 0;                                  // stable_how
constexpr std::uint32_t kUnchecked = 0, kExclusive = 2;                 // createmode3
constexpr std::uint32_t kAsItIs = 0, kServerTime = 1, kClientTime = 2;  // time_how

void put(XdrWriter& out, const std::optional<std::uint32_t>& value) {
    out.flag(value.has_value());
    if (value) out.u32(*value);
}

void put(XdrWriter& out, const std::optional<timespec>& time) {
    if (!time || time->tv_nsec == UTIME_OMIT) return out.u32(kAsItIs);
    if (time->tv_nsec == UTIME_NOW) return out.u32(kServerTime);
    out.u32(kClientTime);
    // Seconds have 32 bits and no sign.
    out.u32(static_cast<std::uint32_t>(std::clamp<std::int64_t>(time->tv_sec, 0, UINT32_MAX)));
    out.u32(static_cast<std::uint32_t>(time->tv_nsec));
}

}  // namespace

void put(XdrWriter& out, const SetAttributes& attributes) {
    put(out, attributes.mode);
    put(out, attributes.uid);
    put(out, attributes.gid);
    out.flag(attributes.size.has_value());
    if (attributes.size) out.u64(*attributes.size);
    put(out, attributes.access);
    put(out, attributes.modification);
}

std::string setattr_arguments(std::string_view handle, const SetAttributes& attributes) {
    XdrWriter out;
    out.opaque(handle);
    put(out, attributes);
    out.flag(false);  // whatever its ctime is
    return out.take();
}

std::string name_arguments(std::string_view directory, std::string_view name) {
    return lookup_arguments(directory, name);
}

std::string exclusive_create_arguments(std::string_view directory, std::string_view name,
                                       std::string_view verifier) {
    XdrWriter out;
    out.fixed(name_arguments(directory, name));
    out.u32(kExclusive);
    out.fixed(verifier);
    return out.take();
}

std::string unchecked_create_arguments(std::string_view directory, std::string_view name,
                                       const SetAttributes& attributes) {
    XdrWriter out;
    out.fixed(name_arguments(directory, name));
    out.u32(kUnchecked);
    put(out, attributes);
    return out.take();
}

std::string mkdir_arguments(std::string_view directory, std::string_view name,
                            const SetAttributes& attributes) {
    XdrWriter out;
    out.fixed(name_arguments(directory, name));
    put(out, attributes);
    return out.take();
}

std::string symlink_arguments(std::string_view directory, std::string_view name,
                              const SetAttributes& attributes, std::string_view target) {
    XdrWriter out;
    out.fixed(name_arguments(directory, name));
    put(out, attributes);
    out.opaque(target);
    return out.take();
}

std::string mknod_arguments(std::string_view directory, std::string_view name, mode_t mode, dev_t device,
                            const SetAttributes& attributes) {
    constexpr std::uint32_t kBlock = 3, kCharacter = 4, kSocket = 6, kFifo = 7;  // ftype3
    const bool is_device = S_ISBLK(mode) || S_ISCHR(mode);
    XdrWriter out;
    out.fixed(name_arguments(directory, name));
    out.u32(S_ISBLK(mode) ? kBlock : S_ISCHR(mode) ? kCharacter : S_ISSOCK(mode) ? kSocket : kFifo);
    put(out, attributes);
    if (is_device) {
        out.u32(major(device));
        out.u32(minor(device));
    }
    return out.take();
}

std::string rename_arguments(std::string_view from, std::string_view name, std::string_view to,
                             std::string_view new_name) {
    return name_arguments(from, name) + name_arguments(to, new_name);
}

std::string link_arguments(std::string_view handle, std::string_view directory, std::string_view name) {
    XdrWriter out;
    out.opaque(handle);
    return out.take() + name_arguments(directory, name);
}

std::string write_arguments(std::string_view handle, std::uint64_t offset, std::uint32_t count) {
    XdrWriter out;
    out.opaque(handle);
    out.u64(offset);
    out.u32(count);
    out.u32(kUnstable);
    out.u32(count);
    return out.take();
}

std::string commit_arguments(std::string_view handle, std::uint64_t offset, std::uint32_t count) {
    XdrWriter out;
    out.opaque(handle);
    out.u64(offset);
    out.u32(count);
    return out.take();
}

std::uint32_t read_status(XdrReader& in) {
    return in.u32();
}

WriteReply read_write(XdrReader& in) {
    WriteReply reply;
    reply.status = in.u32();
    skip_changes(in);
    if (reply.status != kOk) return reply;
    reply.count = in.u32();
    in.u32();  // committed: more than was asked for does no harm
    reply.verifier = in.fixed(8);
    return reply;
}

WriteReply read_commit(XdrReader& in) {
    WriteReply reply;
    reply.status = in.u32();
    skip_changes(in);
    if (reply.status == kOk) reply.verifier = in.fixed(8);
    return reply;
}

MadeReply read_made(XdrReader& in) {
    MadeReply reply;
    reply.status = in.u32();
    if (reply.status == kOk) {
        if (in.flag()) reply.handle = in.opaque(kLongestHandle);
        if (in.flag()) reply.attributes = read_stat(in);
    }
    skip_changes(in);
    return reply;
}

FsstatReply read_fsstat(XdrReader& in) {
    FsstatReply reply;
    reply.status = in.u32();
    read_post_attributes(in);
    if (reply.status != kOk) return reply;
    reply.total_bytes = in.u64();
    reply.free_bytes = in.u64();
    reply.available_bytes = in.u64();
    reply.total_files = in.u64();
    reply.free_files = in.u64();
    reply.available_files = in.u64();
    return reply;
}

}  // namespace tierfs::nfs
