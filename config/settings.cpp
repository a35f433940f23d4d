#include "config/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "config/memory_plan.hpp"
#include "config/settings_table.hpp"
#include "config/units.hpp"

namespace tierfs {

namespace {

constexpr std::uint64_t kSmallestNvmeLimit = std::uint64_t{16} << 20;

/// Options that mount(8) and fstab pass to every helper and that mean nothing to us, or are always on.
bool is_mount_option(std::string_view name) {
    constexpr std::array<std::string_view, 33> kIgnored{
        "defaults",   "dev",        "nodev",   "suid",     "nosuid",   "exec",
        "noexec",     "atime",      "noatime", "relatime", "user",     "users",
        "norelatime", "nodiratime", "nouser",  "sync",     "async",    "default_permissions",
        "_netdev",    "auto",       "nofail",  "noauto",   "diratime", "owner",
        "group",      "mand",       "nomand",  "dirsync",  "loud",     "strictatime",
        "lazytime",   "nolazytime", "silent"};
    if (std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end()) return true;
    return name.starts_with("x-") || name == "comment" || name == "fsname" || name == "subtype";
}

/// Where a value came from and what set it, so that an error names it.
Result<void> apply(Settings& settings, const SettingText& text) {
    const SettingKey* const key = find_setting(text.key);
    if (key == nullptr) return fail(EINVAL, text.place + ": " + unknown_setting(text.key));
    const auto parsed = key->parse(settings, text.value);
    if (parsed) return {};
    std::string message = text.place + ": " + text.key + ": " + parsed.error().message;
    if (!key->allowed.empty()) message += "; allowed: " + std::string(key->allowed);
    return fail(parsed.error().code, std::move(message));
}

/// Applies all and tells all problems, one a line.
Result<void> apply_all(Settings& settings, const std::vector<SettingText>& texts) {
    std::optional<Error> problems;
    for (const auto& text : texts) {
        const auto applied = apply(settings, text);
        if (applied) continue;
        if (!problems) {
            problems = applied.error();
        } else {
            problems->message += "\n" + applied.error().message;
        }
    }
    if (problems) return fail(std::move(*problems));
    return {};
}

Result<std::vector<SettingText>> option_texts(const std::vector<std::string>& options,
                                              std::string& config_file) {
    std::vector<SettingText> texts;
    for (const auto& option : options) {
        const std::size_t equals = option.find('=');
        const std::string name = option.substr(0, equals);
        if (name.empty() && equals == std::string::npos) continue;  // a stray comma
        const std::string place = "option -o " + name;
        if (name == "config") {
            if (equals == std::string::npos)
                return fail(EINVAL, place + ": a file name is missing (config=FILE)");
            config_file = option.substr(equals + 1);
            continue;
        }
        if (is_mount_option(name)) continue;
        const SettingKey* const key = find_setting(name);
        if (name == "rw" || name == "noro") {
            return fail(EROFS, place + ": this version of tierfs mounts read-only: leave '" + name + "' out");
        }
        if (key != nullptr && !key->is_flag && equals == std::string::npos) {
            return fail(EINVAL, place + ": a value is missing (" + name + "=...)");
        }
        texts.push_back(
            {name, equals == std::string::npos ? std::string() : option.substr(equals + 1), place});
    }
    return texts;
}

/// TIERFS_MEMORY_LIMIT -> memory.limit: an underscore may stand for a dot or for itself.
const SettingKey* find_by_variable(std::string_view variable) {
    for (const auto& key : setting_keys()) {
        std::string name = "TIERFS_";
        for (const char character : key.name) {
            name += character == '.' ? '_'
                                     : static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
        }
        if (name == variable) return &key;
    }
    return nullptr;
}

Result<std::vector<SettingText>> environment_texts(const std::map<std::string, std::string>& environment,
                                                   std::string& config_file) {
    std::vector<SettingText> texts;
    for (const auto& [variable, value] : environment) {
        if (!variable.starts_with("TIERFS_")) continue;
        if (variable.starts_with("TIERFS_TEST_") || variable == "TIERFS_NO_CCACHE" ||
            variable == "TIERFS_BINARY")
            continue;
        if (variable == "TIERFS_CONFIG") {
            config_file = value;
            continue;
        }
        const SettingKey* const key = find_by_variable(variable);
        if (key == nullptr) {
            return fail(EINVAL, "environment " + variable +
                                    ": no setting has this name; tierfs --help lists the keys "
                                    "(memory.limit is TIERFS_MEMORY_LIMIT)");
        }
        texts.push_back({std::string(key->name), value, "environment " + variable});
    }
    return texts;
}

Result<void> check_paths(const Settings& settings) {
    if (settings.nvme_path.find(':') != std::string::npos) {
        return fail(EINVAL, "nvme.path: '" + settings.nvme_path +
                                "' names several devices; this version of tierfs uses one");
    }
    const std::array<std::pair<std::string_view, const std::string*>, 3> paths{
        {{"nvme.path", &settings.nvme_path},
         {"index.path", &settings.index_path},
         {"log.file", &settings.log_file}}};
    for (const auto& [name, path] : paths) {
        if (!path->empty() && path->front() != '/') {
            return fail(EINVAL, std::string(name) + ": '" + *path + "' is not an absolute path");
        }
    }
    return {};
}

Result<void> check_combinations(const Settings& settings) {
    if (auto paths = check_paths(settings); !paths) return paths;
    if (settings.nvme_path.empty() && settings.nvme_limit != 0) {
        return fail(EINVAL, "nvme.limit is set but nvme.path is not: say where the NVMe tier shall live");
    }
    if (settings.nvme_limit != 0 && settings.nvme_limit < kSmallestNvmeLimit) {
        return fail(ERANGE, "nvme.limit: '" + format_size_exact(settings.nvme_limit) +
                                "' is out of range; allowed: 16M or more, or 0");
    }
    if (settings.ram_limit && *settings.ram_limit > settings.memory_limit) {
        return fail(EINVAL, "ram.limit (" + format_size(*settings.ram_limit) +
                                ") is larger than memory.limit (" + format_size(settings.memory_limit) + ")");
    }
    if (settings.s3_anonymous && !settings.s3_profile.empty()) {
        return fail(EINVAL,
                    "s3.anonymous and s3.profile exclude each other: anonymous requests use no credentials");
    }
    const std::string& endpoint = settings.s3_endpoint;
    if (!endpoint.empty() && !endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
        return fail(EINVAL, "s3.endpoint: '" + endpoint +
                                "' has no scheme; allowed: http://HOST[:PORT] or "
                                "https://HOST[:PORT]");
    }
    return {};
}

Settings defaults() {
    Settings settings;
    settings.memory_limit = default_memory_limit();
    settings.s3_uid = ::geteuid();
    settings.s3_gid = ::getegid();
    return settings;
}

}  // namespace

Result<Settings> load_settings(const SettingsSources& sources) {
    Settings settings = defaults();
    std::string config_file;
    const auto environment = environment_texts(sources.environment, config_file);
    if (!environment) return fail(environment.error());
    const auto options = option_texts(sources.options, config_file);
    if (!options) return fail(options.error());

    if (!config_file.empty()) {
        const auto file = read_settings_file(config_file);
        if (!file) return fail(file.error());
        if (auto applied = apply_all(settings, *file); !applied) return fail(applied.error());
    }
    if (auto applied = apply_all(settings, *environment); !applied) return fail(applied.error());
    if (auto applied = apply_all(settings, *options); !applied) return fail(applied.error());
    if (auto checked = check_combinations(settings); !checked) return fail(checked.error());

    settings.source = sources.source;
    settings.foreground = sources.foreground;
    if (!sources.mountpoint.empty()) {
        std::error_code ignored;
        settings.mountpoint =
            std::filesystem::absolute(sources.mountpoint, ignored).lexically_normal().string();
        while (settings.mountpoint.size() > 1 && settings.mountpoint.back() == '/')
            settings.mountpoint.pop_back();
    }
    return settings;
}

Result<void> check_settings_file(const std::string& path) {
    const auto file = read_settings_file(path);
    if (!file) return fail(file.error());
    Settings settings = defaults();
    if (auto applied = apply_all(settings, *file); !applied) return applied;
    if (auto checked = check_combinations(settings); !checked) return fail(checked.error().within(path));
    return {};
}

std::string settings_help() {
    const Settings settings = defaults();
    std::string text;
    for (const auto& key : setting_keys()) {
        std::string head = "  " + std::string(key.name);
        const std::string value = key.show(settings);
        if (!key.is_flag) head += "=" + (value.empty() ? std::string(key.type) : value);
        text += head + "\n      " + std::string(key.help);
        if (!key.allowed.empty()) text += " (" + std::string(key.allowed) + ")";
        text += "\n";
    }
    return text;
}

std::string settings_defaults_yaml() {
    const Settings settings = defaults();
    std::string text = "# tierfs settings, all at their defaults. Use it with -o config=FILE.\n";
    for (const auto& key : setting_keys()) {
        text += "\n# " + std::string(key.help) + "\n# " + std::string(key.type);
        if (!key.allowed.empty()) text += ": " + std::string(key.allowed);
        const std::string value = key.show(settings);
        text += "\n" + std::string(key.name) + ": " + (value.empty() ? "\"\"" : value) + "\n";
    }
    return text;
}

std::string settings_man() {
    Settings settings;  // not this machine's defaults: the manual is the same everywhere
    std::string text;
    for (const auto& key : setting_keys()) {
        text += ".TP\n.BR " + std::string(key.name);
        text += " \" (" + std::string(key.type);
        if (!key.allowed.empty()) text += ": " + std::string(key.allowed);
        const bool of_machine = key.name == "memory.limit" || key.name == "s3.uid" || key.name == "s3.gid";
        const std::string value = of_machine ? std::string() : key.show(settings);
        if (!value.empty()) text += "; default " + value;
        text += ")\"\n" + std::string(key.help) + "\n";
    }
    return text;
}

}  // namespace tierfs
