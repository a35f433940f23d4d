// Logging: one line an event, to standard error or a file. spdlog stands behind this header
// (config/base/log.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tierfs::log {

enum class Level { debug, info, warning, error };

enum class Form { text, json };

/// The mount that a process is of: members "mountpoint" and "source" of each line in JSON. Empty: none.
struct About {
    std::string mountpoint, source;
};

/// What a line is about besides: members "path" and "errno" (its name) in JSON.
struct Fields {
    std::string_view path = {};  ///< in the mount; empty: none
    int code = 0;                ///< errno; 0: none
};

/// Where lines go, which are kept, and how they look. `file` empty: standard error; where that is the
/// journal's (JOURNAL_STREAM, systemd.exec(5)) each line begins with its priority, and text has no time of
/// its own. `max_size`: bytes after which the file is put aside as FILE.1; 0: never. Called once at start,
/// before other threads; until then warnings and errors go to standard error. An unwritable file is an error
/// text, returned; the log then stays on standard error.
std::string open(Level level, const std::string& file, Form form = Form::text, std::uint64_t max_size = 0,
                 About about = {});

/// Thread-safe, never throws, never blocks on anything but the file. Never pass a secret.
/// Repeats of errors are limited to a few a second, with a count of what was left out.
void write(Level level, std::string_view line, const Fields& fields = {});

bool enabled(Level level);

inline void debug(std::string_view line) {
    if (enabled(Level::debug)) write(Level::debug, line);
}
inline void info(std::string_view line) {
    write(Level::info, line);
}
inline void warning(std::string_view line, const Fields& fields = {}) {
    write(Level::warning, line, fields);
}
inline void error(std::string_view line, const Fields& fields = {}) {
    write(Level::error, line, fields);
}

/// Writes what is buffered; before a fork or an exit.
void flush();

}  // namespace tierfs::log
