// opendir, readdir, readdirplus, fsyncdir, releasedir.
#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "fs/readwrite/live_operations.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kLargestReply = 1 << 20;

void open_directory(fuse_req_t raw, fuse_ino_t node, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    const auto uid = ::fuse_req_ctx(raw)->uid;
    LiveRequest request(raw, node);
    const auto place = place_of(operations, node);
    if (!place) return request.refuse(place.error());
    auto share = operations.shares().take(uid, 1);
    if (!share) return request.error(ENFILE);
    auto directory = operations.origin().open_directory(*place->held);
    if (!directory) return request.refuse(directory.error());
    file->fh = operations.add_directory(std::move(*directory), std::move(*share));
    OpenReply reply;
    reply.handle = file->fh;
    if (!request.opened(reply)) operations.remove_directory(reply.handle);
}

void release_directory(fuse_req_t raw, fuse_ino_t /*node*/, fuse_file_info* file) {
    Session::user_of<LiveOperations>(raw).remove_directory(file->fh);
    ::fuse_reply_err(raw, 0);
}

/// Entries of one reply.
class Filler {
  public:
    Filler(LiveOperations& operations, std::size_t size) : operations_(operations), buffer_(size) {}

    /// False: it does not fit.
    bool add(const PosixEntry& entry) {
        struct stat attributes {};
        attributes.st_ino = entry.inode;
        attributes.st_mode = static_cast<mode_t>(entry.type) << 12U;  // DTTOIF
        const auto length = ::fuse_add_direntry(nullptr, rest().data(), rest().size(), entry.name.c_str(),
                                                &attributes, entry.next);
        return take(length);
    }

    /// With what a look-up would say. Of "." and "..", and of what has vanished meanwhile, only the name.
    bool add_plus(const LivePlace& directory, const PosixEntry& entry) {
        fuse_entry_param known{};
        if (::fuse_add_direntry_plus(nullptr, nullptr, 0, entry.name.c_str(), &known, 0) > rest().size())
            return false;
        known.attr.st_ino = entry.inode;
        known.attr.st_mode = static_cast<mode_t>(entry.type) << 12U;
        if (entry.name != "." && entry.name != "..") {
            const auto found = entry.attributes ? Result<PosixAttributes>(*entry.attributes)
                                                : operations_.origin().look_up(*directory.held, entry.name);
            if (found) {
                const auto node = operations_.nodes().met(directory.node, entry.name, *found);
                known = operations_.entry(*node, *found);
                given_.push_back(node->id);
            }
        }
        return take(::fuse_add_direntry_plus(nullptr, rest().data(), rest().size(), entry.name.c_str(),
                                             &known, entry.next));
    }

    void reply(LiveRequest& request) {
        if (request.bytes(std::span<const char>(buffer_).first(used_))) return;
        for (const auto node : given_) operations_.nodes().forget(node, 1);
    }
    [[nodiscard]] bool empty() const { return used_ == 0; }

  private:
    [[nodiscard]] std::span<char> rest() { return std::span(buffer_).subspan(used_); }
    bool take(std::size_t length) {
        if (length > buffer_.size() - used_) return false;
        used_ += length;
        return true;
    }

    LiveOperations& operations_;
    std::vector<char> buffer_;
    std::size_t used_ = 0;
    std::vector<NodeId> given_;
};

void read_entries(fuse_req_t raw, fuse_ino_t node, std::size_t size, off_t offset, const fuse_file_info* file,
                  bool plus) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto directory = operations.directory(file->fh, node, Session::current().uid);
    if (!directory) return request.refuse(directory.error());
    const auto place = plus ? place_of(operations, node) : Result<LivePlace>();
    if (!place) return request.refuse(place.error());
    Filler filler(operations, std::min(size, kLargestReply));
    for (std::int64_t at = offset;;) {
        const auto entry = (*directory)->read(at);
        if (!entry && filler.empty()) return request.refuse(entry.error());
        if (!entry || !*entry) break;
        if (!(plus ? filler.add_plus(*place, **entry) : filler.add(**entry))) break;
        at = (*entry)->next;
    }
    filler.reply(request);
}

void read_directory(fuse_req_t raw, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info* file) {
    read_entries(raw, node, size, offset, file, false);
}

void read_directory_plus(fuse_req_t raw, fuse_ino_t node, std::size_t size, off_t offset,
                         fuse_file_info* file) {
    read_entries(raw, node, size, offset, file, true);
}

void sync_directory(fuse_req_t raw, fuse_ino_t node, int data_only, fuse_file_info* file) {
    auto& operations = Session::user_of<LiveOperations>(raw);
    LiveRequest request(raw, node);
    const auto directory = operations.directory(file->fh, node, Session::current().uid);
    if (!directory) return request.refuse(directory.error());
    const auto done = (*directory)->sync(data_only != 0);
    if (!done) return request.refuse(done.error());
    request.ok();
}

}  // namespace

void add_live_directories(fuse_lowlevel_ops& table) {
    table.opendir = open_directory;
    table.releasedir = release_directory;
    table.readdir = read_directory;
    table.readdirplus = read_directory_plus;
    table.fsyncdir = sync_directory;
}

}  // namespace tierfs
