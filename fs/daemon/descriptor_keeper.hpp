// Descriptors of a daemon that outlive it.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// Makes a process that shares the table of descriptors of the calling one, and so keeps open whatever that has open when
/// it dies, at no cost until then. It does nothing but answer the other end of a line, and ends with it. Signals that the
/// caller has blocked do not end it. While there is one thread. Returns the line, of which the caller keeps no copy, nor
/// does a child of it; else the process does not end when the others have.
Result<FileDescriptor> start_descriptor_keeper();

/// The descriptor with that number, of the process that died. EBADF: it had none; EPIPE: the keeper has gone.
Result<FileDescriptor> ask_descriptor_keeper(const FileDescriptor& line, int number);

/// Closes all that nobody asked for, locks among it. False: it has not gone after so long.
bool end_descriptor_keeper(FileDescriptor line, std::chrono::milliseconds patience);

}  // namespace tierfs
