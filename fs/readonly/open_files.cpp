#include "fs/readonly/open_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs {

namespace {

std::uint64_t size_of(int file) {
    struct stat found {};
    return ::fstat(file, &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
}

}  // namespace

void OpenFiles::allow(BackingIds& ids) {
    const MutexLock lock(mutex_);
    ids_ = &ids;
    reason_.clear();
}

void OpenFiles::forbid(std::string reason) {
    const MutexLock lock(mutex_);
    reason_ = std::move(reason);  // ids_ stays: what is registered already is to be removed one day
}

bool OpenFiles::record(Answer& answer, NodeId node, std::uint64_t unique, std::uint64_t bytes) {
    if (record_ == nullptr) return true;
    answer.ticket = record_->add_open(node, unique, answer.backing_id, bytes);
    if (answer.ticket == 0) answer = {Mode::too_many, 0, 0};
    return answer.ticket != 0;
}

std::optional<OpenFiles::Answer> OpenFiles::join(NodeId node, std::uint64_t unique) {
    const auto found = files_.find(node);
    if (found == files_.end()) return std::nullopt;
    const auto id = found->second.backing_id;
    Answer answer{id == 0 ? Mode::cached : Mode::passthrough, id, 0};
    if (!record(answer, node, unique, found->second.bytes)) return answer;
    ++found->second.opens;
    if (id != 0) ++opens_;
    return answer;
}

// The daemon that had taken the request died after it had counted it, and perhaps before it replied.
std::optional<OpenFiles::Answer> OpenFiles::answered_before(std::uint64_t unique) const {
    if (record_ == nullptr || (unique & kResent) == 0) return std::nullopt;
    const auto open = record_->find_open(unique);
    if (!open) return std::nullopt;
    return Answer{open->backing_id == 0 ? Mode::cached : Mode::passthrough, open->backing_id, open->ticket};
}

void OpenFiles::take_over(const HoldFile& hold) {
    if (record_ == nullptr || profile_.is_small()) return;
    std::vector<std::pair<NodeId, std::uint64_t>> passed;
    {
        const MutexLock lock(mutex_);
        for (const auto& open : record_->opens()) {
            File& file = files_[open.node];
            if (++file.opens == 1 && open.backing_id != 0) passed.emplace_back(open.node, open.bytes);
            file.backing_id = open.backing_id;
            file.bytes = open.bytes;
        }
        passed_through_ = passed.size();
    }
    for (const auto& [node, bytes] : passed) {
        auto pin = hold(node, bytes);
        const MutexLock lock(mutex_);
        files_[node].pin = std::move(pin);
    }
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
        file.bytes = size_of(whole->descriptor.get());
        file.pin = std::move(whole->pin);
    } else if (is_lasting(id.error().code)) {
        log::info("no passthrough on this mount: " + id.error().message);
        forbid(id.error().message);
    }
    return file;
}

OpenFiles::Answer OpenFiles::open(NodeId node, const FileSizes& known, const FindFile& find,
                                  std::uint64_t unique) {
    BackingIds* ids = nullptr;
    {
        const MutexLock lock(mutex_);
        if (profile_.answers_without_opens(known, passed_through_)) {
            files_.clear();  // all cached: the kernel tells of no RELEASE any more
            if (record_ != nullptr) record_->remove_all_opens();
            return {Mode::no_opens, 0, 0};
        }
        if (const auto answer = answered_before(unique)) return *answer;
        if (const auto answer = join(node, unique)) return *answer;
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
        } else if (const auto joined = join(node, unique)) {
            answer = *joined;
        } else {
            if (file.backing_id != 0) answer = {Mode::passthrough, file.backing_id, 0};
            if (record(answer, node, unique, file.bytes)) {
                file.opens = 1;
                if (file.backing_id != 0) ++opens_;
                if (file.backing_id != 0) ++passed_through_;
                files_.emplace(node, std::exchange(file, {}));
            }
        }
    }
    if (file.backing_id != 0) ids->remove(file.backing_id);
    return answer;
}

void OpenFiles::close(NodeId node, std::uint64_t handle) {
    const auto mode = static_cast<Mode>(handle & 3U);
    File ended;
    BackingIds* ids = nullptr;
    {
        const MutexLock lock(mutex_);
        if (mode == Mode::no_opens || mode == Mode::too_many) return;
        if (record_ != nullptr && !record_->remove_open(handle >> 2U)) return;
        const auto found = files_.find(node);
        if (found == files_.end() || --found->second.opens != 0) return;
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
