// What an earlier daemon has acknowledged and not brought to the bucket; see posix_bucket.hpp.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "backends/origin/upload_name.hpp"
#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/log.hpp"

namespace tierfs::s3 {

/// A directory need not be at the bucket: what is in it is to be brought there.
BucketNodePtr PosixBucket::directory_at(const std::string& path) {
    auto at = root_;
    std::size_t begin = 0;
    while (begin < path.size()) {
        const auto end = std::min(path.find('/', begin), path.size());
        const auto name = path.substr(begin, end - begin);
        begin = end + 1;
        const auto inode = numbers_.number(place_of(at->inode, name));
        const MutexLock lock(mutex_);
        auto next = find_locked(inode);
        if (!next || !S_ISDIR(next->type)) {
            next = std::make_shared<BucketNode>(inode, S_IFDIR, 0);
            next->parent = at;
            next->name = name;
            add_locked(next);
        }
        at = std::move(next);
    }
    return at;
}

void PosixBucket::recover_file(const BucketNodePtr& directory, const std::string& name,
                               Journal::Found found) {
    auto draft = std::make_shared<Draft>(calls_, totals_, std::move(found.copy), found.record.metadata,
                                         found.record.size);
    (void)draft->freeze();
    BucketNodePtr node;
    {
        const MutexLock lock(mutex_);
        node = find_locked(numbers_.number(place_of(directory->inode, name)));
    }
    if (!node || node->standing != BucketNode::Standing::named) {
        node = new_file(directory, name, 0, nullptr);
        const MutexLock lock(mutex_);
        node->opens = node->writers = 0;
        node->is_unasked = true;  // perhaps
        node->has_object = found.record.expects != JournalRecord::Expects::nothing;
        add_locked(node);
        if (!node->has_object) fresh_[node->inode] = node;
    }
    WriteBack::Entry entry;
    entry.record = std::move(found.record);
    entry.draft = draft;
    entry.node = node;
    {
        const MutexLock lock(mutex_);
        node->draft = draft;
    }
    auto pending = back_->add_found(std::move(entry));
    const MutexLock lock(mutex_);
    if (node->draft == draft && draft->is_changed()) node->pending = std::move(pending);
}

/// What an earlier daemon has acknowledged is here from the beginning.
void PosixBucket::recover() {
    constexpr std::size_t kFewest = 256;
    rlimit descriptors{};
    const bool is_known = ::getrlimit(RLIMIT_NOFILE, &descriptors) == 0;
    most_queued_ = std::max(kFewest, static_cast<std::size_t>(is_known ? descriptors.rlim_cur / 4 : 0));
    auto found = back_->journal().take_found();
    if (found.empty()) return;
    log::info("the journal " + back_->journal().folder() + " holds " + std::to_string(found.size()) +
              " changes that are still to be brought to the bucket");
    for (auto& one : found) {
        if (one.record.is_of_directory()) {
            recover_directory(std::move(one));
            continue;
        }
        const auto [above, name] = split_path(one.record.path);
        const auto directory = directory_at(above);
        if (one.record.kind == JournalRecord::Kind::put) {
            recover_file(directory, name, std::move(one));
            continue;
        }
        const auto place = place_of(directory->inode, name);
        const auto node = find(numbers_.number(place));
        WriteBack::Entry entry;
        entry.record = std::move(one.record);
        entry.directory = directory;
        (void)back_->add_found(std::move(entry));
        unlinked(node, *directory, name, Facts());
    }
    back_->hurry();
}

}  // namespace tierfs::s3
