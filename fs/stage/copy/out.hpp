// `tierfs-stage out`: checkpoints from a local file system to the object store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "fs/cli/stop_flag.hpp"
#include "fs/stage/copy/manifest.hpp"

namespace tierfs::stage {

/// Below DIR: journals and locks; never sent.
inline constexpr const char* kOutState = ".tierfs-stage-out";
/// Below DEST: the book of what is there, written last.
inline constexpr const char* kOutManifest = ".tierfs-stage/manifest.jsonl";

enum class OutVerify : std::uint8_t {
    checksums,  ///< what the store says that it holds is compared
    full,       ///< everything is read back, what was there already too; that is sent again when it differs
};

struct OutOptions {
    std::string directory;                          ///< DIR
    std::string state;                              ///< folder of the journal; empty: DIR/.tierfs-stage-out
    unsigned workers = 16;                          ///< parts in flight
    std::uint64_t part_size = kChunkBytes;          ///< a multiple of kChunkBytes
    std::uint64_t memory = std::uint64_t{2} << 30;  ///< for buffers: fewer workers when parts are large
    OutVerify verify = OutVerify::checksums;
    bool remove_vanished = false;  ///< what an earlier run sent and DIR no longer has
    bool dry_run = false;          ///< only tells; nothing is written anywhere
};

/// What became of one file.
enum class OutFate : std::uint8_t {
    sent,
    resumed,  ///< sent; some of its parts had arrived before
    skipped,  ///< the same bytes are there
    removed,  ///< vanished from DIR
    failed,
    would_send,
    would_compare,
    would_remove,  ///< of a dry run
};
std::string name_of(OutFate fate);

struct OutEvent {
    std::string path;
    OutFate fate = OutFate::sent;
    std::uint64_t size = 0;        ///< bytes
    std::uint64_t sent_bytes = 0;  ///< that travelled now
    std::string checksum;          ///< as the store says it (Written::checksum)
    std::string error;             ///< for failed
};

/// Hears what happens. Called from several threads at once; must not block for long.
class OutObserver {
  public:
    virtual ~OutObserver() = default;
    virtual void planned(std::uint64_t files, std::uint64_t bytes) = 0;
    virtual void remark(const std::string& text) = 0;
    virtual void file(const OutEvent& event) = 0;
    /// So many more bytes need no further work: sent, found there, or given up.
    virtual void progress(std::uint64_t bytes) = 0;
};

struct OutSummary {
    std::uint64_t files = 0, bytes = 0;  ///< of DIR
    std::uint64_t sent = 0, resumed = 0, skipped = 0, removed = 0, failed = 0, links = 0;
    std::uint64_t sent_bytes = 0;
    std::uint64_t parts_found = 0;  ///< parts of an earlier run that were not sent again
    bool manifest_written = false;
};

/// Sends what DIR holds to `destination` (which can be written), each file whole and verified, in this order:
/// files, removals, manifest. The manifest is written only when no file failed. Large files go in parts that
/// travel side by side; a journal in DIR remembers uploads that were not finished, and the next run goes on
/// with them: each part is read again, and sent only if the store does not have these bytes. Uploads of files
/// that changed or vanished since are aborted. What is there with the same size and checksum is not sent. A
/// file that changes while it is read fails, and its destination stays as it was.
///
/// Blocks; has threads of its own. `stop` ends it soon (ECANCELED), `destination` is then stopped too. Errors
/// are about the whole run: DIR or the journal cannot be read, another run has DIR, the destination does not
/// answer or refuses (then nothing more is tried); what concerns one file is told to `observer` and counted
/// in `failed`. Memory: workers times the part size, and a record for each file.
Result<OutSummary> stage_out(const OutOptions& options, Origin& destination, OutObserver& observer,
                             const StopFlag& stop);

}  // namespace tierfs::stage
