// opendir, readdir, readdirplus, releasedir.
#include <algorithm>
#include <vector>

#include "fs/readonly/operations.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

namespace {

// The kernel asks for as much as the caller's getdents buffer holds, up to 1 MiB. An entry takes at least 32
// bytes (152 with attributes); asking for many more names than fit would throw them away.
constexpr std::size_t kTypicalEntry = 40;
constexpr std::size_t kTypicalEntryPlus = 168;
constexpr std::size_t kLargestReply = 1 << 20;

void open_directory(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<Operations>(raw);
    if (operations.profile().lists_without_opens()) {
        ::fuse_reply_err(raw, ENOSYS);
        return;
    }
    file->cache_readdir = 1;  // for rewinds of this handle; without keep_cache a new open lists afresh
    file->keep_cache = operations.names().keeps_listing(node) ? 1 : 0;
    file->fh = 0;
    ::fuse_reply_open(raw, file);
}

void release_directory(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* /*file*/) {
    ::fuse_reply_err(raw, 0);
}

// libfuse packs entries without looking at the request, which may have been answered meanwhile.
std::size_t append(const Operations& operations, std::vector<char>& buffer, std::size_t used,
                   const DirectoryItem& item) {
    const auto attributes = operations.shown(item.view);
    return ::fuse_add_direntry(nullptr, buffer.data() + used, buffer.size() - used, item.name.c_str(),
                               &attributes, static_cast<off_t>(item.cookie));
}

std::size_t append_plus(const Operations& operations, std::vector<char>& buffer, std::size_t used,
                        const DirectoryItem& item) {
    auto entry = operations.entry(item.view);
    if (item.name == "." || item.name == "..") entry.ino = 0;  // no lookup: the kernel has these already
    return ::fuse_add_direntry_plus(nullptr, buffer.data() + used, buffer.size() - used, item.name.c_str(),
                                    &entry, static_cast<off_t>(item.cookie));
}

/// How many items a reply took.
struct Page {
    std::size_t items = 0, bytes = 0;
};

Page pack(const Operations& operations, std::vector<char>& buffer, const std::vector<DirectoryItem>& items,
          bool plus) {
    Page page;
    for (const auto& item : items) {
        const auto length = plus ? append_plus(operations, buffer, page.bytes, item)
                                 : append(operations, buffer, page.bytes, item);
        if (length > buffer.size() - page.bytes) break;
        page.bytes += length;
        ++page.items;
    }
    return page;
}

void read_entries(fuse_req_t raw, fuse_ino_t node, std::size_t size, off_t offset, bool plus) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw);
    size = std::min(size, kLargestReply);
    const auto limit = std::max<std::size_t>(4, size / (plus ? kTypicalEntryPlus : kTypicalEntry));
    auto& names = operations.names();
    names.read_directory(node, static_cast<std::uint64_t>(offset), limit,
                         [=, &names, &operations](Result<std::vector<DirectoryItem>> items) {
                             if (!items)
                                 return answer_error(operations, *request, "READDIR", node, "",
                                                     items.error());
                             std::vector<char> buffer(size);
                             const Page page = pack(operations, buffer, *items, plus);
                             request->bytes({buffer.data(), page.bytes});
                             // While the kernel works on this page; not after the first, which may be all
                             // that somebody wants.
                             const bool ends = page.items == items->size() && items->size() < limit;
                             if (offset != 0 && page.items != 0 && !ends)
                                 names.read_ahead(node, (*items)[page.items - 1].cookie, limit);
                         });
}

void read_directory(fuse_req_t raw, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* /*file*/) {
    read_entries(raw, node, size, offset, false);
}

void read_directory_plus(fuse_req_t raw, fuse_ino_t node, size_t size, off_t offset,
                         fuse_file_info* /*file*/) {
    read_entries(raw, node, size, offset, true);
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& table) {
    table.opendir = open_directory;
    table.releasedir = release_directory;
    table.readdir = read_directory;
    table.readdirplus = read_directory_plus;
}

}  // namespace tierfs
