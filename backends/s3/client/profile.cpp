#include "backends/s3/client/profile.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "backends/s3/client/credential_files.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/text.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::size_t kFileLimit = 1U << 20;

std::string_view without_blanks(std::string_view text) {
    const auto begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Blanks before # or ; start a comment behind a value.
std::string_view without_comment(std::string_view value) {
    for (std::size_t i = 1; i < value.size(); ++i) {
        if ((value[i] == '#' || value[i] == ';') && (value[i - 1] == ' ' || value[i - 1] == '\t'))
            return without_blanks(value.substr(0, i));
    }
    return value;
}

/// A file, the variable that names it, and its place in the user's home.
struct SharedFile {
    const char *variable, *relative;
};
constexpr SharedFile kConfig{"AWS_CONFIG_FILE", "/.aws/config"};
constexpr SharedFile kCredentials{"AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"};

std::string path_of(const SharedFile& file, const Environment& environment) {
    if (auto path = variable(environment, file.variable); !path.empty()) return path;
    if (auto home = variable(environment, "HOME"); !home.empty()) return home + file.relative;
    // mount(8) may start us without HOME.
    std::array<char, 4096> buffer{};
    passwd entry{};
    passwd* found = nullptr;
    if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
        return {};
    return std::string(found->pw_dir) + file.relative;
}

Ini load_ini(const std::string& path, std::string& trouble) {
    if (path.empty()) return {};
    const auto text = read_small_file(path);
    if (text) return parse_ini(*text);
    if (text.error().code != ENOENT && text.error().code != ENOTDIR) {
        if (!trouble.empty()) trouble += "; ";
        trouble += text.error().message;
    }
    return {};
}

}  // namespace

Environment process_environment() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto equals = text.find('=');
        if (equals != std::string_view::npos)
            environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

std::string variable(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

std::vector<CredentialFile> credential_files() {
    const auto environment = process_environment();
    std::vector<CredentialFile> files;
    const auto add = [&](const char* name, std::string path, bool is_chosen) {
        if (!path.empty()) files.push_back({name, std::move(path), is_chosen});
    };
    for (const auto& file : {kConfig, kCredentials})
        add(file.variable, path_of(file, environment), !variable(environment, file.variable).empty());
    for (const char* name :
         {"AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"})
        add(name, variable(environment, name), true);
    return files;
}

Ini parse_ini(std::string_view text) {
    Ini ini;
    IniSection* section = nullptr;
    std::string parent;  // a key without a value, which indented lines may belong to
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        const auto line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const auto content = without_blanks(line);
        if (content.empty() || content.front() == '#' || content.front() == ';') continue;
        if (content.front() == '[') {
            const auto close = content.find(']');
            section = nullptr;
            parent.clear();
            if (close != std::string_view::npos)
                section = &ini[std::string(without_blanks(content.substr(1, close - 1)))];
            continue;
        }
        const auto equals = content.find('=');
        if (section == nullptr || equals == std::string_view::npos) continue;
        const auto key = to_lower(without_blanks(content.substr(0, equals)));
        const auto value = without_comment(without_blanks(content.substr(equals + 1)));
        const bool indented = line.front() == ' ' || line.front() == '\t';
        if (indented && !parent.empty()) {
            (*section)[parent + "." + key] = value;
            continue;
        }
        (*section)[key] = value;
        parent = value.empty() ? key : std::string();
    }
    return ini;
}

Result<std::string> read_small_file(const std::string& path) {
    const int file =
        TIERFS_FAULT_CALL("credentials.open", ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file < 0) return fail(system_error(errno, path));
    std::string text;
    std::array<char, 4096> buffer{};
    while (true) {
        const auto count = TIERFS_FAULT_CALL("credentials.read",
                                             ::read(file, buffer.data(), TIERFS_FAULT_SHORT(buffer.size())));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) {
            const int code = errno;
            ::close(file);
            return fail(system_error(code, path));
        }
        if (count == 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(count));
        if (text.size() > kFileLimit) {
            ::close(file);
            return fail(EFBIG, path + ": longer than 1 MiB");
        }
    }
    ::close(file);
    return text;
}

ProfileFiles ProfileFiles::load(const Environment& environment) {
    ProfileFiles files;
    files.config_path = path_of(kConfig, environment);
    files.credentials_path = path_of(kCredentials, environment);
    files.config = load_ini(files.config_path, files.trouble);
    files.credentials = load_ini(files.credentials_path, files.trouble);
    return files;
}

IniSection ProfileFiles::profile(const std::string& name) const {
    IniSection merged;
    if (const auto found = credentials.find(name); found != credentials.end()) merged = found->second;
    auto found = config.find("profile " + name);
    if (found == config.end() && name == "default") found = config.find(name);
    if (found == config.end()) return merged;
    for (const auto& pair : found->second) merged.insert(pair);
    // [services NAME] holds endpoints by service.
    const auto services = merged.find("services");
    if (services == merged.end()) return merged;
    const auto block = config.find("services " + services->second);
    if (block == config.end()) return merged;
    for (const auto& [key, value] : block->second) merged["services." + key] = value;
    return merged;
}

std::string profile_name(const std::string& setting, const Environment& environment) {
    if (!setting.empty()) return setting;
    if (auto name = variable(environment, "AWS_PROFILE"); !name.empty()) return name;
    if (auto name = variable(environment, "AWS_DEFAULT_PROFILE"); !name.empty()) return name;
    return "default";
}

}  // namespace tierfs::s3
