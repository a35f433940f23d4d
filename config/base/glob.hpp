// Patterns over paths of a mount.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs {

/// `*`: any characters of one name, `?`: one, `[a-z]` and `[!a-z]`: one of ASCII characters or none of them,
/// `**` as a whole name: any number of names, also none; a backslash takes the next character as it is. A
/// pattern begins with "/" (the mount's root) or with "**/" (anywhere). Upper and lower case differ. A
/// character is UTF-8; bytes that are not are one each.
///
/// Compiled once, then immutable and thread-safe. A match takes time proportional to length of the path times
/// length of the pattern at worst, whatever both are, since of stars only the last one seen is ever taken
/// back.
class Glob {
  public:
    static constexpr std::size_t kLongest = 1024;

    /// EINVAL with what is wrong: no "/" or "**/" in front, empty names, an open bracket.
    static Result<Glob> compile(std::string_view pattern);

    /// `path` is relative to the mount's root; a slash in front is allowed.
    [[nodiscard]] bool matches(std::string_view path) const;
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    struct Token {
        enum class Kind : std::uint8_t { byte, any_one, any_run, one_of };
        Kind kind = Kind::byte;
        char byte = 0;
        bool negated = false;
        std::uint64_t low = 0, high = 0;  ///< of one_of: which of ASCII
    };
    struct Name {
        bool any_names = false;  ///< `**`
        std::vector<Token> tokens;
    };

    static Result<Name> compile_name(std::string_view text);
    static Result<Token> compile_set(std::string_view text, std::size_t& at);
    [[nodiscard]] static bool accepts(const Token& token, std::string_view character);
    [[nodiscard]] static bool matches_name(const Name& pattern, std::string_view name);

    std::string text_;
    std::vector<Name> names_;
};

}  // namespace tierfs
