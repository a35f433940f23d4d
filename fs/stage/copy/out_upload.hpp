// The threads of `tierfs-stage out`: which part of which file travels next.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <thread>

#include "fs/stage/copy/out.hpp"
#include "fs/stage/copy/out_file.hpp"
#include "fs/stage/copy/out_journal.hpp"
#include "fs/stage/copy/source_tree.hpp"

namespace tierfs::stage {

/// What is sent where. All of it outlives the upload.
struct OutWay {
    const OutOptions& options;
    int root;  ///< of DIR
    Origin& destination;
    WritableOrigin& writer;
    const OutJournal& journal;
    OutObserver& observer;
    const StopFlag& stop;
    std::string source;  ///< ManifestRecord::source
    bool fresh;          ///< nothing is at the destination: no need to look
};

/// Sends files. Each worker takes the next part of a file that is on its way, or else the next file. Parts of
/// a file are handed out in order, so the wait in OutSums is for workers that are running. One run an object.
class OutUpload {
  public:
    OutUpload(OutWay way, std::vector<SourceFile> files);

    /// Blocks until all files have met their fate. Errors: what ended the whole run early.
    Result<void> run() TIERFS_EXCLUDES(mutex_);

    /// After run(): of what is at the destination now.
    [[nodiscard]] std::map<std::string, ManifestRecord, std::less<>> records() TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] OutSummary summary() TIERFS_EXCLUDES(mutex_);

  private:
    struct Part {
        std::shared_ptr<OutJob> job;
        unsigned number = 0;  ///< from 0
    };
    /// What a file was found to be.
    struct Fate {
        OutFate fate = OutFate::sent;
        ManifestRecord record;
        Written written;
        std::uint64_t sent_bytes = 0;
    };

    void work() TIERFS_EXCLUDES(mutex_);
    void start_file(const SourceFile& file, AlignedBuffer& buffer);
    Result<void> start(const SourceFile& file, AlignedBuffer& buffer);
    Result<std::optional<Fate>> is_there(const OutSource& source, const std::string& path,
                                         std::uint64_t part_size, AlignedBuffer& buffer);
    Result<Fate> compare(const OutSource& source, const std::string& path, const Attributes& there,
                         std::uint64_t part_size, AlignedBuffer& buffer);
    Result<Fate> send_small(const OutSource& source, const std::string& path, AlignedBuffer& buffer);
    Result<void> start_large(std::shared_ptr<OutJob> job);
    Result<bool> resume(OutJob& job);

    void send_part(const Part& part, AlignedBuffer& buffer);
    Result<UploadPart> try_part(OutJob& job, unsigned number, AlignedBuffer& buffer);
    /// Uploads of this path that were asked for and whose replies were lost.
    void drop_doubles(const OutJob& job);
    void finish(OutJob& job, AlignedBuffer& buffer);
    Result<Fate> try_finish(OutJob& job, AlignedBuffer& buffer);
    Result<void> verify(const std::string& path, const Written& written, const std::string& expected,
                        std::uint64_t xxh3, AlignedBuffer& buffer);
    Result<std::uint64_t> read_back(const std::string& path, const Written& written, AlignedBuffer& buffer);

    void arrived(Fate fate) TIERFS_EXCLUDES(mutex_);
    void failed(const std::string& path, std::uint64_t size, const Error& error) TIERFS_EXCLUDES(mutex_);
    /// An error of the destination or the journal: those that all files would meet end the run.
    Error noted(Error error) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool nothing_to_take() TIERFS_REQUIRES(mutex_) {
        return parts_.empty() && next_file_ == files_.size();
    }
    [[nodiscard]] bool ends() TIERFS_REQUIRES(mutex_) { return fatal_ || way_.stop.requested(); }
    [[nodiscard]] ManifestRecord record_of(const OutSource& source, const std::string& path) const;

    const OutWay way_;
    const std::vector<SourceFile> files_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::size_t next_file_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::deque<Part> parts_ TIERFS_GUARDED_BY(mutex_);
    unsigned busy_ TIERFS_GUARDED_BY(mutex_) = 0, running_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::optional<Error> fatal_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, ManifestRecord, std::less<>> records_ TIERFS_GUARDED_BY(mutex_);
    OutSummary summary_ TIERFS_GUARDED_BY(mutex_);
};

/// Makes `buffer` hold at least `size`.
void make_room(AlignedBuffer& buffer, std::uint64_t size);

}  // namespace tierfs::stage
