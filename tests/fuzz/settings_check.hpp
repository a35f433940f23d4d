// A check of accepted settings: they print, and parse back to the same.
#pragma once

#include "config/settings_table.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace tierfs::fuzz {

inline void check_settings(const Result<Settings>& loaded) {
    if (!loaded) {
        require(loaded.error().code != 0 && !loaded.error().message.empty(), "an error says what it is");
        require(loaded.error().message.size() < 64 * 1024, "a refusal is short, whatever the file");
        return;
    }
    SettingsSources printed;
    for (const auto& key : settings::table()) {
        const auto text = settings::value_text(key, *loaded);
        // What is as it is by default needs no text, and memory.limit's default has none.
        if (key.automatic && text == settings::value_text(key, settings::defaults())) continue;
        printed.options.push_back(std::string(key.name) + "=" + text);
    }
    const auto again = load_settings(printed);
    require(again.has_value(), "what was taken is taken again");
    for (const auto& key : settings::table()) {
        require(settings::value_text(key, *again) == settings::value_text(key, *loaded),
                "and means the same");
    }
}

}  // namespace tierfs::fuzz
