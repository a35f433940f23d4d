#include "tiering/ram/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace tierfs {

namespace {

/// Below this, huge pages would make memory resident that a small limit was meant to save.
constexpr std::uint64_t kHugePagesFrom = std::uint64_t{1} << 30;

unsigned order_of(std::size_t pages) {
    return static_cast<unsigned>(std::bit_width(pages - 1));
}

}  // namespace

ArenaBuffer::ArenaBuffer(std::shared_ptr<Arena> arena, std::span<std::byte> memory, std::size_t size)
    : Buffer(memory, size),
      arena_(std::move(arena)),
      given_(std::make_unique<std::atomic<std::uint64_t>[]>((memory.size() / Arena::kPage + 63) / 64)) {}

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

Result<std::shared_ptr<Arena>> Arena::create(std::uint64_t bytes, std::shared_ptr<FreeListener> listener) {
    const std::uint64_t capacity = bytes / kPage * kPage;
    if (capacity == 0 || capacity / kPage >= UINT32_MAX) {
        return fail(EINVAL, "data memory of " + std::to_string(bytes) + " bytes: must be 4 KiB to 16 TiB");
    }
    std::shared_ptr<Arena> arena(new Arena);
    void* memory =
        ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return fail(system_error(errno, "data memory"));
    if (capacity >= kHugePagesFrom) ::madvise(memory, capacity, MADV_HUGEPAGE);
    arena->base_ = static_cast<std::byte*>(memory);
    arena->capacity_ = capacity;
    arena->pages_ = static_cast<std::uint32_t>(capacity / kPage);
    arena->listener_ = std::move(listener);
    MutexLock lock(arena->mutex_);
    // calloc, since large tables then stay unbacked until their part of the arena is used.
    arena->free_order_.reset(static_cast<std::uint8_t*>(std::calloc(arena->pages_, sizeof(std::uint8_t))));
    arena->links_.reset(static_cast<Link*>(std::calloc(arena->pages_, sizeof(Link))));
    if (!arena->free_order_ || !arena->links_) return fail(ENOMEM, "tables of the data memory");
    arena->free_pages(0, arena->pages_);
    return arena;
}

Arena::~Arena() {
    if (base_ != nullptr) ::munmap(base_, capacity_);
}

std::size_t Arena::rounded(std::size_t size) {
    const std::size_t pages = (size + kPage - 1) / kPage;
    if (pages * kPage <= kBlockSize) return std::bit_ceil(pages) * kPage;
    return (size + kBlockSize - 1) / kBlockSize * kBlockSize;
}

ArenaBufferPtr Arena::allocate(std::size_t size) {
    if (size == 0 || size > kLargest) return nullptr;
    const std::size_t taken = rounded(size);
    const auto count = static_cast<std::uint32_t>(taken / kPage);
    std::uint32_t page = 0;
    {
        MutexLock lock(mutex_);
        const unsigned order = order_of(count);
        unsigned found = order;
        while (found < kOrders && heads_[found] == 0) ++found;
        if (found == kOrders) return nullptr;
        page = heads_[found] - 1;
        remove_free(page, found);
        while (found > order) {
            --found;
            add_free(page + (1U << found), found);
        }
        if (const std::uint32_t whole = 1U << order; whole > count) free_pages(page + count, whole - count);
        const std::uint64_t now = in_use_.fetch_add(taken, std::memory_order_relaxed) + taken;
        if (now > peak_.load(std::memory_order_relaxed)) peak_.store(now, std::memory_order_relaxed);
    }
    return std::make_shared<ArenaBuffer>(shared_from_this(),
                                         std::span(base_ + std::size_t{page} * kPage, taken), size);
}

void Arena::give_back(std::span<std::byte> memory, bool quiet) {
    const auto page = static_cast<std::uint32_t>(static_cast<std::size_t>(memory.data() - base_) / kPage);
    {
        MutexLock lock(mutex_);
        free_pages(page, static_cast<std::uint32_t>(memory.size() / kPage));
        in_use_.fetch_sub(memory.size(), std::memory_order_relaxed);
    }
    if (listener_ && !quiet) listener_->memory_freed();
}

void Arena::return_free() {
    constexpr unsigned kLeast = 4;  // 64 KiB
    MutexLock lock(mutex_);
    for (unsigned order = kLeast; order < kOrders; ++order) {
        for (std::uint32_t next = heads_[order]; next != 0; next = links_[next - 1].next)
            ::madvise(base_ + std::size_t{next - 1} * kPage, kPage << order, MADV_DONTNEED);
    }
}

void Arena::add_free(std::uint32_t page, unsigned order) {
    const std::uint32_t head = heads_[order];
    links_[page] = Link{head, 0};
    if (head != 0) links_[head - 1].previous = page + 1;
    heads_[order] = page + 1;
    free_order_[page] = static_cast<std::uint8_t>(order + 1);
}

void Arena::remove_free(std::uint32_t page, unsigned order) {
    const Link link = links_[page];
    if (link.next != 0) links_[link.next - 1].previous = link.previous;
    if (link.previous != 0) {
        links_[link.previous - 1].next = link.next;
    } else {
        heads_[order] = link.next;
    }
    free_order_[page] = 0;
}

void Arena::free_block(std::uint32_t page, unsigned order) {
    while (order + 1 < kOrders) {
        const std::uint32_t buddy = page ^ (1U << order);
        if (buddy >= pages_ || free_order_[buddy] != order + 1) break;
        remove_free(buddy, order);
        page = std::min(page, buddy);
        ++order;
    }
    add_free(page, order);
}

void Arena::free_pages(std::uint32_t page, std::uint32_t count) {
    while (count > 0) {
        const auto aligned = page == 0 ? kOrders - 1 : static_cast<unsigned>(std::countr_zero(page));
        const auto fits = static_cast<unsigned>(std::bit_width(count)) - 1;
        const unsigned order = std::min({aligned, fits, kOrders - 1});
        free_block(page, order);
        page += 1U << order;
        count -= 1U << order;
    }
}

}  // namespace tierfs
