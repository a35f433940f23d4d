#include "fs/readwrite/live_passthrough.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "backends/dir/caller_scope.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs {

namespace {

/// A description of our own, for reading: what is locked or leased through others does not live as long as
/// the kernel keeps this one, and it is no open for writing.
FileDescriptor open_again(int file) {
    return FileDescriptor(TIERFS_FAULT_CALL(
        "passthrough.reopen",
        ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)));
}

/// False also where that cannot be told.
bool is_written_by_nobody(int file) {
    if (TIERFS_FAULT_CALL("passthrough.lease", ::fcntl(file, F_SETLEASE, F_RDLCK)) != 0) return false;
    ::fcntl(file, F_SETLEASE, F_UNLCK);
    return true;
}

/// Whether is_written_by_nobody can ever be told. EAGAIN: not now, as somebody has it open for writing;
/// others: the file is not ours and CAP_LEASE is lacking, or its file system has no leases.
bool can_be_told(int file) {
    return is_written_by_nobody(file) || errno == EAGAIN;
}

std::string version_of(int file) {
    struct stat now {};
    if (::fstat(file, &now) != 0) return {};
    return std::to_string(now.st_size) + ' ' + std::to_string(to_ns(now.st_mtim.tv_sec, now.st_mtim.tv_nsec));
}

/// The time of access is set to what it is: a change of the owner, to the same one, would take set-user-ID
/// bits and capabilities away.
void move_time_of_change(int file) {
    struct stat now {};
    if (::fstat(file, &now) != 0) return;
    const std::array<timespec, 2> times{now.st_atim, timespec{0, UTIME_OMIT}};
    if (TIERFS_FAULT_CALL("passthrough.touch", ::futimens(file, times.data())) != 0)
        log::warning(system_error(errno, "the time of change of a file that may have been mapped").message);
}

/// Of a file that nobody has mapped any more and that was `version` before somebody had.
void tell_of_changes(int file, const std::string& version) {
    struct statfs found {};
    const bool is_told = ::fstatfs(file, &found) == 0 && tells_of_mappings(found.f_type);
    if (!is_told || version_of(file) != version) move_time_of_change(file);
}

/// The end of a node that may still have been mapped when it was last looked at.
void tell_of_changes(LiveNode& node) {
    std::shared_ptr<const FileDescriptor> file;
    std::string version;
    {
        const MutexLock lock(node.passed.mutex);
        file = node.passed.file;
        version = node.passed.version;
    }
    if (file && file->valid()) tell_of_changes(file->get(), version);
}

// Errors that say that the kernel will never do it, of any file.
bool is_lasting(int code) {
    return code == EPERM || code == EOPNOTSUPP || code == ENOTTY || code == ENOSYS;
}

}  // namespace

bool tells_of_mappings(long type) {
    return is_local_file_system(type) && type != TMPFS_MAGIC;
}

std::string against_live_passthrough(const std::string& wish, const std::string& against, long type) {
    if (wish == "false") return "writes.passthrough=false";
    if (!against.empty()) return against;
    if (wish != "true" && type != 0 && !is_local_file_system(type))
        return "the source's file system is none of those that writes.passthrough=auto is for";
    return {};
}

void LivePassthrough::allow(BackingIds& ids, std::uint64_t root_device) {
    ::signal(SIGIO, SIG_IGN);  // NOLINT(cert-err33-c): nothing else can be done
    const MutexLock lock(mutex_);
    ids_ = &ids;
    root_device_ = root_device;
    reason_.clear();
}

void LivePassthrough::forbid(std::string reason) {
    const MutexLock lock(mutex_);
    reason_ = std::move(reason);  // ids_ stays: what is registered already is to be removed one day
}

BackingIds* LivePassthrough::ids() const {
    const MutexLock lock(mutex_);
    return ids_;
}

bool LivePassthrough::is_judged_well(int file, std::uint64_t device) const {
    {
        const MutexLock lock(mutex_);
        if (is_asked_for_ || device == root_device_) return true;
    }
    struct statfs found {};
    return ::fstatfs(file, &found) == 0 && is_local_file_system(found.f_type);
}

std::int32_t LivePassthrough::add(PosixFile& file, std::uint64_t device) {
    {
        const MutexLock lock(mutex_);
        if (!reason_.empty() || ids_ == nullptr) return 0;
    }
    const int descriptor = file.descriptor();
    if (descriptor < 0 || !is_judged_well(descriptor, device)) return 0;
    struct stat now {};
    struct statfs place {};
    if (::fstat(descriptor, &now) != 0 || ::fstatfs(descriptor, &place) != 0) return 0;
    // A write leaves these bits or not by who writes, and here nobody is told from another.
    if (has_set_id(now.st_mode)) return 0;
    const auto own = open_again(descriptor);
    if (!own) return 0;
    const auto id = [&] {
        const StandingScope acting(now.st_gid, is_local_file_system(place.f_type));
        return ids()->add(own.get());
    }();
    if (id && file.pass_through(descriptor)) return *id;
    if (id) ids()->remove(*id);
    if (id) return 0;
    if (is_lasting(id.error().code)) {
        log::info("no passthrough on this mount: " + id.error().message);
        forbid(id.error().message);
    }
    return 0;
}

std::int32_t LivePassthrough::open(LiveNode& node, PosixFile& file, int flags, bool is_wanted) {
    auto& passed = node.passed;
    if (!is_asked_for_ && (flags & (O_APPEND | O_DIRECT)) != 0) is_wanted = false;
    // Whoever may map it for writing.
    std::shared_ptr<const FileDescriptor> own;
    std::string version;
    const bool may_map = (flags & O_ACCMODE) == O_RDWR && !file.looks_itself();
    if (may_map && file.descriptor() >= 0 && ids() != nullptr) {
        version = version_of(file.descriptor());
        own = std::make_shared<const FileDescriptor>(open_again(file.descriptor()));
        if (!own->valid() || !can_be_told(own->get())) is_wanted = false;
    }
    {
        const MutexLock lock(passed.mutex);
        if (passed.opens != 0) is_wanted = false;
    }
    std::int32_t added = is_wanted ? add(file, node.identity.device) : 0;
    TIERFS_SYNC_POINT("live.passthrough.added");
    bool is_first = false;
    std::int32_t answer = 0;
    {
        const MutexLock lock(passed.mutex);
        is_first = ++passed.opens == 1;
        // What another open decided meanwhile holds.
        if (is_first) passed.backing_id = std::exchange(added, 0);
        answer = passed.backing_id;
        if (answer != 0 && may_map) {
            ++passed.generation;
            if (!passed.is_mapped.exchange(true)) passed.version = std::move(version);
            if (!passed.file || !passed.file->valid()) passed.file = std::move(own);
        }
    }
    if (added != 0) ids()->remove(added);
    if (answer != 0) {
        const MutexLock lock(mutex_);
        ++opens_;
        if (is_first) ++files_;
    }
    return answer;
}

// Whatever was stored through mappings until now is taken to be news: nobody remembers what the file was before.
void LivePassthrough::restore(LiveNode& node, PosixFile& file, std::int32_t backing_id) {
    auto& passed = node.passed;
    const bool may_map = backing_id != 0 && !file.looks_itself();  // also by one that was closed since
    auto own = may_map ? std::make_shared<const FileDescriptor>(open_again(file.descriptor())) : nullptr;
    bool is_first = false;
    {
        const MutexLock lock(passed.mutex);
        is_first = ++passed.opens == 1;
        passed.backing_id = backing_id;
        if (may_map) {
            ++passed.generation;
            passed.is_mapped = true;
            if (!passed.file) passed.file = std::move(own);
        }
    }
    if (backing_id == 0) return;
    const MutexLock lock(mutex_);
    ++opens_;
    if (is_first) ++files_;
}

void LivePassthrough::close(const LiveNodePtr& node) {
    auto& passed = node->passed;
    std::int32_t ended = 0;
    {
        const MutexLock lock(passed.mutex);
        if (passed.opens == 0 || --passed.opens != 0) return;
        ended = std::exchange(passed.backing_id, 0);
    }
    if (ended == 0) return;
    ids()->remove(ended);
    {
        const MutexLock lock(mutex_);
        --files_;
    }
    if (!may_be_mapped(*node)) return;
    const MutexLock lock(mutex_);
    mapped_.push_back(node);  // counted in the record when it still is by the next tick
}

bool LivePassthrough::may_be_mapped(LiveNode& node) {
    auto& passed = node.passed;
    if (!passed.is_mapped.load(std::memory_order_acquire)) return false;
    std::shared_ptr<const FileDescriptor> file;
    std::uint64_t generation = 0;
    std::string version;
    {
        const MutexLock lock(passed.mutex);
        file = passed.file;
        generation = passed.generation;
        version = passed.version;
    }
    if (!file || !file->valid() || !is_written_by_nobody(file->get())) return true;
    tell_of_changes(file->get(), version);
    TIERFS_SYNC_POINT("live.passthrough.unmapped");
    std::shared_ptr<const FileDescriptor> given_up;  // closed after the lock
    const MutexLock lock(passed.mutex);
    if (passed.generation != generation) return true;
    given_up = std::move(passed.file);
    passed.file.reset();
    passed.is_mapped = false;
    return false;
}

void LivePassthrough::tick() {
    std::vector<LiveNodePtr> mapped;
    {
        const MutexLock lock(mutex_);
        mapped.swap(mapped_);
    }
    // One that was opened and closed again is there twice.
    std::sort(mapped.begin(), mapped.end());
    mapped.erase(std::unique(mapped.begin(), mapped.end()), mapped.end());
    std::erase_if(mapped, [this](const LiveNodePtr& node) {
        {
            const MutexLock lock(node->passed.mutex);
            if (node->passed.opens != 0) return true;  // comes back with its last close
        }
        if (!may_be_mapped(*node)) return true;
        // What is mapped the kernel does not forget, and somebody else here knows it.
        if (node.use_count() > 1) return false;
        tell_of_changes(*node);
        return true;
    });
    const MutexLock lock(mutex_);
    mapped_.insert(mapped_.end(), mapped.begin(), mapped.end());
    if (record_ != nullptr) record_->set_mapped(mapped_.size());
}

PassthroughStatus LivePassthrough::status() const {
    const MutexLock lock(mutex_);
    return {reason_.empty(), reason_, opens_, files_};
}

}  // namespace tierfs
