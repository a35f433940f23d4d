// Record of a writable mount, for a daemon that goes on where another one died.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/origin/posix_origin.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {

/// Shared memory (a memfd) that the supervisor makes and each daemon maps: the files that the kernel knows, with their
/// names; those that it has open, with the numbers of their descriptors; and the changes that were begun (LiveDeed).
///
/// A daemon may die between any two instructions: what it wrote before is there, what it was writing is not, since each
/// entry becomes valid by its last store. One daemon at a time writes. Nodes: under a lock of the caller's; opens: under
/// another; the rest is thread-safe. Sparse: some 100 bytes a file that the kernel knows, 64 bytes one that is open.
class LiveRecord {
  public:
    static constexpr std::uint32_t kMostOpens = 1U << 20;
    static constexpr std::uint32_t kMostDeeds = 1024;
    static constexpr std::uint32_t kNoSlot = UINT32_MAX;  ///< too many are open: nobody takes over

    static Result<std::unique_ptr<LiveRecord>> make();
    ~LiveRecord();
    LiveRecord(const LiveRecord&) = delete;
    LiveRecord& operator=(const LiveRecord&) = delete;

    /// False: it is not complete, or there are locks, which go with the daemon that has them.
    [[nodiscard]] bool can_be_taken_over() const;
    /// Files on which somebody has a lock, or waits for one.
    void set_locked(std::uint64_t files);

    /// The root of the origin: false: it was another one for an earlier daemon.
    [[nodiscard]] bool keeps_root(const PosixIdentity& identity);
    /// Files that may be mapped and are open no more: nobody would watch them.
    void set_mapped(std::uint64_t files);

    // ---- nodes

    struct Name {
        NodeId parent = 0;
        std::string name;
        friend bool operator==(const Name&, const Name&) = default;
    };
    /// Of an entry, for set_lookups; 0: it could not be kept.
    using Place = std::uint64_t;
    static constexpr std::size_t kMostNames = 8;
    struct Known {
        NodeId id = 0;
        PosixIdentity identity;
        mode_t type = 0;
        std::uint64_t lookups = 0;
        Place place = 0;
        std::vector<Name> names = {};  ///< the one met last at the end; some may lead elsewhere by now
    };
    [[nodiscard]] Place add_node(NodeId id, const PosixIdentity& identity, mode_t type,
                                 std::uint64_t lookups);
    void add_name(NodeId id, NodeId parent, std::string_view name);
    /// 0: the kernel has forgotten it.
    void set_lookups(Place place, std::uint64_t lookups);
    /// All nodes that have look-ups.
    [[nodiscard]] std::vector<Known> nodes() const;
    /// The first number that no node has had.
    [[nodiscard]] NodeId next_node() const;

    /// Whether so much of it is out of date that it is to be written anew: begin_rewrite(), what there is by add_node()
    /// and add_name(), end_rewrite(). Until then the old entries count.
    [[nodiscard]] bool is_to_be_rewritten() const;
    void begin_rewrite();
    void end_rewrite();

    // ---- opens

    struct Open {
        std::uint64_t handle = 0;  ///< never used twice
        NodeId node = 0;
        std::uint64_t unique = 0;     ///< of the request, without kResent
        std::int32_t flags = 0;       ///< of open(2)
        std::int32_t backing_id = 0;  ///< 0: not passed through
        std::int32_t descriptor = -1;
        std::uint32_t opener = 0;  ///< user
        std::uint32_t slot = 0;
    };
    /// Before it is answered. `handle` and `slot` are the result's.
    [[nodiscard]] Open add_open(Open open);
    /// Before its descriptor is closed.
    void remove_open(std::uint32_t slot);
    [[nodiscard]] std::vector<Open> opens() const;
    /// The open that a request made which the kernel sends again; nothing: it did not get so far, or is sent once.
    [[nodiscard]] std::optional<Open> answered_before(std::uint64_t unique) const;

    /// Which daemon the descriptors' numbers are of, counted from 1; 0: none has served yet.
    [[nodiscard]] std::uint32_t generation() const;
    /// The number that it has in the next daemon; counts from next_generation() on.
    void set_next_descriptor(std::uint32_t slot, int descriptor);
    /// First of all that a daemon writes, but for these.
    void next_generation();

    // ---- changes

    /// A change of names under way. Members but `unique` belong to who carries it out.
    struct Deed {
        std::atomic<std::uint64_t> unique;  ///< 0: free; kClaimed: being filled
        std::atomic<std::uint32_t> is_done;
        std::atomic<std::uint32_t> has_identity;
        PosixIdentity identity;  ///< of what it removes or moves
        std::int64_t begun_ns;   ///< wall clock
    };
    /// One that was begun with this number; null: none was.
    [[nodiscard]] Deed* find_deed(std::uint64_t unique) const;
    /// Null: there are too many.
    [[nodiscard]] Deed* begin_deed(std::uint64_t unique);
    static void end_deed(Deed& deed);

  private:
    struct Header;
    struct Slot;
    struct NodeEntry;
    struct NameEntry;
    static constexpr std::uint64_t kClaimed = 1;
    LiveRecord(FileDescriptor file, std::byte* memory);
    [[nodiscard]] Header& header() const;
    [[nodiscard]] Slot& slot(std::uint32_t index) const;
    [[nodiscard]] Deed& deed(std::uint32_t index) const;
    [[nodiscard]] std::byte* region(std::uint32_t number) const;
    [[nodiscard]] Open open_in(std::uint32_t index) const;
    /// Room for an entry at the end of the region that is written; null: there is none.
    std::byte* room_for(std::size_t size);

    FileDescriptor file_;
    std::byte* const memory_;
    // Of the process that writes.
    std::uint32_t writing_ = 0;          ///< region
    std::uint64_t rewritten_bytes_ = 0;  ///< of the last time
    std::vector<std::uint32_t> free_;    ///< slots below the highest ever used
    bool has_looked_ = false;
};

}  // namespace tierfs
