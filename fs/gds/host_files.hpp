// Files in which the kernel and udev tell of this machine: /sys, /proc and /run/udev, below a root that tests
// choose.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tierfs::gds {

/// Reads small files below a root ("" for this machine; a test gives a folder with a tree of its own). Paths
/// are absolute, as if there were no root. What cannot be read is none: a file of /sys that a kernel does not
/// have is nothing unusual. Immutable, thread-safe.
class HostFiles {
  public:
    explicit HostFiles(const std::string& root = {});

    /// The content without white space at its end; at most 1 MiB.
    [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
    /// The content as a decimal number; none when it is anything else.
    [[nodiscard]] std::optional<std::int64_t> number(const std::string& path) const;
    /// Whether a line of a file of any size has these words in it.
    [[nodiscard]] bool mentions(const std::string& path, std::string_view words) const;
    /// Names in a folder, sorted; empty when there is none.
    [[nodiscard]] std::vector<std::string> list(const std::string& path) const;
    [[nodiscard]] bool exists(const std::string& path) const;
    /// Without symbolic links, and without the root; none when it leads nowhere or out of the root.
    [[nodiscard]] std::optional<std::string> canonical(const std::string& path) const;

  private:
    std::string root_;
};

/// The parts of a version that are numbers: 570.86.15.
struct Version {
    std::vector<unsigned> parts;

    auto operator<=>(const Version&) const = default;
    [[nodiscard]] std::string text() const;
};

/// The first thing like "1.2" or "1.2.3" in a text; none when there is none.
std::optional<Version> version_in(std::string_view text);

/// Whether a list like "rw,noatime,data=ordered" has this word.
bool has_option(std::string_view options, std::string_view word);

/// "12 KiB", "3.5 GiB".
std::string size_text(std::uint64_t bytes);

}  // namespace tierfs::gds
