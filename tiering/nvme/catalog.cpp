#include "tiering/nvme/catalog.hpp"

#include <utility>

namespace tierfs {
namespace {

// A fraction of the usual limit of 20,000 and more descriptors; backing files take two each.
constexpr std::size_t kOpenExtents = 256;
constexpr std::size_t kOpenFiles = 128;

}  // namespace

Catalog::Catalog(std::uint64_t limit, std::filesystem::path extents, std::filesystem::path files)
    : extents_dir_(std::move(extents)),
      files_dir_(std::move(files)),
      used_(std::make_shared<std::atomic<std::uint64_t>>(0)),
      open_extents_(kOpenExtents),
      open_files_(kOpenFiles),
      policy_(limit) {}

std::shared_ptr<ExtentHandle> Catalog::make_handle(DiskFile file) const {
    return std::make_shared<ExtentHandle>(used_, std::move(file));
}

std::shared_ptr<FileHandle> Catalog::make_handle(BackingFile file) const {
    return std::make_shared<FileHandle>(used_, std::move(file));
}

void Catalog::add_extent(std::uint64_t number, const ExtentUuid& uuid, std::uint64_t bytes, bool evictable) {
    *used_ += bytes;
    MutexLock lock(mutex_);
    extents_[number] = ExtentInfo{uuid, bytes, renewal_};
    if (evictable) policy_.insert(Unit::extent(number), bytes);
}

void Catalog::keep_open(std::uint64_t number, std::shared_ptr<ExtentHandle> handle) {
    std::vector<std::shared_ptr<ExtentHandle>> closed;
    MutexLock lock(mutex_);
    if (extents_.count(number) != 0) closed = open_extents_.put(number, std::move(handle));
    lock.unlock();
}

void Catalog::seal_extent(std::uint64_t number, std::uint64_t bytes) {
    MutexLock lock(mutex_);
    const auto found = extents_.find(number);
    if (found == extents_.end()) return;
    *used_ += bytes;
    *used_ -= found->second.bytes;
    found->second.bytes = bytes;
    if (!policy_.insert(Unit::extent(number), bytes)) policy_.resize(Unit::extent(number), bytes);
}

void Catalog::add_file(const ContentId& id, std::uint64_t bytes, std::shared_ptr<FileHandle> handle) {
    *used_ += bytes;
    std::vector<std::shared_ptr<FileHandle>> closed;
    MutexLock lock(mutex_);
    files_[id] = FileInfo{bytes, renewal_, ++generation_};
    policy_.insert(Unit::file(id), bytes);
    if (handle) closed = open_files_.put(id, std::move(handle));
    lock.unlock();
}

void Catalog::resize_file(const ContentId& id, std::uint64_t bytes) {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end()) return;
    *used_ += bytes;
    *used_ -= found->second.bytes;
    found->second.bytes = bytes;
    policy_.resize(Unit::file(id), bytes);
}

std::shared_ptr<ExtentHandle> Catalog::extent(std::uint64_t number, std::uint64_t tag, Lookup& lookup) {
    ExtentUuid uuid;
    {
        MutexLock lock(mutex_);
        const auto found = extents_.find(number);
        if (found == extents_.end() || found->second.uuid.low != tag) {
            lookup.gone = true;
            return nullptr;
        }
        found->second.renewal = renewal_;
        policy_.touch(Unit::extent(number));
        if (auto open = open_extents_.find(number)) return open;
        uuid = found->second.uuid;
    }
    return open_extent(number, uuid, lookup);
}

std::shared_ptr<ExtentHandle> Catalog::extent_of_number(std::uint64_t number, Lookup& lookup) {
    ExtentUuid uuid;
    {
        MutexLock lock(mutex_);
        const auto found = extents_.find(number);
        if (found == extents_.end()) {
            lookup.gone = true;
            return nullptr;
        }
        if (auto open = open_extents_.find(number)) return open;
        uuid = found->second.uuid;
    }
    return open_extent(number, uuid, lookup);
}

std::shared_ptr<ExtentHandle> Catalog::open_extent(std::uint64_t number, const ExtentUuid& uuid,
                                                   Lookup& lookup) {
    auto opened = DiskFile::open(extent_path(number, uuid), {});
    if (!opened) {
        lookup.error = opened.error().code;
        return nullptr;
    }
    auto handle = make_handle(std::move(*opened));
    std::vector<std::shared_ptr<ExtentHandle>> closed;
    MutexLock lock(mutex_);
    if (extents_.count(number) == 0) {  // evicted meanwhile
        lookup.gone = true;
        handle.reset();
    } else if (auto open = open_extents_.find(number)) {
        std::swap(handle, open);
        closed.push_back(std::move(open));
    } else {
        closed = open_extents_.put(number, handle);
    }
    lock.unlock();
    return handle;
}

std::shared_ptr<FileHandle> Catalog::file(const ContentId& id, Lookup& lookup, bool count_use) {
    std::uint64_t generation = 0;
    {
        MutexLock lock(mutex_);
        const auto found = files_.find(id);
        if (found == files_.end()) {
            lookup.gone = true;
            return nullptr;
        }
        if (count_use) {
            found->second.renewal = renewal_;
            policy_.touch(Unit::file(id));
        }
        if (auto open = open_files_.find(id)) return open;
        generation = found->second.generation;
    }
    auto opened = BackingFile::open(files_dir_, id);
    if (!opened) {
        lookup.error = opened.error().code;
        return nullptr;
    }
    auto handle = make_handle(std::move(*opened));
    std::vector<std::shared_ptr<FileHandle>> closed;
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end() || found->second.generation != generation) {
        lookup.gone = true;
        handle.reset();
    } else if (auto open = open_files_.find(id)) {
        std::swap(handle, open);
        closed.push_back(std::move(open));
    } else {
        closed = open_files_.put(id, handle);
    }
    lock.unlock();
    return handle;
}

bool Catalog::has_extent(std::uint64_t number, std::uint64_t tag) const {
    MutexLock lock(mutex_);
    const auto found = extents_.find(number);
    return found != extents_.end() && found->second.uuid.low == tag;
}

ExtentUuid Catalog::uuid(std::uint64_t number) const {
    MutexLock lock(mutex_);
    const auto found = extents_.find(number);
    return found == extents_.end() ? ExtentUuid{} : found->second.uuid;
}

bool Catalog::has_file(const ContentId& id) const {
    MutexLock lock(mutex_);
    return files_.count(id) != 0;
}

std::uint64_t Catalog::file_bytes(const ContentId& id) const {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    return found == files_.end() ? 0 : found->second.bytes;
}

std::size_t Catalog::units() const {
    MutexLock lock(mutex_);
    return policy_.size();
}

std::optional<Victim> Catalog::take_locked(const Unit& unit) {
    Victim victim{unit, {}, 0, nullptr, nullptr};
    if (unit.is_extent) {
        const auto found = extents_.find(unit.id.low);
        if (found == extents_.end()) return std::nullopt;
        victim.uuid = found->second.uuid;
        victim.bytes = found->second.bytes;
        victim.extent = open_extents_.take(unit.id.low);
        extents_.erase(found);
    } else {
        const auto found = files_.find(unit.id);
        if (found == files_.end()) return std::nullopt;
        victim.bytes = found->second.bytes;
        victim.file = open_files_.take(unit.id);
        files_.erase(found);
    }
    policy_.erase(unit);
    return victim;
}

void Catalog::renew() {
    MutexLock lock(mutex_);
    ++renewal_;
    stale_ = true;
}

bool Catalog::is_stale(const Unit& unit) const {
    if (unit.is_extent) {
        const auto found = extents_.find(unit.id.low);
        return found == extents_.end() || found->second.renewal < renewal_;
    }
    const auto found = files_.find(unit.id);
    return found == files_.end() || found->second.renewal < renewal_;
}

std::optional<Victim> Catalog::take_next(const std::optional<Unit>& keep, bool forced) {
    MutexLock lock(mutex_);
    const bool stale_only = kept_ && !forced;
    const auto* const self = this;  // the analysis of locks does not see into the lambda
    const auto unit = policy_.evict([&](const Unit& candidate) TIERFS_NO_THREAD_SAFETY_ANALYSIS {
        return (!keep || candidate != *keep) && (!stale_only || self->is_stale(candidate));
    });
    if (!unit) {
        if (stale_only) stale_ = false;
        return std::nullopt;
    }
    return take_locked(*unit);
}

std::optional<Victim> Catalog::take(const Unit& unit) {
    MutexLock lock(mutex_);
    return take_locked(unit);
}

void Catalog::release(Victim victim) {
    if (victim.extent) {
        victim.extent->debt.owed = victim.bytes;
    } else if (victim.file) {
        victim.file->debt.owed = victim.bytes;
    } else {
        *used_ -= victim.bytes;
    }
}

}  // namespace tierfs
