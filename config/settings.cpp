#include "config/settings.hpp"

#include <sys/mount.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "config/base/units.hpp"
#include "config/memory_plan.hpp"
#include "config/mount_options.hpp"
#include "config/nfs_url.hpp"
#include "config/settings_reread.hpp"
#include "config/settings_table.hpp"

namespace tierfs {
namespace {

using settings::Key;

constexpr std::size_t kMostProblems = 20;  // a hostile file must not fill the screen, nor take long to refuse

/// Joins what was found wrong; the errno of the first counts.
Result<void> verdict(const std::vector<Error>& problems) {
    if (problems.empty()) return {};
    std::string text;
    for (std::size_t i = 0; i < problems.size() && i < kMostProblems; ++i) {
        text += (i == 0 ? "" : "\n") + problems[i].message;
    }
    if (problems.size() > kMostProblems) {
        text += "\n" + std::to_string(problems.size() - kMostProblems) + " or more further problems";
    }
    return fail(problems[0].code, text);
}

/// Sets one key and notes where it came from.
class Loader {
  public:
    Settings settings = settings::defaults();
    std::vector<Error> problems;

    void set(const std::string& name, std::string_view value, const std::string& place) {
        const Key* key = settings::find(name);
        if (key == nullptr) {
            if (name == "datasets")
                return refuse(place, "datasets: rules stand in a YAML file; allowed: config=FILE");
            return refuse(place, settings::shown(name) + " is no known key" + settings::suggestion(name));
        }
        if (const auto problem = settings::set(settings, *key, value)) return refuse(place, *problem);
        places_[key->opposite ? "ro" : name] = place;
    }

    void set_flags(const std::string& name, std::string_view option, const std::string& place) {
        const auto change = mount_option(option);
        if (!*change) return refuse(place, name + ": " + change->error().message);
        settings.mount_flags = (*change)->applied_to(settings.mount_flags);
        places_[name] = place;
    }

    void refuse(const std::string& place, const std::string& text) {
        problems.push_back(Error{EINVAL, place + ": " + text});
    }

    void read_file(const std::string& path, const std::optional<std::string>& text = {}) {
        for (const auto& entry : settings::read_yaml(path, text, problems)) {
            if (problems.size() > kMostProblems) return;
            if (entry.rule) {
                set_in_rule(entry);
            } else {
                set(entry.key, entry.value, entry.place);
            }
        }
        end_rule();
    }

    /// Where a key was set, for problems of several keys together.
    std::string place(const std::string& name) const {
        const auto found = places_.find(name);
        return found == places_.end() ? "default" : found->second;
    }

  private:
    void set_in_rule(const settings::Entry& entry) {
        if (entry.key.empty() && entry.value.empty()) {
            end_rule();
            if (settings.datasets.size() == DatasetRules::kMost)
                refuse(entry.place, "datasets: found more than 64 rules; allowed: at most 64");
            settings.datasets.emplace_back();
            settings.datasets.back().place = entry.place;
            has_match_ = false;
            return;
        }
        has_match_ = has_match_ || entry.key == "match";
        if (const auto problem = settings.datasets.back().set(entry.key, entry.value))
            refuse(entry.place, "datasets: " + *problem);
    }

    void end_rule() {
        if (settings.datasets.empty() || std::exchange(has_match_, true)) return;
        refuse(settings.datasets.back().place,
               "datasets: found a rule without match; allowed: a pattern, as match: /train/**");
    }

    std::map<std::string, std::string> places_;
    bool has_match_ = true;  ///< the last rule has one
};

std::string variable_of(const Key& key) {
    std::string name = "TIERFS_" + std::string(key.name);
    for (char& c : name) c = c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return name;
}

void read_environment(const std::map<std::string, std::string>& environment, Loader& loader) {
    for (const auto& [name, value] : environment) {
        if (!name.starts_with("TIERFS_") || name.starts_with("TIERFS_TEST_") || name == "TIERFS_NO_CCACHE")
            continue;
        const std::string place = "environment " + settings::shown(name).substr(1);
        const auto& keys = settings::table();
        const auto key = std::find_if(keys.begin(), keys.end(), [&variable = name](const Key& k) {
            return variable_of(k) == variable;
        });
        const std::string where = place.substr(0, place.size() - 1);
        if (key != keys.end()) {
            loader.set(std::string(key->name), value, where);
            continue;
        }
        std::string dotted = name.substr(7);
        std::replace(dotted.begin(), dotted.end(), '_', '.');
        for (char& c : dotted) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        loader.refuse(where, "is no known variable" + settings::suggestion(dotted) +
                                 "; allowed: TIERFS_ and a key, as TIERFS_MEMORY_LIMIT for memory.limit");
    }
}

void read_option(const std::string& option, Loader& loader) {
    const auto equals = option.find('=');
    const std::string name = option.substr(0, equals);
    if (option.empty() || name == "config") return;
    const std::string shown = settings::shown(name);
    const std::string place = "option -o " + shown.substr(1, shown.size() - 2);
    if (mount_option(option)) return loader.set_flags(shown.substr(1, shown.size() - 2), option, place);
    const Key* key = settings::find(name);
    const bool bare = equals == std::string::npos;
    if (bare && key != nullptr && key->kind != settings::Kind::flag) {
        return loader.refuse(place, name + ": found no value; allowed: " + settings::allowed(*key));
    }
    if (name == "rw" && bare) return loader.set("ro", "false", place);
    loader.set(name, bare ? "true" : option.substr(equals + 1), place);
}

/// The file of the last config=; empty without one.
std::string config_file(const std::vector<std::string>& options, Loader& loader) {
    std::string path;
    for (const auto& option : options) {
        if (option != "config" && !option.starts_with("config=")) continue;
        path = option.size() > 7 ? option.substr(7) : "";
        if (path.empty())
            loader.refuse("option -o config", "config: found no value; allowed: the path of a YAML file");
    }
    return path;
}

void check_buckets(Loader& loader) {
    const Settings& s = loader.settings;
    if (!s.s3_kms_key.empty() && !s.s3_encryption.starts_with("aws:kms"))
        loader.refuse(loader.place("s3.kms_key"), "s3.kms_key: found with s3.encryption=" + s.s3_encryption +
                                                      "; allowed: with aws:kms or aws:kms:dsse");
    if (!s.s3_customer_key.empty() && s.s3_encryption != "none")
        loader.refuse(loader.place("s3.customer_key"), "s3.customer_key: found with s3.encryption=" +
                                                           s.s3_encryption + "; allowed: one of both");
    if (s.s3_requester_pays && s.s3_anonymous)
        loader.refuse(
            loader.place("s3.requester_pays"),
            "s3.requester_pays: found with s3.anonymous; allowed: with credentials, whose account pays");
}

void check_write_back(Loader& loader) {
    const Settings& s = loader.settings;
    if (s.read_only || s.writes != "back") return;
    if (!s.source.empty() && !s.source.starts_with("s3://"))
        loader.refuse(
            loader.place("writes"),
            "writes: found back for a source that is no bucket; allowed: through, since a directory or NFS "
            "server has what was written when write(2) returns");
    if (s.journal_path.empty())
        loader.refuse(
            loader.place("writes"),
            "writes: found back without journal.path; allowed: with journal.path=FOLDER on a local disk");
}

void check_together(Loader& loader) {
    const Settings& s = loader.settings;
    check_buckets(loader);
    check_write_back(loader);
    if (s.nvme_limit != 0 && s.nvme_path.empty()) {
        loader.refuse(loader.place("nvme.limit"), "nvme.limit: found " + format_size_exact(s.nvme_limit) +
                                                      " without nvme.path; allowed: both, or neither");
    }
    const bool directory = s.source.starts_with('/') || s.source.starts_with("file:");
    if (!s.read_only && directory && (s.mount_flags & MS_DIRSYNC) != 0) {
        loader.refuse(
            loader.place("dirsync"),
            "dirsync: found on a writable mount of a directory; allowed: on the file system that the "
            "directory lies on, which keeps the names, as `mount -o remount,dirsync` of it");
    }
    if (!s.read_only && s.profile == Profile::small) {
        loader.refuse(loader.place("profile"),
                      "profile: found small on a writable mount (" + loader.place("ro") +
                          "); allowed: large or auto, or ro, since small opens files without a message");
    }
    if (s.ram_limit && *s.ram_limit > s.memory_limit) {
        loader.refuse(loader.place("ram.limit"),
                      "ram.limit: found " + format_size_exact(*s.ram_limit) +
                          ", which is more than memory.limit (" + format_size_exact(s.memory_limit) + ", " +
                          loader.place("memory.limit") + "); allowed: at most memory.limit");
    }
    std::vector<std::pair<std::string, std::string>> paths{{"index.path", s.index_path},
                                                           {"journal.path", s.journal_path},
                                                           {"log.file", s.log_file},
                                                           {"s3.ca_bundle", s.s3_ca_bundle},
                                                           {"s3.customer_key", s.s3_customer_key}};
    for (const std::string& path : split_paths(s.nvme_path)) paths.emplace_back("nvme.path", path);
    for (const auto& [name, path] : paths) {
        if (!is_path_within(path, s.mountpoint)) continue;
        loader.refuse(loader.place(name),
                      name + ": found " + settings::shown(path) +
                          ", which lies inside the mountpoint; allowed: a path outside of it");
    }
}

void resolve_memory(Settings& settings) {
    constexpr std::uint64_t smallest = 96 << 20;  // what MemoryPlan::divide needs
    if (settings.memory_limit == 0) settings.memory_limit = std::max(default_memory_limit(), smallest);
}

}  // namespace

bool is_path_within(const std::string& path, const std::string& folder) {
    if (path.empty() || folder.empty()) return false;
    std::filesystem::path outer = std::filesystem::path(folder).lexically_normal();
    if (!outer.has_filename() && outer != outer.root_path()) outer = outer.parent_path();
    const std::filesystem::path inner = std::filesystem::path(path).lexically_normal();
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

std::vector<std::string> split_paths(std::string_view text) {
    std::vector<std::string> paths;
    for (std::size_t from = 0; !text.empty() && from <= text.size();) {
        const std::size_t end = std::min(text.find(':', from), text.size());
        paths.emplace_back(text.substr(from, end - from));
        from = end + 1;
    }
    return paths;
}

Result<Settings> load_settings(const SettingsSources& sources) {
    return load_settings(sources, std::nullopt);
}

Result<Settings> load_settings(const SettingsSources& sources, const std::optional<std::string>& text) {
    Loader loader;
    Settings& settings = loader.settings;
    settings.source = sources.source;
    if (!sources.mountpoint.empty()) {
        std::error_code error;
        const auto absolute = std::filesystem::absolute(sources.mountpoint, error);
        if (error)
            return fail(Error{error.value(),
                              "mountpoint " + settings::shown(sources.mountpoint) + ": " + error.message()});
        settings.mountpoint = absolute.string();
    }
    settings.foreground = sources.foreground;

    const std::string file = config_file(sources.options, loader);
    if (!file.empty()) loader.read_file(file, text);
    read_environment(sources.environment, loader);
    for (const auto& option : sources.options) read_option(option, loader);
    resolve_memory(settings);
    check_together(loader);
    if (const auto good = apply_nfs_url(settings); !good) loader.problems.push_back(good.error());
    if (const auto good = verdict(loader.problems); !good) return fail(good.error());
    return settings;
}

std::string settings_file(const std::vector<std::string>& options) {
    Loader ignored;
    return config_file(options, ignored);
}

std::string setting_text(const Settings& settings, std::string_view key) {
    const Key* found = settings::find(key);
    return found == nullptr ? std::string() : settings::value_text(*found, settings);
}

Result<Settings> check_settings_file(const std::string& path) {
    Loader loader;
    loader.read_file(path);
    // Where the limit is left to the machine, this machine's may not be the one that the file is for.
    if (loader.settings.memory_limit == 0) loader.settings.ram_limit.reset();
    check_together(loader);
    if (const auto good = verdict(loader.problems); !good) return fail(good.error());
    return std::move(loader.settings);
}

}  // namespace tierfs
