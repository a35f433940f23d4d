// floor: config
// The YAML file of settings. Input: the file.
#include "tests/fuzz/settings_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const fuzz::MemoryFile file(fuzz::text_of(data, size));
    const auto checked = check_settings_file(file.path());
    SettingsSources sources;
    sources.options = {"config=" + file.path()};
    const auto loaded = load_settings(sources);
    fuzz::require(checked.has_value() || !loaded.has_value(),
                  "a file that does not pass the check is not taken");
    fuzz::check_settings(loaded);
    return 0;
}
