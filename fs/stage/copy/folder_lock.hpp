// One stage of a folder at a time.
#pragma once

#include <optional>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/cli/stop_flag.hpp"
#include "fs/stage/copy/book_folder.hpp"

namespace tierfs::stage {

/// A part of the files of a stage: `number` from 1 to `count`.
struct Shard {
    unsigned number = 1, count = 1;
    [[nodiscard]] bool is_whole() const { return count == 1; }
    /// "" or "-NUMBER-of-COUNT": what names of files of this shard end with.
    [[nodiscard]] std::string suffix() const;
};

/// "I/N" of --shard, I from 0 to N - 1. EINVAL.
Result<Shard> parse_shard(const std::string& text);

/// flock(2) on files of DEST/.tierfs-stage: a whole stage holds `lock` exclusively; a shard shares it and
/// holds `lock-I-of-N`, and shards of another N are kept out. The kernel lets go when the process ends,
/// however it ends. Movable.
class FolderLock {
  public:
    /// EWOULDBLOCK "another tierfs-stage (process 123) works in ..."; with `wait` waits instead, until
    /// `stop` (ECANCELED).
    static Result<FolderLock> take(const BookFolder& books, const Shard& shard, bool wait,
                                   const StopFlag& stop);

  private:
    FileDescriptor whole_, shard_;
};

}  // namespace tierfs::stage
