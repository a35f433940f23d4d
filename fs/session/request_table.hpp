// Requests of the kernel that are under way.
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/latency_histogram.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// A request as the kernel sent it. Plain value.
struct RequestInfo {
    using Clock = std::chrono::steady_clock;
    std::uint64_t unique = 0;  ///< the kernel's number of it
    std::uint64_t node = 0;
    std::uint32_t opcode = 0;
    pid_t asker = 0;   ///< the thread that waits; 0: of another PID namespace
    pid_t thread = 0;  ///< ours, which read it
    Clock::time_point since{};
    std::uint32_t uid = 0, gid = 0;  ///< who asks
    bool clears_set_id = false;      ///< clears_set_id_bits (set_id.hpp)
};

/// What a request is about, for people: at most one of the two.
struct Subject {
    std::string name;                         ///< of a lookup
    std::shared_ptr<const ObjectRef> object;  ///< of a read

    [[nodiscard]] const std::string& text() const { return object ? object->path : name; }
};

/// Requests that nobody has answered yet. Whoever takes a request out answers it, so that each is answered
/// once, whoever comes first. In shards by the thread that read the request: adding costs a lock that hardly
/// anybody else wants. Thread-safe.
class RequestTable {
  public:
    /// Of the request itself; must stay where it is from add() until take() has returned.
    class Entry {
      public:
        Entry() = default;
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

      private:
        friend class RequestTable;
        fuse_req_t raw_ = nullptr;
        RequestInfo info_;
        Subject subject_;
        bool reported_ = false, interrupted_ = false, waits_ = false;
        Entry* previous_ = nullptr;
        Entry* next_ = nullptr;
    };
    /// A copy for who looks at it later.
    struct Seen {
        fuse_req_t raw = nullptr;  ///< to be answered by whoever got it from take_if
        RequestInfo info;
        std::string about;
    };
    struct Summary {
        std::uint64_t under_way = 0;
        RequestInfo::Clock::time_point oldest = RequestInfo::Clock::time_point::max();
    };

    void add(Entry& entry, fuse_req_t raw, const RequestInfo& info, Subject subject);
    /// Between add() and take().
    void describe(Entry& entry, Subject subject);
    /// True: the caller must answer it. False: somebody else has, or does.
    [[nodiscard]] bool take(Entry& entry);

    /// The kernel says that who waits got a signal. False: not under way.
    bool mark_interrupted(std::uint64_t unique);

    /// Between add() and take(): from now on the request waits for what some process does, and is late never:
    /// it is not counted as under way. False: who asked has had a signal meanwhile, as the mark or
    /// `is_interrupted` says; the caller is to answer EINTR.
    bool wait(Entry& entry, int (*is_interrupted)(fuse_req_t));
    /// Between add() and take(): it waits no longer, so that no signal ends it any more; only from now on can
    /// it be late. False: it has been taken out already.
    [[nodiscard]] bool end_wait(Entry& entry);
    /// Takes it out if it waits so and was marked as interrupted: the caller must answer it. Null: it does
    /// not.
    fuse_req_t take_interrupted(std::uint64_t unique);
    /// Nobody has taken it yet.
    [[nodiscard]] bool is_there(Entry& entry);

    /// Takes out those for which `wanted` holds; the caller must answer them. `wanted` is called under a
    /// lock.
    using Wanted = std::function<bool(const RequestInfo&)>;
    std::vector<Seen> take_if(const Wanted& wanted);
    /// Those which began before `limit` and have not been reported yet; marks them. At most `most`.
    std::vector<Seen> unreported_before(RequestInfo::Clock::time_point limit, std::size_t most);
    /// Who waits for requests that were marked as interrupted, or began before `limit`: (unique, asker). Not
    /// those that wait for a process, which hear of any signal.
    std::vector<std::pair<std::uint64_t, pid_t>> interrupted_or_before(RequestInfo::Clock::time_point limit);
    Summary summary();
    /// Of requests that were taken out by take(), but for reads, writes and what the kernel does not wait
    /// for.
    [[nodiscard]] LatencyStats metadata() const { return metadata_.get(); }

  private:
    static constexpr std::size_t kShards = 16;
    struct alignas(64) Shard {
        Mutex mutex;
        Entry* first TIERFS_GUARDED_BY(mutex) = nullptr;
    };
    Shard& shard_of(const Entry& entry) {
        return shards_.at(static_cast<std::size_t>(entry.info_.thread) % kShards);
    }
    static void unlink(Shard& shard, Entry& entry) TIERFS_REQUIRES(shard.mutex);
    static Seen copy(const Entry& entry) { return {entry.raw_, entry.info_, entry.subject_.text()}; }

    std::array<Shard, kShards> shards_;
    LatencyHistogram metadata_;
};

/// "READ" for FUSE_READ; "request 99" for what is not known.
std::string opcode_name(std::uint32_t opcode);

/// Whether it may rightly take longer than the deadline of one operation: a listing (page after page, each
/// with a deadline of its own), what writes out or copies as much as there is, and who waits for a lock.
bool takes_its_time(std::uint32_t opcode);

/// Whether it is about names and attributes: neither a read nor a write nor a lock.
bool is_metadata(std::uint32_t opcode);

/// The same for handlers all of whose requests to the source have deadlines, where whatever changes something
/// may need many of them.
bool changes_take_their_time(std::uint32_t opcode);

}  // namespace tierfs
