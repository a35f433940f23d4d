#include "config/settings_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

#include "config/units.hpp"

namespace tierfs {

namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;
constexpr std::uint64_t kAny = INT64_MAX;

template <typename T>
struct Word {
    std::string_view word;
    T value;
};

Result<bool> parse_boolean(std::string_view text) {
    if (text.empty() || text == "true" || text == "yes" || text == "on" || text == "1") return true;
    if (text == "false" || text == "no" || text == "off" || text == "0") return false;
    return fail(EINVAL, "'" + std::string(text) + "' is neither true nor false");
}

Result<void> parse_bounded_size(std::uint64_t& target, std::string_view text, std::uint64_t least,
                                std::uint64_t most) {
    const auto size = parse_size(text);
    if (!size) return fail(size.error());
    if (*size < least || *size > most) return fail(ERANGE, "'" + std::string(text) + "' is out of range");
    target = *size;
    return {};
}

SettingKey size_key(std::string_view name, std::uint64_t Settings::*member, std::uint64_t least,
                    std::uint64_t most, std::string_view allowed, std::string_view help) {
    return {name,
            "size",
            allowed,
            help,
            false,
            [=](Settings& settings, std::string_view text) {
                return parse_bounded_size(settings.*member, text, least, most);
            },
            [=](const Settings& settings) { return format_size_exact(settings.*member); }};
}

SettingKey duration_key(std::string_view name, std::chrono::milliseconds Settings::*member,
                        std::chrono::milliseconds least, std::chrono::milliseconds most,
                        std::string_view allowed, std::string_view help) {
    return {name,
            "duration",
            allowed,
            help,
            false,
            [=](Settings& settings, std::string_view text) -> Result<void> {
                const auto duration = parse_duration(text);
                if (!duration) return fail(duration.error());
                if (*duration < least || *duration > most) {
                    return fail(ERANGE, "'" + std::string(text) + "' is out of range");
                }
                settings.*member = *duration;
                return {};
            },
            [=](const Settings& settings) { return format_duration(settings.*member); }};
}

template <typename Number>
SettingKey number_key(std::string_view name, Number Settings::*member, std::uint64_t least,
                      std::uint64_t most, int base, std::string_view allowed, std::string_view help) {
    return {name,
            base == 8 ? "octal number" : "number",
            allowed,
            help,
            false,
            [=](Settings& settings, std::string_view text) -> Result<void> {
                std::uint64_t value = 0;
                const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
                if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
                    return fail(EINVAL, "'" + std::string(text) + "' is not a" +
                                            (base == 8 ? "n octal" : "") + " number");
                }
                if (value < least || value > most)
                    return fail(ERANGE, "'" + std::string(text) + "' is out of range");
                settings.*member = static_cast<Number>(value);
                return {};
            },
            [=](const Settings& settings) {
                std::array<char, 24> text{};
                const auto end =
                    std::to_chars(text.data(), text.data() + text.size(), settings.*member, base).ptr;
                return (base == 8 ? "0" : "") + std::string(text.data(), end);
            }};
}

SettingKey text_key(std::string_view name, std::string Settings::*member, std::string_view allowed,
                    std::string_view help) {
    return {name,
            "text",
            allowed,
            help,
            false,
            [=](Settings& settings, std::string_view text) -> Result<void> {
                if (text.find('\0') != std::string_view::npos) return fail(EINVAL, "the text holds a NUL");
                settings.*member = std::string(text);
                return {};
            },
            [=](const Settings& settings) { return settings.*member; }};
}

SettingKey flag_key(std::string_view name, bool Settings::*member, std::string_view help) {
    return {name,
            "true or false",
            "",
            help,
            true,
            [=](Settings& settings, std::string_view text) -> Result<void> {
                const auto value = parse_boolean(text);
                if (!value) return fail(value.error());
                settings.*member = *value;
                return {};
            },
            [=](const Settings& settings) { return settings.*member ? "true" : "false"; }};
}

template <typename T, std::size_t N>
SettingKey word_key(std::string_view name, T Settings::*member, std::array<Word<T>, N> words,
                    std::string_view allowed, std::string_view help) {
    return {name,
            "word",
            allowed,
            help,
            false,
            [=](Settings& settings, std::string_view text) -> Result<void> {
                for (const auto& word : words) {
                    if (word.word != text) continue;
                    settings.*member = word.value;
                    return {};
                }
                return fail(EINVAL, "'" + std::string(text) + "' is unknown");
            },
            [=](const Settings& settings) {
                for (const auto& word : words) {
                    if (word.value == settings.*member) return std::string(word.word);
                }
                return std::string();
            }};
}

SettingKey read_only_key() {
    SettingKey key = flag_key("ro", &Settings::read_only, "mount read-only; this version knows nothing else");
    key.parse = [](Settings& settings, std::string_view text) -> Result<void> {
        const auto value = parse_boolean(text);
        if (!value) return fail(value.error());
        if (!*value)
            return fail(EROFS, "this version of tierfs mounts read-only: leave 'rw' out or say 'ro'");
        settings.read_only = true;
        return {};
    };
    return key;
}

SettingKey ram_limit_key() {
    return {"ram.limit",
            "size",
            "0 to what memory.limit leaves",
            "most that the RAM tier keeps; 0 switches it off; default: three quarters of what memory.limit "
            "leaves for data",
            false,
            [](Settings& settings, std::string_view text) -> Result<void> {
                if (text.empty()) {
                    settings.ram_limit.reset();
                    return {};
                }
                std::uint64_t size = 0;
                auto parsed = parse_bounded_size(size, text, 0, kAny);
                if (parsed) settings.ram_limit = size;
                return parsed;
            },
            [](const Settings& settings) {
                return settings.ram_limit ? format_size_exact(*settings.ram_limit) : std::string();
            }};
}

void add_mount_keys(std::vector<SettingKey>& keys) {
    using namespace std::chrono_literals;
    constexpr std::array<Word<Profile>, 3> kProfiles{
        {{"auto", Profile::automatic}, {"small", Profile::small}, {"large", Profile::large}}};
    keys.push_back(read_only_key());
    keys.push_back(
        flag_key("allow_other", &Settings::allow_other,
                 "let other users in; the kernel then checks owner and mode (default_permissions)"));
    keys.push_back(flag_key("allow_suid", &Settings::allow_suid,
                            "do not mount nosuid,nodev: modes and owners are the source's, trust it first"));
    keys.push_back(
        word_key("profile", &Settings::profile, kProfiles, "auto, small or large",
                 "small: opening a file costs no message; large: opens are answered by the daemon; auto is "
                 "small in this version"));
    keys.push_back(
        duration_key("metadata.ttl", &Settings::metadata_ttl, 0ms, kForever, "0 or more",
                     "how long names and attributes are believed before the source is asked again; forever "
                     "for datasets that never change"));
}

void add_tier_keys(std::vector<SettingKey>& keys) {
    keys.push_back(size_key(
        "memory.limit", &Settings::memory_limit, 96 * kMiB, kAny, "96M or more",
        "all memory that the daemon may take; default: a quarter of the cgroup's or the machine's, at "
        "most 8G"));
    keys.push_back(ram_limit_key());
    keys.push_back(text_key("nvme.path", &Settings::nvme_path, "an absolute path",
                            "an existing directory on a local disk for the NVMe tier; empty: no NVMe tier"));
    keys.push_back(size_key(
        "nvme.limit", &Settings::nvme_limit, 0, kAny, "16M or more, or 0",
        "most bytes that the tier takes below nvme.path, its index apart; 0: four fifths of the space "
        "that is free at the start"));
    keys.push_back(
        text_key("index.path", &Settings::index_path, "an absolute path",
                 "directory for the index of names; empty: with the NVMe tier, or a scratch directory"));
    keys.push_back(size_key("pack.max_object", &Settings::pack_max_object, 0, 1 * kMiB, "0 to 1M",
                            "objects up to this size are fetched whole and packed in extents"));
    keys.push_back(
        size_key("prefetch.window", &Settings::prefetch_window, 0, 1 * kGiB, "0 to 1G",
                 "the furthest that one stream is read ahead (never more than a quarter of the memory for "
                 "data); 0: no readahead"));
}

void add_origin_keys(std::vector<SettingKey>& keys) {
    using namespace std::chrono_literals;
    constexpr std::array<Word<AddressingStyle>, 3> kStyles{{{"auto", AddressingStyle::automatic},
                                                            {"path", AddressingStyle::path},
                                                            {"virtual", AddressingStyle::virtual_host}}};
    keys.push_back(
        duration_key("origin.deadline", &Settings::origin_deadline, 1s, 1h, "1s to 1h",
                     "an operation on the source that has not ended by then, retries included, fails"));
    keys.push_back(number_key("origin.connections", &Settings::origin_connections, 1, 1024, 10, "1 to 1024",
                              "most requests to the source at a time"));
    keys.push_back(
        text_key("s3.endpoint", &Settings::s3_endpoint, "http://HOST[:PORT] or https://HOST[:PORT]",
                 "the store's address; default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, AWS"));
    keys.push_back(text_key("s3.region", &Settings::s3_region, "",
                            "default: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1"));
    keys.push_back(text_key("s3.profile", &Settings::s3_profile, "",
                            "profile of the shared AWS files; default: AWS_PROFILE, then 'default'"));
    keys.push_back(word_key("s3.addressing", &Settings::s3_addressing, kStyles, "auto, path or virtual",
                            "where the bucket's name stands: in the path or in the host name"));
    keys.push_back(
        flag_key("s3.anonymous", &Settings::s3_anonymous, "send unsigned requests, for public buckets"));
    keys.push_back(text_key("s3.ca_bundle", &Settings::s3_ca_bundle, "a file",
                            "certificates to trust; default: AWS_CA_BUNDLE, the system's"));
    keys.push_back(number_key("s3.uid", &Settings::s3_uid, 0, UINT32_MAX - 1, 10, "",
                              "owner of all files of an S3 source; default: who mounts"));
    keys.push_back(number_key("s3.gid", &Settings::s3_gid, 0, UINT32_MAX - 1, 10, "",
                              "group of all files of an S3 source; default: who mounts"));
    keys.push_back(number_key("s3.file_mode", &Settings::s3_file_mode, 0, 0777, 8, "0 to 0777",
                              "mode of all files of an S3 source"));
    keys.push_back(number_key("s3.directory_mode", &Settings::s3_directory_mode, 0, 0777, 8, "0 to 0777",
                              "mode of all directories of an S3 source"));
}

void add_log_keys(std::vector<SettingKey>& keys) {
    SettingKey level = text_key("log.level", &Settings::log_level, "debug, info, warning or error",
                                "least weight of the lines that are logged");
    level.parse = [](Settings& settings, std::string_view text) -> Result<void> {
        constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warning", "error"};
        if (std::find(kLevels.begin(), kLevels.end(), text) == kLevels.end()) {
            return fail(EINVAL, "'" + std::string(text) + "' is unknown");
        }
        settings.log_level = std::string(text);
        return {};
    };
    keys.push_back(std::move(level));
    keys.push_back(text_key(
        "log.file", &Settings::log_file, "an absolute path",
        "where to log; default: standard error with -f, else a file of the mount's own (see FILES)"));
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
    std::vector<std::size_t> row(right.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < left.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < right.size(); ++j) {
            const std::size_t substitute = diagonal + (left[i] == right[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substitute});
        }
    }
    return row.back();
}

}  // namespace

const std::vector<SettingKey>& setting_keys() {
    static const std::vector<SettingKey> keys = [] {
        std::vector<SettingKey> table;
        add_mount_keys(table);
        add_tier_keys(table);
        add_origin_keys(table);
        add_log_keys(table);
        return table;
    }();
    return keys;
}

const SettingKey* find_setting(std::string_view name) {
    for (const auto& key : setting_keys()) {
        if (key.name == name) return &key;
    }
    return nullptr;
}

std::string_view nearest_setting(std::string_view name) {
    if (name.size() > 64) return {};
    std::string_view best;
    std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
    for (const auto& key : setting_keys()) {
        std::size_t distance = edit_distance(name, key.name);
        // "limit" or "endpoint" alone: the part after the dot.
        if (key.name.ends_with("." + std::string(name))) distance = 1;
        if (distance < least) {
            least = distance;
            best = key.name;
        }
    }
    return best;
}

std::string unknown_setting(std::string_view name) {
    const std::string_view near = nearest_setting(name);
    std::string message = "unknown key '" + std::string(name.substr(0, 80)) + "'";
    if (!near.empty()) return message + "; did you mean '" + std::string(near) + "'?";
    return message + "; tierfs --help lists the keys";
}

}  // namespace tierfs
