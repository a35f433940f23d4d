// Descriptors of a daemon that outlive it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// Makes a process that shares the table of descriptors of the calling one, and so keeps open whatever that has open when
/// it dies, at no cost until then. It does nothing but answer the other end of a line, and ends with it. Signals that the
/// caller has blocked do not end it. While there is one thread. `hand_over` gets the line and passes it to another process; false:
/// it could not. The caller keeps no copy, or the keeper would not end when the others have.
Result<void> start_descriptor_keeper(const std::function<bool(int line)>& hand_over);

/// The descriptor with that number, of the process that died. EBADF: it had none; EPIPE: the keeper has gone.
Result<FileDescriptor> ask_descriptor_keeper(const FileDescriptor& line, int number);

/// Closes all that nobody asked for, locks among it. False: it has not gone after so long.
bool end_descriptor_keeper(FileDescriptor line, std::chrono::milliseconds patience);

}  // namespace tierfs
