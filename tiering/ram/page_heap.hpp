// Free pages of a piece of memory. Internal to tiering/ram.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

namespace tierfs {

/// Hands out runs of pages, exactly as long as asked for, by good fit: free runs stand in lists by length,
/// and a run comes from the list of its own length or the next one above that is not empty (two-level
/// segregated fit: Masmano, Ripoll, Crespo, Real, "TLSF: a New Dynamic Memory Allocator for Real-Time
/// Systems", ECRTS 2004). What comes back is joined with what is free beside it. Long runs are cut from the
/// end of a free one and short ones from its front, so that they do not lie among each other.
///
/// All it knows stands in tables beside the memory, which it never touches; the tables themselves are
/// resident only as far as the pages they are about were ever used. Pages are numbered from 0. Not
/// thread-safe.
class PageHeap {
  public:
    /// The first `free` of them are free; the others come by give_back. Throws std::bad_alloc when the tables
    /// cannot be had.
    PageHeap(std::uint32_t pages, std::uint32_t free);

    /// The first of `count` pages (at least 1) that are the caller's now; nothing: no such run, or none
    /// within kMostLooks.
    std::optional<std::uint32_t> take(std::uint32_t count);
    /// Exactly what one or several calls of `take` gave, or what was not free from the beginning.
    void give_back(std::uint32_t page, std::uint32_t count);

    /// Calls visitor(page, count) for each free run.
    template <typename Visitor>
    void for_each_free(Visitor&& visitor) const {
        for (const std::uint32_t head : heads_) {
            for (std::uint32_t next = head; next != 0; next = links_[next - 1].next)
                visitor(next - 1, free_[next - 1]);
        }
    }

  private:
    /// Lengths up to 15 have a list each; from there on eight lists share each doubling.
    static constexpr std::uint32_t kExact = 16, kPerDoubling = 8;
    static constexpr std::size_t kLists = 256;
    static constexpr unsigned kMostLooks = 64;   ///< among runs that may be too short
    static constexpr std::uint32_t kLong = 256;  ///< pages
    struct Link {
        std::uint32_t next, previous;  ///< 1 + page; 0: none
    };
    struct Release {
        void operator()(void* memory) const { std::free(memory); }
    };
    template <typename T>
    using Table = std::unique_ptr<T[], Release>;

    static std::size_t list_of(std::uint32_t count);
    /// 1 + the first page of a free run that is long enough; 0: none.
    [[nodiscard]] std::uint32_t find(std::uint32_t count) const;
    void add(std::uint32_t page, std::uint32_t count);
    void remove(std::uint32_t page);

    const std::uint32_t pages_;
    std::array<std::uint32_t, kLists> heads_{};           ///< 1 + page; 0: empty
    std::array<std::uint64_t, kLists / 64> not_empty_{};  ///< a bit a list
    Table<std::uint32_t> free_;  ///< where a free run starts, and where it ends: its length; else 0
    Table<Link> links_;          ///< where a free run starts
};

}  // namespace tierfs
