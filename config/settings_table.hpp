// The one table of settings, and what reads a value by it. Included by the files settings*.cpp and
// dataset_rules.cpp. Internal to config.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/settings.hpp"

namespace tierfs::settings {

/// No size is larger: off_t holds no more.
constexpr std::uint64_t kLargestSize = std::numeric_limits<std::int64_t>::max();

/// Where a key's value goes; the alternatives are the types that Settings has.
using Member = std::variant<bool Settings::*, unsigned Settings::*, std::uint64_t Settings::*,
                            std::optional<std::uint64_t> Settings::*, std::chrono::milliseconds Settings::*,
                            std::string Settings::*, Profile Settings::*, AddressingStyle Settings::*,
                            DatasetClass Settings::*, Codec Settings::*, NfsMode Settings::*>;

enum class Kind { flag, size, duration, count, octal, text, path, paths, url, choice, address };

/// One key. `min` and `max` are bytes, milliseconds or a plain number, as the kind has it.
struct Key {
    std::string_view name;
    Kind kind;
    Member member;
    std::string_view help;
    std::uint64_t min = 0;
    std::uint64_t max = 0;
    bool zero = false;       ///< 0 is allowed although it is below `min`
    bool automatic = false;  ///< "auto" is allowed and means the default
    std::vector<std::string_view> choices = {};
    bool opposite = false;  ///< another name of a flag, which means its opposite
};

/// In the order in which help and man page show them; keys of one section stand together.
const std::vector<Key>& table();

const Key* find(std::string_view name);

/// " (did you mean 'memory.limit'?)" or "" when no key is near.
std::string suggestion(std::string_view name);

/// Defaults that depend on the process are filled in: s3.uid, s3.gid, nfs.uid, nfs.gid.
Settings defaults();

/// What may stand for this key, for people: "a size from 96M to 8T, or auto".
std::string allowed(const Key& key);

/// The value of this key in `settings` as the readers take it back.
std::string value_text(const Key& key, const Settings& settings);

/// Sets one value. The problem is "KEY: found 'X'; allowed: ..." or nothing.
std::optional<std::string> set(Settings& settings, const Key& key, std::string_view text);

/// `text` for a message: in quotes, short, without control characters.
std::string shown(std::string_view text);

/// One value of a YAML file.
struct Entry {
    std::string key, value;
    std::string place;             ///< "FILE:LINE"
    std::optional<unsigned> rule;  ///< of this rule of `datasets`, which begins with an entry of its number
                                   ///< without a key
};

/// Entries of a file in order. What is wrong goes to `problems`, each with its place; reading goes on behind
/// it where that makes sense. Aliases, lists but `datasets`, duplicate keys and files over 1 MiB are refused.
/// `text`: what the file holds, where it was read already.
std::vector<Entry> read_yaml(const std::string& path, const std::optional<std::string>& text,
                             std::vector<Error>& problems);

}  // namespace tierfs::settings
