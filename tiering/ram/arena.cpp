#include "tiering/ram/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "tiering/values/unit.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kHugePage = 2 << 20;
constexpr std::uint32_t kHugePages = kHugePage / Arena::kPage;

/// Free and resident: as much as is in use, within these.
constexpr std::uint64_t kLeastFree = FirstTouch::kStep, kMostFree = 8 * FirstTouch::kStep;

/// Below this much for each node, what a few readers of large files need would not fit one part.
constexpr std::uint64_t kSmallestPart = 8 * Arena::kLargest;

/// A free piece that is smaller is left resident.
constexpr std::size_t kWorthReturning = 64 * 1024;

}  // namespace

ArenaBuffer::ArenaBuffer(std::shared_ptr<Arena> arena, std::span<std::byte> memory, std::size_t size)
    : Buffer(memory, size),
      arena_(std::move(arena)),
      given_(std::make_unique<std::atomic<std::uint64_t>[]>((memory.size() / Arena::kPage + 63) / 64)) {}

bool ArenaBuffer::give(std::uint64_t begin, std::uint64_t end) {
    const auto first = static_cast<std::uint32_t>(begin / kBlockSize);
    const BlockMask blocks = block_range(first, static_cast<std::uint32_t>(block_count(end)) - first);
    const std::uint64_t size = bytes().size();
    // Mostly nothing is new: then no cache line is written.
    if ((used.load() & blocks) != blocks) used.fetch_or(blocks);
    if (end == size && !ended_.load()) ended_.store(true);
    const BlockMask all = block_range(0, static_cast<std::uint32_t>(block_count(size)));
    return ended_.load() && (used.load() & all) == all && !over_.load() && !over_.exchange(true);
}

std::uint64_t ArenaBuffer::take_fresh(std::uint64_t begin, std::uint64_t end) {
    constexpr std::uint64_t kWordPages = 64;
    std::uint64_t fresh = 0;
    for (std::uint64_t page = begin / Arena::kPage; page * Arena::kPage < end;) {
        const std::uint64_t word = page / kWordPages;
        const std::uint64_t last = std::min((word + 1) * kWordPages, (end + Arena::kPage - 1) / Arena::kPage);
        const std::uint64_t count = last - page;
        const std::uint64_t ones = count == kWordPages ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
        const std::uint64_t wanted = ones << (page % kWordPages);
        // Mostly nothing is new: then no cache line is written.
        std::uint64_t old = given_[word].load(std::memory_order_relaxed);
        if ((old & wanted) != wanted) old = given_[word].fetch_or(wanted, std::memory_order_relaxed);
        for (std::uint64_t bits = wanted & ~old; bits != 0; bits &= bits - 1) {
            const std::uint64_t at =
                (word * kWordPages + static_cast<std::uint64_t>(std::countr_zero(bits))) * Arena::kPage;
            fresh += std::min(end, at + Arena::kPage) - std::max(begin, at);
        }
        page = last;
    }
    return fresh;
}

ArenaBuffer::~ArenaBuffer() {
    arena_->give_back(writable(), quiet);
}

Result<std::shared_ptr<Arena>> Arena::create(std::uint64_t bytes, std::shared_ptr<FreeListener> listener,
                                             NumaNodes nodes) {
    const std::uint64_t capacity = bytes / kPage * kPage;
    if (capacity == 0 || capacity / kPage >= UINT32_MAX) {
        return fail(EINVAL, "data memory of " + std::to_string(bytes) + " bytes: must be 4 KiB to 16 TiB");
    }
    std::shared_ptr<Arena> arena(new Arena);
    arena->listener_ = std::move(listener);
    arena->nodes_ = std::move(nodes);
    if (auto mapped = arena->map(capacity); !mapped) return fail(std::move(mapped.error()));
    try {
        arena->divide();
        if (arena->grows_)
            arena->first_touch_ = std::make_unique<FirstTouch>([self = arena.get()] { return self->grow(); });
    } catch (const std::bad_alloc&) {
        return fail(ENOMEM, "tables of the data memory");
    }
    return arena;
}

/// A small arena has no huge pages: they would make memory resident that a small limit was meant to save.
Result<void> Arena::map(std::uint64_t bytes) {
    grows_ = bytes >= kGrowsFrom;
    const std::size_t all = bytes + (grows_ ? kHugePage : 0);
    void* memory =
        ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return fail(system_error(errno, "data memory"));
    mapped_ = std::span(static_cast<std::byte*>(memory), all);
    base_ = mapped_.data();
    if (grows_) {
        ::madvise(memory, all, MADV_HUGEPAGE);
        const auto beyond = reinterpret_cast<std::uintptr_t>(memory) % kHugePage;
        if (beyond != 0) base_ += kHugePage - beyond;
    }
    capacity_ = bytes;
    return {};
}

void Arena::add_part(std::uint32_t first, std::uint32_t pages) {
    const std::uint32_t free = grows_ ? 0 : pages;
    parts_.push_back(std::make_unique<Part>(first, pages, free));
    opened_ += std::uint64_t{free} * kPage;
}

/// Before any of it is touched: a page comes from where it is preferred when it becomes resident.
void Arena::divide() {
    const auto pages = static_cast<std::uint32_t>(capacity_ / kPage);
    const auto count = static_cast<std::uint32_t>(nodes_.nodes.size());
    const std::uint32_t each = pages / count / kHugePages * kHugePages;
    if (count == 1 || each * kPage < kSmallestPart) {
        add_part(0, pages);
        return;
    }
    for (std::uint32_t place = 0; place < count; ++place) {
        const std::uint32_t first = place * each;
        const std::uint32_t length = place + 1 == count ? pages - first : each;
        nodes_.prefer(base_ + std::size_t{first} * kPage, std::size_t{length} * kPage, nodes_.nodes[place]);
        add_part(first, length);
    }
}

Arena::~Arena() {
    first_touch_.reset();
    if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

std::size_t Arena::part_of(std::uint32_t page) const {
    return std::min<std::size_t>(page / parts_.front()->pages, parts_.size() - 1);
}

std::optional<int> Arena::node_of(const std::byte* memory) const {
    if (parts_.size() == 1 || memory < base_ || memory >= base_ + capacity_) return std::nullopt;
    return nodes_
        .nodes[part_of(static_cast<std::uint32_t>(static_cast<std::size_t>(memory - base_) / kPage))];
}

/// The next pages behind those that are open, up to a border of huge pages: so many at least, if there are.
/// They are the caller's to give to the heap.
std::uint32_t Arena::open(Part& part, std::uint32_t pages) {
    const std::uint64_t wanted =
        (std::uint64_t{part.opened} + pages + kHugePages - 1) / kHugePages * kHugePages;
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(part.pages, wanted) - part.opened);
    part.opened += count;
    opened_.fetch_add(std::uint64_t{count} * kPage, std::memory_order_relaxed);
    return count;
}

std::optional<std::uint32_t> Arena::take_of(Part& part, std::uint32_t pages, Memory memory) {
    MutexLock lock(part.mutex);
    auto page = part.heap.take(pages);
    const bool may_open =
        memory == Memory::any || opened() < kGrowsFrom || (first_touch_ && !first_touch_->is_dear());
    if (!page && may_open && part.opened < part.pages) {
        const std::uint32_t begin = part.opened;
        part.heap.give_back(begin, open(part, pages));
        page = part.heap.take(pages);
    }
    if (!page) return std::nullopt;
    part.used += pages;
    return part.first + *page;
}

std::optional<std::uint32_t> Arena::take(std::uint32_t pages, Memory memory) {
    if (parts_.size() == 1) return take_of(*parts_.front(), pages, memory);
    const unsigned here = nodes_.current();
    for (const std::size_t place : nodes_.nearest.at(here < nodes_.nearest.size() ? here : 0)) {
        if (const auto page = take_of(*parts_[place], pages, memory)) return page;
        if (memory == Memory::resident) break;  // the nearest one's memory is worth more than another's
    }
    return std::nullopt;
}

ArenaBufferPtr Arena::allocate(std::size_t size, Memory memory) {
    if (size == 0 || size > kLargest) return nullptr;
    const std::size_t taken = rounded(size);
    const auto page = take(static_cast<std::uint32_t>(taken / kPage), memory);
    if (page) {
        const std::uint64_t now = in_use_.fetch_add(taken, std::memory_order_relaxed) + taken;
        std::uint64_t peak = peak_.load(std::memory_order_relaxed);
        while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
        }
    }
    if (first_touch_ &&
        std::any_of(parts_.begin(), parts_.end(), [this](const auto& part) { return is_short(*part); }))
        first_touch_->wake();
    if (!page) return nullptr;
    return std::make_shared<ArenaBuffer>(shared_from_this(),
                                         std::span(base_ + std::size_t{*page} * kPage, taken), size);
}

std::uint64_t Arena::wanted_free() const {
    return std::clamp(in_use(), kLeastFree, kMostFree);
}

bool Arena::is_short(const Part& part) const {
    const std::uint32_t opened = part.opened.load(std::memory_order_relaxed);
    const std::uint64_t free = std::uint64_t{opened - part.used.load(std::memory_order_relaxed)} * kPage;
    return opened < part.pages && free < wanted_free() / parts_.size();
}

/// As much as the largest piece needs: a reader who asks meanwhile goes on behind it, and it comes back in one piece.
std::optional<std::chrono::nanoseconds> Arena::grow_part(Part& part) {
    std::uint32_t begin = 0, count = 0;
    {
        const MutexLock lock(part.mutex);
        if (!is_short(part)) return std::nullopt;
        begin = part.opened;
        count = open(part, static_cast<std::uint32_t>(FirstTouch::kStep / kPage));
    }
    const auto took =
        make_resident(std::span(base_ + std::size_t{part.first + begin} * kPage, std::size_t{count} * kPage));
    {
        const MutexLock lock(part.mutex);
        part.heap.give_back(begin, count);
    }
    if (listener_) listener_->memory_freed();
    return took;
}

std::optional<std::chrono::nanoseconds> Arena::grow() {
    for (const auto& part : parts_) {
        if (const auto took = grow_part(*part)) return took;
    }
    return std::nullopt;
}

void Arena::give_back(std::span<std::byte> memory, bool quiet) {
    const auto page = static_cast<std::uint32_t>(static_cast<std::size_t>(memory.data() - base_) / kPage);
    // First, or whoever takes it meanwhile counts it twice.
    in_use_.fetch_sub(memory.size(), std::memory_order_relaxed);
    {
        Part& part = *parts_[part_of(page)];
        MutexLock lock(part.mutex);
        part.heap.give_back(page - part.first, static_cast<std::uint32_t>(memory.size() / kPage));
        part.used -= static_cast<std::uint32_t>(memory.size() / kPage);
    }
    if (listener_ && !quiet) listener_->memory_freed();
}

void Arena::return_free() {
    for (const auto& each : parts_) {
        Part& part = *each;
        MutexLock lock(part.mutex);
        part.heap.for_each_free([&](std::uint32_t page, std::uint32_t count) {
            const std::size_t bytes = count * kPage;
            if (bytes < kWorthReturning) return;
            ::madvise(base_ + std::size_t{part.first + page} * kPage, bytes, MADV_DONTNEED);
        });
    }
}

}  // namespace tierfs
