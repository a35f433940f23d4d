// Open files of a writable mount, from the daemon that died to the next one.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/daemon/channel.hpp"
#include "fs/readwrite/live_record.hpp"

namespace tierfs {

/// Lines to keepers (descriptor_keeper.hpp), by the generation of their daemon modulo 2.
using KeeperLines = std::array<FileDescriptor, 2>;
using KeptFiles = std::vector<std::pair<LiveRecord::Open, FileDescriptor>>;

/// What the daemon before had open, if there was one, and a keeper of this one's own, whose line goes to the supervisor. From
/// when this returns the record speaks of this daemon, and what the other had besides is closed, locks of folders among
/// it. While there is one thread.
Result<KeptFiles> take_files_over(LiveRecord& record, KeeperLines lines, Channel& supervisor);

}  // namespace tierfs
