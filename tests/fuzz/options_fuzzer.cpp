// floor: fs
// The text behind -o and the environment's variables. Input: the text, then lines NAME=VALUE for the
// environment.
#include "fs/commands/commands.hpp"
#include "tests/fuzz/settings_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    auto text = fuzz::text_of(data, size);
    const auto options = split_options(std::string(fuzz::take_line(text)));
    std::string joined;
    SettingsSources sources;
    for (const auto& option : options) {
        fuzz::require(!option.empty(), "an option is not empty");
        joined += joined.empty() ? "" : ",";
        for (const char c : option)
            joined += c == ',' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        if (!option.starts_with("config=")) sources.options.push_back(option);
    }
    fuzz::require(split_options(joined) == options, "options with backslashes are the same options");
    while (!text.empty()) {
        const auto line = fuzz::take_line(text);
        const auto equals = std::min(line.find('='), line.size());
        sources.environment["TIERFS_" + std::string(line.substr(0, equals))] =
            line.substr(std::min(equals + 1, line.size()));
    }
    fuzz::check_settings(load_settings(sources));
    return 0;
}
