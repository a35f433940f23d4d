// The journal of `tierfs-stage out`: its memory between runs.
#pragma once

#include <map>
#include <optional>

#include "backends/origin/writable_origin.hpp"
#include "fs/stage/copy/book_folder.hpp"
#include "fs/stage/copy/manifest.hpp"

namespace tierfs::stage {

/// A file in parts that is on its way. A plain value.
struct OutPending {
    std::string path, source_version, id;
    std::uint64_t size = 0, part_size = 0;
    friend bool operator==(const OutPending&, const OutPending&) = default;
};

/// A file that has arrived, and how the destination named it then.
struct OutDone {
    ManifestRecord record;
    std::string version, checksum;  ///< as Written
    friend bool operator==(const OutDone&, const OutDone&) = default;
};

/// JSON lines: a header that names the destination, then what happened; of one path the last line of a kind
/// counts. A last line without its newline was torn by a kill. One journal for each DIR and destination, and
/// one process at a time: a lock beside it (flock(2)) ends with the process, however it ends.
///
/// Appending is thread-safe (each line is one write with O_APPEND); what open() found stays as it was.
/// Errors: EBUSY for a journal that another process has; EINVAL for a file that is no journal; errno of the
/// call with the path. What is in a journal is believed only as far as the destination says the same.
class OutJournal {
  public:
    /// Says nothing; nothing can be appended.
    OutJournal() = default;
    /// The file is rewritten with what still counts.
    static Result<OutJournal> open(const BookFolder& state, const std::string& destination);

    /// Only what the journal says, if there is one; nothing can be appended.
    static Result<OutJournal> peek(const BookFolder& state, const std::string& destination);

    [[nodiscard]] const std::map<std::string, OutPending>& pending() const { return pending_; }
    /// Something of these paths may have been left behind, of which no id was written down; since when.
    [[nodiscard]] const std::map<std::string, std::int64_t>& intents() const { return intents_; }
    [[nodiscard]] const std::map<std::string, OutDone>& done() const { return done_; }
    /// Lines that say nothing; what they were about is compared anew.
    [[nodiscard]] std::uint64_t damaged_lines() const { return damaged_lines_; }

    /// Before an upload is asked for, or a file is made that a kill would leave behind. `now_s`: seconds
    /// since 1970. Over with ended() or finished().
    Result<void> intend(const std::string& path, std::int64_t now_s, bool durably = true) const;
    /// Its id is known; durably.
    Result<void> began(const OutPending& upload) const;
    /// It was completed or aborted.
    Result<void> ended(const std::string& path) const;
    Result<void> finished(const OutDone& done) const;
    /// The destination no longer has it.
    Result<void> forgotten(const std::string& path) const;

  private:
    Result<void> load(const BookFolder& state, const std::string& name, const std::string& destination);
    Result<void> take(std::string_view line);
    Result<void> rewrite(const BookFolder& state, const std::string& name, const std::string& destination);
    Result<void> append(const std::string& line, bool durably) const;

    std::string path_;
    FileDescriptor lock_, file_;
    std::map<std::string, OutPending> pending_;
    std::map<std::string, std::int64_t> intents_;
    std::map<std::string, OutDone> done_;
    std::uint64_t damaged_lines_ = 0;
};

}  // namespace tierfs::stage
