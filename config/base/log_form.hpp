// The form of a line of the log for programs that read it (JSON).
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "config/base/log.hpp"

namespace tierfs::log {

/// As in text lines and in the setting log.level.
std::string_view name_of(Level level);

/// As "2026-11-23T05:40:07.000042Z": UTC, microseconds.
std::string rfc3339(std::chrono::system_clock::time_point time);

/// One object without a newline at its end: time (RFC 3339, UTC, microseconds), level, pid, message, and mountpoint, source, path and
/// errno where they are known. Valid JSON (RFC 8259) for any bytes: of those that are no UTF-8 each becomes U+FFFD.
std::string json_line(std::chrono::system_clock::time_point time, Level level, long pid,
                      std::string_view message, const About& about = {}, const Fields& fields = {});

/// "<4>" and the like: how the journal is told a line's level (sd-daemon(3)).
std::string_view journal_prefix(Level level);

/// Whether `descriptor` leads to the journal: `journal_stream`, which may be null, is the environment's
/// JOURNAL_STREAM, "DEVICE:INODE" (systemd.exec(5)). Programs inherit it with a standard error of their own.
bool is_journal(int descriptor, const char* journal_stream);

}  // namespace tierfs::log
