#include "fs/operations/open_files.hpp"

#include <cerrno>
#include <utility>

#include "config/log.hpp"
#include "config/sync_point.hpp"

namespace tierfs {

void OpenFiles::allow(BackingIds& ids) {
    const MutexLock lock(mutex_);
    ids_ = &ids;
    reason_.clear();
}

void OpenFiles::forbid(std::string reason) {
    const MutexLock lock(mutex_);
    reason_ = std::move(reason);  // ids_ stays: what is registered already is to be removed one day
}

std::optional<OpenFiles::Answer> OpenFiles::join(NodeId node) {
    const auto found = files_.find(node);
    if (found == files_.end()) return std::nullopt;
    ++found->second.opens;
    if (found->second.backing_id == 0) return Answer{};
    ++opens_;
    return Answer{Mode::passthrough, found->second.backing_id};
}

// Errors that say that the kernel will never do it, apart from those of a moment (no memory, no descriptors).
bool OpenFiles::is_lasting(int code) {
    return code == EPERM || code == ELOOP || code == EOPNOTSUPP || code == ENOTTY || code == EINVAL ||
           code == ENOSYS;
}

OpenFiles::File OpenFiles::candidate(BackingIds& ids, const FindFile& find) {
    File file;
    auto whole = find();
    if (!whole) return file;
    const auto id = ids.add(whole->descriptor.get());
    if (id) {
        file.backing_id = *id;
        file.pin = std::move(whole->pin);
    } else if (is_lasting(id.error().code)) {
        log::info("no passthrough on this mount: " + id.error().message);
        forbid(id.error().message);
    }
    return file;
}

OpenFiles::Answer OpenFiles::open(NodeId node, const FileSizes& known, const FindFile& find) {
    BackingIds* ids = nullptr;
    {
        const MutexLock lock(mutex_);
        if (profile_.answers_without_opens(known, passed_through_)) {
            files_.clear();  // all cached: the kernel tells of no RELEASE any more
            return {Mode::no_opens, 0};
        }
        if (const auto answer = join(node)) return *answer;
        if (reason_.empty()) ids = ids_;
    }
    File file = ids != nullptr ? candidate(*ids, find) : File{};
    TIERFS_SYNC_POINT("fs.open.candidate");
    Answer answer;
    {
        const MutexLock lock(mutex_);
        // What another open decided meanwhile holds.
        if (profile_.is_small()) {
            answer.mode = Mode::no_opens;
        } else if (const auto joined = join(node)) {
            answer = *joined;
        } else {
            file.opens = 1;
            if (file.backing_id != 0) {
                answer = {Mode::passthrough, file.backing_id};
                ++opens_;
                ++passed_through_;
            }
            files_.emplace(node, std::exchange(file, {}));
        }
    }
    if (file.backing_id != 0) ids->remove(file.backing_id);
    return answer;
}

void OpenFiles::close(NodeId node, Mode mode) {
    File ended;
    BackingIds* ids = nullptr;
    {
        const MutexLock lock(mutex_);
        const auto found = files_.find(node);
        if (mode == Mode::no_opens || found == files_.end() || --found->second.opens != 0) return;
        ended = std::move(found->second);
        files_.erase(found);
        if (ended.backing_id != 0) --passed_through_;
        ids = ids_;
    }
    if (ended.backing_id != 0 && ids != nullptr) ids->remove(ended.backing_id);
}

PassthroughStatus OpenFiles::status() const {
    const MutexLock lock(mutex_);
    const bool is_small = profile_.is_small();
    PassthroughStatus status{reason_.empty() && !is_small, reason_, opens_, passed_through_};
    if (is_small && reason_.empty()) status.reason = "profile small: the kernel asks for no open";
    return status;
}

std::uint64_t OpenFiles::passed_through() const {
    const MutexLock lock(mutex_);
    return passed_through_;
}

}  // namespace tierfs
