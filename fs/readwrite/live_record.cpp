#include "fs/readwrite/live_record.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <unordered_map>

#include "config/base/fault_point.hpp"
#include "config/base/time.hpp"
#include "fs/session/connection_record.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kSlotBytes = 64;
constexpr std::size_t kRegionBytes = std::size_t{1} << 31U;
constexpr std::size_t kOpensBytes = LiveRecord::kMostOpens * kSlotBytes;
constexpr std::size_t kDeedsBytes = LiveRecord::kMostDeeds * kSlotBytes;
constexpr std::size_t kRegionsAt = kHeaderBytes + kOpensBytes + kDeedsBytes;
constexpr std::size_t kAllBytes = kRegionsAt + 2 * kRegionBytes;
constexpr std::uint64_t kWorthRewriting = 4 << 20;
constexpr std::size_t kAlign = 8;

enum class Kind : std::uint32_t { node = 1, name = 2 };

/// The clock that times of birth are taken from.
std::int64_t coarse_clock_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return to_ns(now);
}

}  // namespace

struct LiveRecord::Header {
    std::atomic<std::uint32_t> generation{0};
    std::atomic<std::uint32_t> region{0};  ///< that counts
    std::array<std::atomic<std::uint64_t>, 2> ends{};
    std::atomic<std::uint64_t> next_node{kFirstNode};
    std::atomic<std::uint64_t> next_handle{1};
    std::atomic<std::uint64_t> locked{0}, mapped{0};
    std::atomic<std::uint32_t> has_root{0};
    PosixIdentity root;
    std::atomic<std::uint32_t> slots_used{0};     ///< no slot from here on was ever used
    std::atomic<std::uint32_t> is_incomplete{0};  ///< something could not be kept
};

struct LiveRecord::Slot {
    std::atomic<std::uint64_t> handle;  ///< 0: free. Written last when taken, first when freed
    std::uint64_t node, unique;
    std::int32_t flags, backing_id;
    std::array<std::atomic<std::int32_t>, 2> descriptors;  ///< by generation
    std::uint32_t opener;
};

struct LiveRecord::NodeEntry {
    Kind kind;
    std::uint32_t size;
    NodeId id;
    PosixIdentity identity;
    std::uint64_t type;
    std::atomic<std::uint64_t> lookups;
};

struct LiveRecord::NameEntry {
    Kind kind;
    std::uint32_t size;  ///< with the name
    NodeId id, parent;
    std::uint64_t length;
};

LiveRecord::LiveRecord(FileDescriptor file, std::byte* memory) : file_(std::move(file)), memory_(memory) {
    static_assert(sizeof(Header) <= kHeaderBytes && sizeof(Slot) <= kSlotBytes && sizeof(Deed) <= kSlotBytes);
    static_assert(sizeof(NodeEntry) % kAlign == 0 && sizeof(NameEntry) % kAlign == 0);
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
}

LiveRecord::~LiveRecord() {
    ::munmap(memory_, kAllBytes);
}

Result<std::unique_ptr<LiveRecord>> LiveRecord::make() {
    const auto failed = [] { return fail(system_error(errno, "memory for the mount's record")); };
    FileDescriptor file(TIERFS_FAULT_CALL("live.record.make", ::memfd_create("tierfs-live", MFD_CLOEXEC)));
    if (!file || TIERFS_FAULT_CALL("live.record.size", ::ftruncate(file.get(), kAllBytes)) != 0)
        return failed();
    void* const memory = ::mmap(nullptr, kAllBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return failed();
    ::madvise(memory, kAllBytes, MADV_DONTDUMP);
    new (memory) Header();
    return std::unique_ptr<LiveRecord>(new LiveRecord(std::move(file), static_cast<std::byte*>(memory)));
}

LiveRecord::Header& LiveRecord::header() const {
    return *reinterpret_cast<Header*>(memory_);  // NOLINT: shared memory
}

LiveRecord::Slot& LiveRecord::slot(std::uint32_t index) const {
    return *reinterpret_cast<Slot*>(memory_ + kHeaderBytes + index * kSlotBytes);  // NOLINT
}

LiveRecord::Deed& LiveRecord::deed(std::uint32_t index) const {
    return *reinterpret_cast<Deed*>(memory_ + kHeaderBytes + kOpensBytes + index * kSlotBytes);  // NOLINT
}

std::byte* LiveRecord::region(std::uint32_t number) const {
    return memory_ + kRegionsAt + number * kRegionBytes;
}

bool LiveRecord::can_be_taken_over() const {
    const auto& now = header();
    return now.generation != 0 && now.is_incomplete == 0 && now.locked == 0 && now.mapped == 0;
}

bool LiveRecord::keeps_root(const PosixIdentity& identity) {
    if (header().has_root != 0) return header().root == identity;
    header().root = identity;
    header().has_root = 1;
    return true;
}

void LiveRecord::set_mapped(std::uint64_t files) {
    header().mapped = files;
}

void LiveRecord::set_locked(std::uint64_t files) {
    header().locked = files;
}

// ---- nodes: entries one after the other, in one of two regions. Its end is moved on once an entry is whole.

std::byte* LiveRecord::room_for(std::size_t size) {
    const auto end = header().ends.at(writing_).load(std::memory_order_relaxed);
    if (end + size <= kRegionBytes) return region(writing_) + end;
    header().is_incomplete = 1;
    return nullptr;
}

LiveRecord::Place LiveRecord::add_node(NodeId id, const PosixIdentity& identity, mode_t type,
                                       std::uint64_t lookups) {
    if (id >= header().next_node) header().next_node = id + 1;
    auto* const room = room_for(sizeof(NodeEntry));
    if (room == nullptr) return 0;
    new (room) NodeEntry{Kind::node, sizeof(NodeEntry), id, identity, type, lookups};
    header().ends.at(writing_).fetch_add(sizeof(NodeEntry), std::memory_order_release);
    return static_cast<Place>(room - memory_);
}

void LiveRecord::add_name(NodeId id, NodeId parent, std::string_view name) {
    const std::size_t size = (sizeof(NameEntry) + name.size() + kAlign - 1) / kAlign * kAlign;
    auto* const room = room_for(size);
    if (room == nullptr) return;
    new (room) NameEntry{Kind::name, static_cast<std::uint32_t>(size), id, parent, name.size()};
    std::memcpy(room + sizeof(NameEntry), name.data(), name.size());
    header().ends.at(writing_).fetch_add(size, std::memory_order_release);
}

void LiveRecord::set_lookups(Place place, std::uint64_t lookups) {
    if (place == 0) return;
    auto& entry = *reinterpret_cast<NodeEntry*>(memory_ + place);  // NOLINT
    entry.lookups.store(lookups, std::memory_order_release);
}

std::vector<LiveRecord::Known> LiveRecord::nodes() const {
    std::vector<Known> known;
    std::unordered_map<NodeId, std::size_t> places;
    const auto number = header().region.load();
    const std::byte* at = region(number);
    const std::byte* const end = at + header().ends.at(number).load(std::memory_order_acquire);
    while (at < end) {
        const auto& node = *reinterpret_cast<const NodeEntry*>(at);  // NOLINT
        if (node.kind == Kind::node) {
            at += node.size;
            if (node.lookups == 0) continue;
            places.emplace(node.id, known.size());
            known.push_back({node.id, node.identity, static_cast<mode_t>(node.type), node.lookups,
                             static_cast<Place>(at - node.size - memory_)});
            continue;
        }
        const auto& name = *reinterpret_cast<const NameEntry*>(at);  // NOLINT
        const auto place = places.find(name.id);
        const std::string_view text(reinterpret_cast<const char*>(at) + sizeof(NameEntry),
                                    name.length);  // NOLINT
        at += name.size;
        if (place == places.end()) continue;
        auto& names = known.at(place->second).names;
        Name one{name.parent, std::string(text)};
        std::erase(names, one);
        if (names.size() == kMostNames) names.erase(names.begin());
        names.push_back(std::move(one));
    }
    return known;
}

NodeId LiveRecord::next_node() const {
    return header().next_node;
}

bool LiveRecord::is_to_be_rewritten() const {
    return header().ends.at(writing_) > std::max(kWorthRewriting, 2 * rewritten_bytes_);
}

void LiveRecord::begin_rewrite() {
    writing_ = 1 - header().region;
    header().ends.at(writing_) = 0;
}

void LiveRecord::end_rewrite() {
    const auto old = header().region.exchange(writing_);
    rewritten_bytes_ = header().ends.at(writing_);
    header().ends.at(old) = 0;
    // Memory that is not given back is used again the next time.
    (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(kRegionsAt + old * kRegionBytes), static_cast<off_t>(kRegionBytes));
}

// ---- opens

LiveRecord::Open LiveRecord::open_in(std::uint32_t index) const {
    const Slot& found = slot(index);
    Open open;
    open.handle = found.handle.load(std::memory_order_acquire);
    open.node = found.node;
    open.unique = found.unique;
    open.flags = found.flags;
    open.backing_id = found.backing_id;
    open.descriptor = found.descriptors.at(generation() & 1U);
    open.opener = found.opener;
    open.slot = index;
    return open;
}

LiveRecord::Open LiveRecord::add_open(Open open) {
    if (!has_looked_) {
        has_looked_ = true;
        for (std::uint32_t index = header().slots_used; index-- > 0;)
            if (slot(index).handle == 0) free_.push_back(index);
    }
    open.handle = header().next_handle.fetch_add(1);
    open.slot = kNoSlot;
    if (free_.empty()) {
        if (header().slots_used >= kMostOpens) {
            header().is_incomplete = 1;
            return open;
        }
        free_.push_back(header().slots_used.fetch_add(1));
    }
    open.slot = free_.back();
    free_.pop_back();
    Slot& taken = slot(open.slot);
    taken.node = open.node;
    taken.unique = open.unique & ~kResent;
    taken.flags = open.flags;
    taken.backing_id = open.backing_id;
    taken.descriptors.at(generation() & 1U) = open.descriptor;
    taken.opener = open.opener;
    taken.handle.store(open.handle, std::memory_order_release);
    return open;
}

void LiveRecord::remove_open(std::uint32_t index) {
    if (index == kNoSlot) return;
    slot(index).handle.store(0, std::memory_order_release);
    if (has_looked_) free_.push_back(index);
}

std::vector<LiveRecord::Open> LiveRecord::opens() const {
    std::vector<Open> found;
    for (std::uint32_t index = 0; index < header().slots_used; ++index)
        if (auto open = open_in(index); open.handle != 0) found.push_back(open);
    return found;
}

std::optional<LiveRecord::Open> LiveRecord::answered_before(std::uint64_t unique) const {
    if ((unique & kResent) == 0) return std::nullopt;
    for (std::uint32_t index = 0; index < header().slots_used; ++index)
        if (auto open = open_in(index); open.handle != 0 && open.unique == (unique & ~kResent)) return open;
    return std::nullopt;
}

std::uint32_t LiveRecord::generation() const {
    return header().generation;
}

void LiveRecord::set_next_descriptor(std::uint32_t index, int descriptor) {
    slot(index).descriptors.at((generation() + 1) & 1U) = descriptor;
}

void LiveRecord::next_generation() {
    header().generation.fetch_add(1);
    writing_ = header().region;
}

// ---- changes

LiveRecord::Deed* LiveRecord::find_deed(std::uint64_t unique) const {
    for (std::uint32_t index = 0; index < kMostDeeds; ++index)
        if (deed(index).unique == (unique & ~kResent)) return &deed(index);
    return nullptr;
}

LiveRecord::Deed* LiveRecord::begin_deed(std::uint64_t unique) {
    unique &= ~kResent;
    for (std::uint32_t step = 0; step < kMostDeeds; ++step) {
        auto& one = deed(static_cast<std::uint32_t>(unique / 2 + step) % kMostDeeds);
        std::uint64_t free = 0;
        if (!one.unique.compare_exchange_strong(free, kClaimed)) continue;
        one.is_done = 0;
        one.has_identity = 0;
        one.begun_ns = coarse_clock_ns();
        one.unique.store(unique, std::memory_order_release);
        return &one;
    }
    return nullptr;
}

void LiveRecord::end_deed(Deed& deed) {
    deed.unique.store(0, std::memory_order_release);
}

}  // namespace tierfs
