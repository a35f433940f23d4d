#include "tiering/ram/page_heap.hpp"

#include <bit>
#include <new>

namespace tierfs {

namespace {

/// calloc, since a large table then stays unbacked until its part of the memory is used.
template <typename T>
T* zeroed(std::uint32_t count) {
    void* const table = std::calloc(count, sizeof(T));
    if (table == nullptr) throw std::bad_alloc();
    return static_cast<T*>(table);
}

}  // namespace

PageHeap::PageHeap(std::uint32_t pages, std::uint32_t free)
    : pages_(pages), free_(zeroed<std::uint32_t>(pages)), links_(zeroed<Link>(pages)) {
    if (free > 0) add(0, free);
}

std::size_t PageHeap::list_of(std::uint32_t count) {
    if (count < kExact) return count;
    const auto doubling = static_cast<std::uint32_t>(std::bit_width(count)) - 1;
    const std::uint32_t part = (count >> (doubling - 3)) % kPerDoubling;
    return kExact + (doubling - 4) * kPerDoubling + part;
}

std::uint32_t PageHeap::find(std::uint32_t count) const {
    const std::size_t own = list_of(count);
    std::uint32_t next = heads_[own];
    for (unsigned looks = 0; next != 0 && looks < kMostLooks; ++looks) {
        if (free_[next - 1] >= count) return next;
        next = links_[next - 1].next;
    }
    for (std::size_t word = (own + 1) / 64, from = (own + 1) % 64; word < not_empty_.size();
         ++word, from = 0) {
        const std::uint64_t lists = not_empty_[word] >> from << from;
        if (lists != 0) return heads_[word * 64 + static_cast<std::size_t>(std::countr_zero(lists))];
    }
    return 0;
}

std::optional<std::uint32_t> PageHeap::take(std::uint32_t count) {
    const std::uint32_t found = find(count);
    if (found == 0) return std::nullopt;
    const std::uint32_t page = found - 1, rest = free_[page] - count;
    remove(page);
    if (count >= kLong) {
        if (rest > 0) add(page, rest);
        return page + rest;
    }
    if (rest > 0) add(page + count, rest);
    return page;
}

void PageHeap::give_back(std::uint32_t page, std::uint32_t count) {
    if (page > 0 && free_[page - 1] != 0) {  // the end of a free run
        const std::uint32_t before = free_[page - 1];
        remove(page - before);
        page -= before;
        count += before;
    }
    if (page + count < pages_ && free_[page + count] != 0) {
        const std::uint32_t after = free_[page + count];
        remove(page + count);
        count += after;
    }
    add(page, count);
}

void PageHeap::add(std::uint32_t page, std::uint32_t count) {
    const std::size_t list = list_of(count);
    const std::uint32_t head = heads_[list];
    links_[page] = Link{head, 0};
    if (head != 0) links_[head - 1].previous = page + 1;
    heads_[list] = page + 1;
    not_empty_[list / 64] |= std::uint64_t{1} << (list % 64);
    free_[page] = free_[page + count - 1] = count;
}

void PageHeap::remove(std::uint32_t page) {
    const std::uint32_t count = free_[page];
    const std::size_t list = list_of(count);
    const Link link = links_[page];
    if (link.next != 0) links_[link.next - 1].previous = link.previous;
    if (link.previous != 0) {
        links_[link.previous - 1].next = link.next;
    } else {
        heads_[list] = link.next;
        if (link.next == 0) not_empty_[list / 64] &= ~(std::uint64_t{1} << (list % 64));
    }
    free_[page] = free_[page + count - 1] = 0;
}

}  // namespace tierfs
