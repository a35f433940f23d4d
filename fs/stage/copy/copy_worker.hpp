// Copies files: many reads of the source and writes of the destination under way at a time, in one thread.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/origin/origin.hpp"
#include "config/base/mutex.hpp"
#include "fs/cli/stop_flag.hpp"
#include "fs/stage/copy/committer.hpp"
#include "fs/stage/copy/content.hpp"
#include "fs/stage/copy/direct_writer.hpp"
#include "fs/stage/copy/memory_space.hpp"
#include "fs/stage/copy/plan.hpp"
#include "fs/stage/copy/reporter.hpp"
#include "fs/stage/copy/source_digest.hpp"

namespace tierfs::stage {

/// Of this many bytes is a read of the source, a write, and a line of the journal. Divides kChunkBytes.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{4} << 20;

/// What is left to copy, for all workers. Thread-safe.
class JobQueue {
  public:
    explicit JobQueue(std::vector<CopyJob> jobs);

    std::optional<CopyJob> take();
    /// Once more.
    void put_back(CopyJob job);
    /// Nothing more is handed out.
    void abandon();
    [[nodiscard]] bool is_abandoned() const { return abandoned_.load(); }

    /// Failures one after the other; a success between begins anew.
    unsigned count_failure() { return ++failures_; }
    void count_success() { failures_ = 0; }

  private:
    Mutex mutex_;
    std::deque<CopyJob> jobs_ TIERFS_GUARDED_BY(mutex_);
    std::atomic<bool> abandoned_ = false;
    std::atomic<unsigned> failures_ = 0;
};

/// What workers share. References outlive them.
struct CopyContext {
    Origin& origin;
    const std::string& source;
    const std::vector<Destination>& destinations;
    const std::vector<Journal>& journals;                       ///< one a destination
    const std::vector<std::unique_ptr<Committer>>& committers;  ///< one a destination
    JobQueue& queue;
    Reporter& reporter;
    const StopFlag& stop;
    bool use_ring = true;
    bool check_md5 = false;  ///< of sources whose versions are one
};

/// Takes jobs until there are none. Of a large file it reads pieces of kPieceBytes ahead as far as its memory
/// goes, takes their checksums in order, and writes them; small files fill the memory many at a time. What is
/// lost by a kill is at most what is in the memory. For one thread.
class CopyWorker {
  public:
    CopyWorker(const CopyContext& context, std::size_t memory);
    ~CopyWorker();
    void run();

  private:
    struct Piece {
        std::uint64_t offset = 0;
        std::size_t length = 0;
        std::span<std::byte> memory;
        bool is_ready = false;
        bool is_reused = false;  ///< read from the part, not from the source
    };
    struct File {
        CopyJob job;
        FileDescriptor fd;
        std::deque<Piece> pieces;  ///< asked for, not yet summed; in order
        std::uint64_t next = 0;    ///< what is asked for next
        unsigned reads = 0, writes = 0;
        ContentSums sums;
        std::optional<SourceDigest> digest;
        std::optional<Error> error;
        [[nodiscard]] std::uint64_t size() const { return job.file.attributes.size; }
        [[nodiscard]] bool is_asked() const { return next >= size() || error; }
    };
    struct Write {
        File* file;
        PieceMark mark;
        std::span<std::byte> memory;
    };
    /// Where reads of the source end, on threads of the origin.
    struct Inbox {
        struct Done {
            File* file;
            std::uint64_t offset;
            Result<void> result;
        };
        Mutex mutex;
        std::vector<Done> done TIERFS_GUARDED_BY(mutex);
    };

    void fill();
    void look(std::chrono::milliseconds patience);
    void start(CopyJob job);
    static Result<FileDescriptor> open_finished(const Destination& destination, const CopyJob& job);
    bool finish_whole(CopyJob& job);
    void make_link(CopyJob job);
    Result<FileDescriptor> open_part(CopyJob& job);
    void ask(File& file);
    void read_from_source(File& file, const Piece& piece);
    bool read_from_part(File& file, Piece& piece);
    void take_reads();
    void on_read(File& file, std::uint64_t offset, const Result<void>& result);
    void on_write(const WriteDone& done);
    /// Asks and sums until the file waits for something; false: it has ended and is gone.
    bool pump(File& file);
    bool advance(File& file);
    void write(File& file, const Piece& piece);
    /// Ends the file when nothing of it is under way: false.
    bool settle(File& file);
    void drop_ready(File& file);
    void complete(File& file);
    Result<void> give_final_look(File& file, ManifestRecord& record);
    void give_up(CopyJob job, const Error& error);
    bool try_new_version(CopyJob& job);
    [[nodiscard]] bool stopping() const { return context_.stop.requested() || context_.queue.is_abandoned(); }

    const CopyContext context_;
    MemorySpace memory_;
    DirectWriter writer_;
    Inbox inbox_;
    std::list<File> active_;
    std::unordered_map<std::uint64_t, Write> writes_;
    std::uint64_t next_token_ = 0;
};

}  // namespace tierfs::stage
