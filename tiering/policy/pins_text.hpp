// The text of pins in a file: lines, the last of them a checksum.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs {

/// What one pin was when it was set.
struct PinSize {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;  ///< that they take in a tier, estimated
    friend bool operator==(const PinSize&, const PinSize&) = default;
};

/// By path, relative to the mount; "" is its root. None lies below another.
using PinTable = std::map<std::string, PinSize, std::less<>>;

struct PinFile {
    std::uint64_t sequence = 0;  ///< of two files the one with the higher number was written later
    PinTable pins;
};

/// Longest path, most pins, and bytes of the file, that are read and written.
inline constexpr std::size_t kLongestPinPath = 4096;
inline constexpr std::size_t kMostPins = 65536;
inline constexpr std::size_t kLargestPinFile = 64U << 20U;

///   tierfs pins 1              the layout's number
///   sequence 7
///   pin FILES BYTES PATH       bytes of the path that are no printable ASCII, blanks and % as %XX
///   end 1a2b3c4d               crc32c of all before this line
///
/// Lines that begin with another word are left out when they are read, so that later versions may add some.
std::string format_pins(const PinFile& file);

/// Errors: EBADMSG, it is damaged or none; EPROTO, its layout is another version's.
Result<PinFile> parse_pins(std::string_view text);

}  // namespace tierfs
