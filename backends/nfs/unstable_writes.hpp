// Bytes that were written to the files of an NFS server and are not durable there yet.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <vector>

#include "backends/nfs/change_messages.hpp"
#include "backends/nfs/client.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::nfs {

class UnstableWrites;

/// How many bytes may be on their way at a time, over all files of a server: each is kept until COMMIT, since
/// a server that is started anew forgets what was UNSTABLE. Thread-safe.
class WriteBudget {
  public:
    explicit WriteBudget(std::uint64_t limit) : limit_(limit) {}

    /// Blocks until there is room. Meanwhile the file that has the most on its way is committed by the
    /// caller.
    void take(std::uint64_t bytes);
    void give(std::uint64_t bytes);

    void add(const std::shared_ptr<UnstableWrites>& file);

    [[nodiscard]] std::uint64_t limit() const { return limit_; }

  private:
    std::shared_ptr<UnstableWrites> largest();

    const std::uint64_t limit_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t used_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::vector<std::weak_ptr<UnstableWrites>> files_ TIERFS_GUARDED_BY(mutex_);
};

/// The writes of one file by this mount. They are sent at once, side by side, and acknowledged before the
/// server has answered; commit() makes them durable. A write verifier that has changed by then says that the
/// server was started anew and may have lost them: they are sent again, in their order (RFC 1813, 3.3.7 and
/// 3.3.21). An error drops what it is about, and is told once to each open of the file, as fsync(2) has it.
/// Thread-safe. What it stands on must outlive it and its writes.
class UnstableWrites : public std::enable_shared_from_this<UnstableWrites> {
  public:
    /// `deadline`: of a call whose bytes do not queue.
    UnstableWrites(Client& client, WriteBudget& budget, Handle handle, std::chrono::milliseconds deadline)
        : client_(client), budget_(budget), handle_(std::move(handle)), deadline_(deadline) {}
    ~UnstableWrites();
    UnstableWrites(const UnstableWrites&) = delete;
    UnstableWrites& operator=(const UnstableWrites&) = delete;

    /// Copies the bytes. Blocks while the budget is spent, or what is to be overwritten is on its way.
    /// `most`: bytes of one WRITE.
    void write(std::span<const std::byte> bytes, std::uint64_t offset, std::size_t most);

    /// Until the server has answered every write so far: then it has the bytes, and readers get them.
    void settle();
    /// Until every write so far is durable, or has failed.
    void commit();

    /// Of failures that the caller has not been told of: `told` is how many it knows, 0 at first.
    Result<void> problem(std::uint64_t& told);
    /// How many there have been.
    std::uint64_t problems();

    std::uint64_t bytes();

  private:
    struct Piece {
        std::uint64_t number = 0, offset = 0;
        std::vector<std::byte> bytes;
        std::string verifier;  ///< empty: none, or more than one
        bool is_answered = false;
    };
    using PiecePtr = std::shared_ptr<Piece>;

    void add(std::span<const std::byte> bytes, std::uint64_t offset);
    [[nodiscard]] bool overlaps_one_on_its_way(std::uint64_t offset, std::size_t size)
        TIERFS_REQUIRES(mutex_);
    void send(const PiecePtr& piece, std::size_t from);
    void answered(const PiecePtr& piece, std::size_t from, const Result<Reply>& answer);
    /// The caller starts it, without the lock.
    Call begin_commit() TIERFS_REQUIRES(mutex_);
    void committed(std::uint64_t up_to, const Result<Reply>& answer);
    void send_again();
    void drop(const PiecePtr& piece) TIERFS_REQUIRES(mutex_);
    void note(Error problem) TIERFS_REQUIRES(mutex_);
    [[nodiscard]] bool is_on_its_way(std::uint64_t up_to) const TIERFS_REQUIRES(mutex_);
    [[nodiscard]] Clock::time_point deadline() const TIERFS_REQUIRES(mutex_);

    Client& client_;
    WriteBudget& budget_;
    const Handle handle_;
    const std::chrono::milliseconds deadline_;

    Mutex mutex_;
    std::condition_variable changed_;
    std::deque<PiecePtr> pieces_ TIERFS_GUARDED_BY(mutex_);  ///< in the order of their numbers
    std::uint64_t last_ TIERFS_GUARDED_BY(mutex_) = 0, bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool is_committing_ TIERFS_GUARDED_BY(mutex_) = false, is_sending_again_
                                                           TIERFS_GUARDED_BY(mutex_) = false;
    bool is_lost_ TIERFS_GUARDED_BY(mutex_) = false;  ///< the server was started anew
    std::uint64_t problems_ TIERFS_GUARDED_BY(mutex_) = 0;
    Error last_problem_ TIERFS_GUARDED_BY(mutex_){0, ""};
};

}  // namespace tierfs::nfs
