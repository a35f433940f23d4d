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
      pins_(std::make_shared<std::atomic<std::uint64_t>>(0)),
      shares_(limit),
      open_extents_(kOpenExtents),
      open_files_(kOpenFiles),
      policy_(limit) {}

std::shared_ptr<ExtentHandle> Catalog::make_handle(DiskFile file) const {
    return std::make_shared<ExtentHandle>(used_, std::move(file));
}

std::shared_ptr<FileHandle> Catalog::make_handle(BackingFile file) const {
    return std::make_shared<FileHandle>(used_, std::move(file));
}

void Catalog::add_extent(std::uint64_t number, const ExtentUuid& uuid, std::uint64_t bytes, bool evictable,
                         DatasetNumber dataset, bool main) {
    *used_ += bytes;
    shares_.add(dataset, bytes);
    MutexLock lock(mutex_);
    extents_[number] = ExtentInfo{uuid, bytes, renewal_, dataset, main};
    if (evictable) policy_.insert(Unit::extent(number), bytes, main);
    ++changes_;
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
    shares_.add(found->second.dataset, bytes);
    shares_.remove(found->second.dataset, found->second.bytes);
    found->second.bytes = bytes;
    if (!policy_.insert(Unit::extent(number), bytes, found->second.main))
        policy_.resize(Unit::extent(number), bytes);
    ++changes_;
}

void Catalog::add_file(const ContentId& id, std::uint64_t bytes, std::shared_ptr<FileHandle> handle,
                       DatasetNumber dataset) {
    *used_ += bytes;
    shares_.add(dataset, bytes);
    std::vector<std::shared_ptr<FileHandle>> closed;
    MutexLock lock(mutex_);
    // One that comes with its handle has just been made: all that it will hold is written by this process.
    files_[id] = FileInfo{bytes, renewal_, ++generation_, dataset, handle != nullptr, {}};
    policy_.insert(Unit::file(id), bytes);
    ++changes_;
    if (handle) closed = open_files_.put(id, std::move(handle));
    lock.unlock();
}

void Catalog::resize_file(const ContentId& id, std::uint64_t bytes) {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end()) return;
    *used_ += bytes;
    *used_ -= found->second.bytes;
    shares_.add(found->second.dataset, bytes);
    shares_.remove(found->second.dataset, found->second.bytes);
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

std::optional<Catalog::Pinned> Catalog::pin_file(const ContentId& id) {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    if (found == files_.end()) return std::nullopt;
    found->second.renewal = renewal_;
    policy_.touch(Unit::file(id));
    auto pin = found->second.pin.lock();
    if (!pin) {
        pin = std::make_shared<FilePin>(used_, pins_);
        found->second.pin = pin;
    }
    return Pinned{std::move(pin), found->second.generation, found->second.trusted};
}

std::shared_ptr<FilePin> Catalog::owe(std::uint64_t bytes) {
    auto pin = std::make_shared<FilePin>(used_, pins_);
    *used_ += bytes;
    pin->debt.owed = bytes;
    return pin;
}

bool Catalog::is_generation(const ContentId& id, std::uint64_t generation) const {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    return found != files_.end() && found->second.generation == generation;
}

void Catalog::trust(const ContentId& id, std::uint64_t generation) {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    if (found != files_.end() && found->second.generation == generation) found->second.trusted = true;
}

void Catalog::distrust(const ContentId& id) {
    MutexLock lock(mutex_);
    const auto found = files_.find(id);
    if (found != files_.end()) found->second.trusted = false;
}

bool Catalog::is_pinned(const Unit& unit) const {
    if (unit.is_extent) return false;
    const auto found = files_.find(unit.id);
    return found != files_.end() && !found->second.pin.expired();
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

std::optional<Victim> Catalog::take(const Unit& unit) {
    MutexLock lock(mutex_);
    Victim victim;
    victim.unit = unit;
    if (unit.is_extent) {
        const auto found = extents_.find(unit.id.low);
        if (found == extents_.end()) return std::nullopt;
        victim.uuid = found->second.uuid;
        victim.dataset = found->second.dataset;
        victim.main = found->second.main;
        victim.bytes = found->second.bytes;
        victim.extent = open_extents_.take(unit.id.low);
        shares_.remove(found->second.dataset, victim.bytes);
        extents_.erase(found);
    } else {
        const auto found = files_.find(unit.id);
        if (found == files_.end()) return std::nullopt;
        victim.bytes = found->second.bytes;
        victim.file = open_files_.take(unit.id);
        victim.pin = found->second.pin.lock();
        shares_.remove(found->second.dataset, victim.bytes);
        files_.erase(found);
    }
    policy_.erase(unit);
    return victim;
}

void Catalog::claim(const Unit& unit, DatasetNumber dataset) {
    MutexLock lock(mutex_);
    const auto change = [&](auto& units, const auto& key) {
        const auto found = units.find(key);
        if (found == units.end() || found->second.dataset != kUnknownDataset) return;
        shares_.remove(kUnknownDataset, found->second.bytes);
        shares_.add(dataset, found->second.bytes);
        found->second.dataset = dataset;
        ++changes_;
    };
    if (unit.is_extent) {
        change(extents_, unit.id.low);
    } else {
        change(files_, unit.id);
    }
}

bool Catalog::take_over(const Unit& unit, DatasetNumber dataset, DatasetNumber from) {
    MutexLock lock(mutex_);
    const auto change = [&](auto& info) {
        shares_.remove(info.dataset, info.bytes);
        shares_.add(dataset, info.bytes);
        info.dataset = dataset;
        ++changes_;
    };
    if (!unit.is_extent) {
        const auto found = files_.find(unit.id);
        if (found == files_.end()) return false;
        if (found->second.dataset != dataset) change(found->second);
        return true;
    }
    const auto found = extents_.find(unit.id.low);
    if (found == extents_.end()) return false;
    const DatasetNumber owner = found->second.dataset;
    // One that is written by `from` is still written by it afterwards.
    const bool changes = owner != dataset && owner == from && policy_.contains(unit);
    if (changes) change(found->second);
    return changes || owner == dataset;
}

void Catalog::disown(DatasetNumber dataset) {
    MutexLock lock(mutex_);
    let_go_of(dataset);
}

void Catalog::disown_unless_pinned(DatasetNumber dataset) {
    // Under the lock: what is taken over for it after it was pinned comes after this.
    MutexLock lock(mutex_);
    if (shares_.get(dataset) != Retention::pinned) let_go_of(dataset);
}

void Catalog::let_go_of(DatasetNumber dataset) {
    const auto let_go = [&](auto& info) {
        if (info.dataset != dataset) return;
        shares_.remove(dataset, info.bytes);
        shares_.add(kUnknownDataset, info.bytes);
        info.dataset = kUnknownDataset;
    };
    for (auto& [number, info] : extents_) {
        if (policy_.contains(Unit::extent(number))) let_go(info);
    }
    for (auto& [id, info] : files_) let_go(info);
    ++changes_;
}

DatasetNumber Catalog::owner(const Unit& unit) const {
    MutexLock lock(mutex_);
    return info(unit).dataset;
}

void Catalog::renew(DatasetNumber dataset) {
    MutexLock lock(mutex_);
    renewals_[dataset].number = ++renewal_;
    renewals_[dataset].stale = true;
}

bool Catalog::may_evict(DatasetNumber dataset, std::uint64_t bytes) const {
    const Renewal& renewal = renewals_[dataset];
    return shares_.get(dataset) == Retention::goes || renewal.stale ||
           (renewal.looked != changes_ && shares_.may_displace_any(dataset, bytes));
}

Catalog::UnitInfo Catalog::info(const Unit& unit) const {
    if (unit.is_extent) {
        const auto found = extents_.find(unit.id.low);
        if (found == extents_.end()) return {};
        return {found->second.dataset, found->second.bytes, found->second.renewal};
    }
    const auto found = files_.find(unit.id);
    if (found == files_.end()) return {};
    return {found->second.dataset, found->second.bytes, found->second.renewal};
}

bool Catalog::may_go(const Unit& unit, DatasetNumber taker, std::uint64_t bytes) const {
    const UnitInfo found = info(unit);
    if (found.dataset != taker && shares_.get(found.dataset) == Retention::pinned) return false;
    if (found.dataset == taker || found.dataset == kUnknownDataset) {
        if (shares_.get(taker) == Retention::goes) return true;
        if (shares_.get(taker) != Retention::pinned && found.renewal < renewals_[taker].number) return true;
    }
    return shares_.may_displace(taker, found.dataset, bytes);
}

Catalog::Chosen Catalog::chosen(const Unit& unit) const {
    if (!unit.is_extent) return {unit, {}, info(unit).dataset, false};
    const auto found = extents_.find(unit.id.low);
    if (found == extents_.end()) return {unit, {}, kUnknownDataset, false};
    return {unit, found->second.uuid, found->second.dataset, found->second.main};
}

std::optional<Catalog::Chosen> Catalog::choose_next(const std::optional<Unit>& keep, bool forced,
                                                    DatasetNumber taker, std::uint64_t bytes) {
    MutexLock lock(mutex_);
    const auto* const self = this;  // the analysis of locks does not see into the lambda
    const auto choose = [&](auto&& may) TIERFS_NO_THREAD_SAFETY_ANALYSIS {
        return policy_.evict([&](const Unit& candidate) TIERFS_NO_THREAD_SAFETY_ANALYSIS {
            return (!keep || candidate != *keep) && !self->is_pinned(candidate) && may(candidate);
        });
    };
    std::optional<Unit> unit;
    if (forced) {
        unit = choose([&](const Unit& candidate) TIERFS_NO_THREAD_SAFETY_ANALYSIS {
            return self->shares_.get(self->info(candidate).dataset) != Retention::pinned;
        });
        if (!unit) unit = choose([](const Unit&) { return true; });
    } else {
        unit = choose([&](const Unit& candidate)
                          TIERFS_NO_THREAD_SAFETY_ANALYSIS { return self->may_go(candidate, taker, bytes); });
        if (!unit) {
            renewals_[taker].stale = false;
            renewals_[taker].looked = changes_.load();
        }
    }
    if (!unit) return std::nullopt;
    return chosen(*unit);
}

void Catalog::release(Victim victim) {
    if (victim.extent) {
        victim.extent->debt.owed = victim.bytes;
    } else if (victim.file) {
        victim.file->debt.owed = victim.bytes;
        if (victim.pin) victim.pin->dropped = std::move(victim.file);
    } else if (victim.pin) {
        victim.pin->debt.owed = victim.bytes;
    } else {
        *used_ -= victim.bytes;
    }
}

}  // namespace tierfs
