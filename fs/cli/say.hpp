// The one printer of all commands: what comes from outside steers no terminal.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tierfs {

/// Writes text with one call, so that lines of several threads do not mix. Newlines are kept; other control characters, of which
/// names and words of servers may be full, are written as log::escaped has them. False: it could not be written.
bool say(std::FILE* to, std::string_view text);

/// One line: newlines in it are escaped, too, so that a name forges no other line.
bool say_line(std::FILE* to, std::string_view line);

/// As `say`, of what printf(3) makes.
__attribute__((format(printf, 2, 3))) bool sayf(std::FILE* to, const char* format, ...);

/// JSON as its dump() has it, and a newline. What nlohmann leaves alone (DEL and C1) is escaped as JSON has it.
bool say_json(std::FILE* to, std::string_view dumped);

/// Bytes as they are, for a program that reads them; on a terminal as `say`.
bool say_exactly(std::FILE* to, std::string_view text);

/// One line in the place of the one before, on a terminal; empty: none.
void say_over(std::FILE* to, std::string_view line);

}  // namespace tierfs
