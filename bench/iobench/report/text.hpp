// Text that came from files, made safe for where it goes, and numbers for people. Everything here is a pure
// function. Names of targets, cases and files are whatever somebody wrote: all of them pass through here on
// their way to a page, a terminal, a spreadsheet or gnuplot.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tierfs::iobench {

/// For HTML, between tags or in a quoted attribute. Bytes that are not UTF-8 and control characters become
/// U+FFFD.
std::string html(std::string_view text);

/// A field of a CSV file, quoted where it has to be (RFC 4180).
std::string csv_field(std::string_view text);

/// For a terminal: bytes that are not UTF-8 and control characters (an escape sequence begins with one)
/// become U+FFFD.
std::string printable(std::string_view text);

/// A string of gnuplot's in single quotes, which substitute nothing. Letters, digits, blanks, what is not
/// ASCII, and .,:+-/=()[]_* stay; all else becomes "?", since gnuplot takes some for markup, formats or
/// commands.
std::string gnuplot_string(std::string_view text);

/// What stands between is left out when `text` has more than `limit` characters, at least 3: "seq-…-qd8".
std::string shortened(std::string_view text, std::size_t limit);

/// Characters (code points) of UTF-8.
std::size_t length(std::string_view text);

/// Four digits that count, more before the point: "0.01234", "12.34", "123456".
std::string number(double value);

/// A ratio with as many digits as say something, and enough to tell it from 1: "0.0712", "0.997", "2.433",
/// "14.2".
std::string ratio_number(double ratio);

/// "0.997 [0.981, 1.012]".
std::string ratio_text(double ratio, double low, double high);

/// Columns, divided by two blanks, of rows that all have as many cells as the first. Columns whose `right` is
/// set are set flush right.
std::string columns(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right);

}  // namespace tierfs::iobench
