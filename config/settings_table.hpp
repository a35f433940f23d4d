// The one table of settings. Private to config/.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.hpp"

namespace tierfs {

/// One setting: how it is written, read and explained.
struct SettingKey {
    std::string_view name;     ///< "memory.limit"
    std::string_view type;     ///< "size", "duration", "number", "text", "yes or no", or the words allowed
    std::string_view allowed;  ///< range in words; may be empty
    std::string_view help;
    bool is_flag = false;  ///< may stand alone in -o
    /// Sets the value from text; the error says what was found and what is allowed, not the key.
    std::function<Result<void>(Settings&, std::string_view)> parse;
    /// The value as `parse` reads it back.
    std::function<std::string(const Settings&)> show;
};

/// In the order in which they are shown.
const std::vector<SettingKey>& setting_keys();

/// nullptr when there is none of that name.
const SettingKey* find_setting(std::string_view name);

/// The known key that is spelled most like `name`; empty when none is near.
std::string_view nearest_setting(std::string_view name);

/// "unknown key 'x'; did you mean 'y'?"
std::string unknown_setting(std::string_view name);

/// One key and its text in a file, with where it stands.
struct SettingText {
    std::string key;
    std::string value;
    std::string place;  ///< "/etc/tierfs.yaml:12"
};

/// The keys of a YAML file, nested maps joined by dots. Errors of form only (not YAML, duplicate keys,
/// lists).
Result<std::vector<SettingText>> read_settings_file(const std::string& path);

}  // namespace tierfs
