// lookup, getattr, statfs.
#include <sys/statvfs.h>

#include "config/base/log.hpp"
#include "fs/readonly/operations.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

namespace {

void lookup(fuse_req_t raw, fuse_ino_t parent, const char* name) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw, Subject{name, nullptr});
    operations.names().lookup(
        parent, name, [request, &operations, parent, name = std::string(name)](Result<NodeView> found) {
            if (found) {
                request->entry(operations.entry(*found));
                return;
            }
            const bool is_absent = found.error().code == ENOENT;
            // Not the whole negative_ttl: what is known as absent may end to be so sooner.
            const auto ttl =
                is_absent ? operations.names().absent_for(parent, name) : std::chrono::milliseconds(0);
            if (ttl <= std::chrono::milliseconds::zero()) {
                answer_error(operations, *request, "LOOKUP", parent, name, found.error());
                return;
            }
            fuse_entry_param absent{};  // node 0: the kernel remembers that there is no such name
            absent.entry_timeout = fuse_seconds(ttl);
            request->entry(absent);
        });
}

void get_attributes(fuse_req_t raw, fuse_ino_t node, fuse_file_info* /*file*/) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw);
    operations.names().attributes(node, [request, &operations, node](Result<NodeView> found) {
        if (!found) return answer_error(operations, *request, "GETATTR", node, "", found.error());
        request->attributes(operations.shown(*found), fuse_seconds(found->valid_for));
    });
}

// The size of a bucket is not known without listing all of it, so df shows a file system that is never full:
// tools that look for room are not misled into thinking that something must be deleted.
struct statvfs never_full() {
    struct statvfs values {};
    values.f_bsize = 4096;
    values.f_frsize = 4096;
    values.f_blocks = 1ULL << 38;  // 1 PiB
    values.f_bfree = values.f_blocks;
    values.f_bavail = values.f_blocks;
    values.f_files = 1ULL << 32;
    values.f_ffree = values.f_files;
    values.f_favail = values.f_files;
    values.f_namemax = 255;
    return values;
}

// While the source does not answer df shows what it said last.
void stat_file_system(fuse_req_t raw, fuse_ino_t /*node*/) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw);
    operations.names().statistics([request, &operations](const Result<struct statvfs>& found) {
        if (found) operations.remember(*found);
        request->statfs(operations.remembered().value_or(never_full()));
    });
}

}  // namespace

void add_attribute_operations(fuse_lowlevel_ops& table) {
    table.lookup = lookup;
    table.getattr = get_attributes;
    table.statfs = stat_file_system;
}

}  // namespace tierfs
