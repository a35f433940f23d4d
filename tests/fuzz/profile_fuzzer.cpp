// floor: backends
// The AWS tools' shared files and the command of credential_process. Input: a profile's name on a line, then
// the text of the configuration file, NUL, the text of the credentials file.
#include "backends/s3/client/credential_chain.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;

s3::Ini check_ini(std::string_view text) {
    auto ini = s3::parse_ini(text);
    std::string written;
    for (const auto& [name, section] : ini) {
        written += "[" + name + "]\n";
        for (const auto& [key, value] : section) written += key + " = " + value + "\n";
    }
    fuzz::require(s3::parse_ini(written) == ini, "what was read is written and read again");
    return ini;
}

void check_words(const std::string& line) {
    const auto words = s3::split_words(line);
    if (!words) return;
    std::string quoted;
    for (const auto& word : *words) {
        quoted += quoted.empty() ? "\"" : " \"";
        for (const char c : word) quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        quoted += '"';
    }
    const auto again = s3::split_words(quoted);
    fuzz::require(again && *again == *words, "words in quotes are the same words");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    auto text = fuzz::text_of(data, size);
    const std::string name(fuzz::take_line(text));
    const auto middle = std::min(text.find('\0'), text.size());
    s3::ProfileFiles files;
    files.config = check_ini(text.substr(0, middle));
    files.credentials = check_ini(text.substr(std::min(middle + 1, text.size())));
    const auto profile = files.profile(name);
    if (const auto found = files.credentials.find(name); found != files.credentials.end()) {
        const bool services = profile.contains("services");
        for (const auto& [key, value] : found->second) {
            if (services && key.starts_with("services.")) continue;
            fuzz::require(profile.at(key) == value, "the credentials file wins");
        }
    }
    for (const auto& [key, value] : profile) check_words(value);
    check_words(name);
    return 0;
}
