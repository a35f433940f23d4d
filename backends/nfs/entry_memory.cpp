#include "backends/nfs/entry_memory.hpp"

#include <functional>
#include <span>

#include "backends/nfs/xdr.hpp"

namespace tierfs::nfs {
namespace {

/// A node of the table, its place in the array, and what malloc adds to the two texts.
constexpr std::size_t kCostOfEntry = 144;
constexpr std::size_t kMostChanges = 16384;
constexpr std::size_t kLongestEntryName = 4096;

/// Handles are what files are told apart by: see mark_of in posix_export.cpp.
std::string key_of(const Handle& directory, std::string_view name) {
    const auto mark = EntryMemory::mark_of(directory);
    std::string key(reinterpret_cast<const char*>(&mark), sizeof(mark));
    key += name;
    return key;
}

std::uint64_t mark_of_key(const std::string& key) {
    return std::hash<std::string>()(key);
}

}  // namespace

std::uint64_t EntryMemory::mark_of(const Handle& file) {
    return std::hash<Handle>()(file);
}

EntryMemory::Marks EntryMemory::changed_by(const Call& call) {
    const auto& procedure = call.procedure;
    const bool is_link = procedure == kLink, is_rename = procedure == kRename;
    const bool takes_name = procedure == kCreate || procedure == kMkdir || procedure == kSymlink ||
                            procedure == kMknod || procedure == kRemove || procedure == kRmdir;
    if (!takes_name && !is_link && !is_rename && procedure != kSetattr) return {};
    XdrReader in(std::as_bytes(std::span(call.arguments)));
    Marks marks;
    const auto handle = [&] {
        Handle one(in.opaque(kLongestHandle));
        marks.push_back(mark_of(one));
        return one;
    };
    const auto name_in = [&](const Handle& directory) {
        marks.push_back(mark_of_key(key_of(directory, in.opaque(kLongestEntryName))));
    };
    const auto first = handle();
    if (takes_name || is_rename) name_in(first);
    if (is_link || is_rename) name_in(handle());
    return marks;
}

void EntryMemory::note(const Marks& changed) {
    if (changed.empty()) return;
    const auto now = Clock::now();
    const MutexLock lock(mutex_);
    if (changed_.size() + changed.size() > kMostChanges) {
        changed_.clear();
        young_.clear();
        old_.clear();
        young_bytes_ = old_bytes_ = 0;
        worthless_until_ = now;
    }
    for (const auto mark : changed) changed_.insert_or_assign(mark, now);
}

bool EntryMemory::is_changed_since(std::uint64_t mark, Clock::time_point asked) const {
    const auto found = changed_.find(mark);
    return found != changed_.end() && found->second >= asked;
}

void EntryMemory::keep(const Handle& directory, const std::vector<DirectoryEntry3>& page,
                       Clock::time_point asked) {
    if (longest_.count() <= 0) return;
    const MutexLock lock(mutex_);
    if (asked <= worthless_until_) return;
    for (const auto& entry : page) {
        if (!entry.status || entry.handle.empty() || entry.name == "." || entry.name == "..") continue;
        auto key = key_of(directory, entry.name);
        const auto bytes = kCostOfEntry + sizeof(Entry) + key.size() + entry.handle.size();
        if (young_bytes_ + bytes > most_ / 2) {
            old_ = std::move(young_);
            old_bytes_ = young_bytes_;
            young_ = {};
            young_bytes_ = 0;
        }
        const bool is_new =
            young_.insert_or_assign(std::move(key), Entry{entry.handle, *entry.status, asked}).second;
        if (is_new) young_bytes_ += bytes;
    }
}

std::optional<EntryMemory::Entry> EntryMemory::take(const Handle& directory, const std::string& name) {
    const auto key = key_of(directory, name);
    const MutexLock lock(mutex_);
    for (auto* const generation : {&young_, &old_}) {
        const auto found = generation->find(key);
        if (found == generation->end()) continue;
        auto entry = std::move(found->second);
        auto& bytes = generation == &young_ ? young_bytes_ : old_bytes_;
        bytes -= kCostOfEntry + sizeof(Entry) + key.size() + entry.handle.size();
        generation->erase(found);
        if (Clock::now() - entry.asked >= longest_ || is_changed_since(mark_of_key(key), entry.asked) ||
            is_changed_since(mark_of(entry.handle), entry.asked))
            return std::nullopt;
        return entry;
    }
    return std::nullopt;
}

std::size_t EntryMemory::bytes() const {
    const MutexLock lock(mutex_);
    return young_bytes_ + old_bytes_;
}

}  // namespace tierfs::nfs
