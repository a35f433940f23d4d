// Reading the settings of a mount once more while it is there: the same options, with the file as it is now.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/result.hpp"
#include "config/settings.hpp"

namespace tierfs {

/// load_settings with `text` in place of what the file of `config=` holds now; without one the same.
Result<Settings> load_settings(const SettingsSources& sources, const std::optional<std::string>& text);

/// The file that the last `config=` of these options names; empty without one.
std::string settings_file(const std::vector<std::string>& options);

/// The text of a YAML file. Errors name the file; it may have 1 MiB.
Result<std::string> read_settings_file(const std::string& path);

/// The value of a key as the readers take it back; empty for what is no key.
std::string setting_text(const Settings& settings, std::string_view key);

}  // namespace tierfs
