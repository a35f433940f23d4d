#include "tiering/prefetch/file_walk.hpp"

#include <cerrno>
#include <iterator>
#include <utility>

namespace tierfs {

std::shared_ptr<const ObjectRef> object_of(const std::string& identity, const ListedFile& file) {
    auto object = std::make_shared<ObjectRef>();
    object->content = content_id(identity, file.path, file.version);
    object->path = file.path;
    object->version = file.version;
    object->size = file.size;
    object->mtime_ns = file.mtime_ns;
    object->archived = !file.fetchable && file.size > 0;
    return object;
}

Result<void> FileWalk::next(std::vector<ListedFile>& files) {
    if (over()) return {};
    const std::string& path = folders_.back();
    auto page = recent_ != nullptr ? recent_->list(path, token_) : origin_.list(path, token_);
    if (!page) {
        const int code = page.error().code;
        if (code != ENOENT && code != ENOTDIR) return fail(std::move(page.error()));
        end_folder();
        return {};
    }
    for (DirectoryEntry& entry : page->entries) {
        std::string inner = path.empty() ? std::move(entry.name) : path + '/' + entry.name;
        if (entry.attributes.kind == ObjectKind::directory) {
            if (below_ == Below::with) found_.push_back(std::move(inner));
        } else if (entry.attributes.kind == ObjectKind::file) {
            const std::uint64_t size = entry.attributes.size;
            files.push_back({std::move(inner), std::move(entry.attributes.version), size,
                             size > 0 && !entry.attributes.archived, entry.attributes.mtime_ns});
        }
    }
    token_ = std::move(page->next);
    if (token_.empty()) end_folder();
    return {};
}

void FileWalk::end_folder() {
    token_.clear();
    folders_.pop_back();
    folders_.insert(folders_.end(), std::make_move_iterator(found_.rbegin()),
                    std::make_move_iterator(found_.rend()));
    found_.clear();
}

}  // namespace tierfs
