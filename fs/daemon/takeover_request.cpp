#include "fs/daemon/takeover_request.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/settings_reread.hpp"
#include "fs/control/control.hpp"
#include "fs/daemon/launch.hpp"
#include "tiering/index/format.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;

constexpr int kForm = 1;
constexpr std::size_t kMostBytes = 16 << 20;
constexpr const char* kImmutableRules = "datasets (immutable)";

constexpr std::array<std::string_view, 16> kLasting = {
    "ro",           "allow_other",       "allow_suid", "profile",     "supervisor", "restart.limit",
    "metadata.ttl", "nvme.path",         "index.path", "s3.endpoint", "s3.uid",     "s3.gid",
    "s3.file_mode", "s3.directory_mode", "log.file",   "log.format"};

std::string immutable_rules(const Settings& settings) {
    const auto& rules = settings.datasets;
    if (std::none_of(rules.begin(), rules.end(), [](const DatasetRule& rule) { return rule.immutable; }))
        return "none";
    std::string text;
    for (const auto& rule : rules) {
        text += (text.empty() ? "" : "; ") + rule.match;
        if (!rule.conditions.empty()) text += " (" + rule.conditions_text() + ")";
        if (rule.immutable) text += " immutable";
    }
    return text;
}

std::string shown(const std::string& value) {
    return value.empty() ? "nothing" : value;
}

Error changed(const std::string& key, const std::string& found, const std::string& lasts) {
    return {EINVAL, key + ": found " + shown(found) + "; allowed: " + shown(lasts) +
                        ", which holds for the life of the mount: set it back, or unmount and mount again"};
}

Result<std::string> read_all(int file) {
    struct stat found {};
    if (TIERFS_FAULT_CALL("takeover.stat", ::fstat(file, &found)) != 0)
        return fail(system_error(errno, "what the supervisor asks for"));
    if (found.st_size < 0 || static_cast<std::size_t>(found.st_size) > kMostBytes)
        return fail(EPROTO, "what the supervisor asks for is too long");
    std::string text(static_cast<std::size_t>(found.st_size), '\0');
    if (TIERFS_FAULT_CALL("takeover.read", ::pread(file, text.data(), text.size(), 0)) !=
        static_cast<ssize_t>(text.size()))
        return fail(system_error(errno, "what the supervisor asks for"));
    return text;
}

Json wire(const std::map<std::string, std::string>& texts) {
    auto object = Json::object();
    for (const auto& [key, value] : texts) object[key] = path_to_wire(value);
    return object;
}

/// Throws what is no text.
std::string text_of(const Json& value) {
    return path_from_wire(value.get<std::string>()).value_or("");
}

TakeoverRequest parse(const Json& json) {
    TakeoverRequest request;
    request.sources.source = text_of(json.at("source"));
    request.sources.mountpoint = text_of(json.at("mountpoint"));
    for (const auto& option : json.at("options")) request.sources.options.push_back(text_of(option));
    if (json.contains("config_text")) request.config_text = text_of(json.at("config_text"));
    request.sources.foreground = json.at("foreground").get<bool>();
    request.log_file = text_of(json.at("log_file"));
    request.scratch = text_of(json.at("scratch"));
    request.supervisor_pid = json.at("supervisor_pid").get<long>();
    for (const auto& [key, value] : json.at("lasting").items()) request.lasting[key] = text_of(value);
    return request;
}

}  // namespace

std::map<std::string, std::string> lasting_settings(const Settings& settings) {
    std::map<std::string, std::string> lasting;
    for (const auto key : kLasting) lasting[std::string(key)] = setting_text(settings, key);
    lasting[kImmutableRules] = immutable_rules(settings);
    lasting["the form of the index"] = std::to_string(index_format::kLayout);
    return lasting;
}

Result<FileDescriptor> TakeoverRequest::write() const {
    Json json{{"form", kForm},
              {"source", path_to_wire(sources.source)},
              {"mountpoint", path_to_wire(sources.mountpoint)},
              {"options", Json::array()},
              {"foreground", sources.foreground},
              {"log_file", path_to_wire(log_file)},
              {"scratch", path_to_wire(scratch.native())},
              {"supervisor_pid", supervisor_pid},
              {"lasting", wire(lasting)}};
    for (const auto& option : sources.options) json["options"].push_back(path_to_wire(option));
    if (config_text) json["config_text"] = path_to_wire(*config_text);
    const auto text = json.dump();
    FileDescriptor file(TIERFS_FAULT_CALL("takeover.make", ::memfd_create("tierfs-request", MFD_CLOEXEC)));
    if (!file || TIERFS_FAULT_CALL("takeover.write", ::pwrite(file.get(), text.data(), text.size(), 0)) !=
                     static_cast<ssize_t>(text.size()))
        return fail(system_error(errno, "memory for what the new program is told"));
    return file;
}

Result<TakeoverRequest> TakeoverRequest::read(const FileDescriptor& file) {
    const auto text = read_all(file.get());
    if (!text) return fail(text.error());
    try {
        const auto json = Json::parse(*text);
        if (json.at("form").get<int>() == kForm) return parse(json);
    } catch (const Json::exception&) {  // of another version
    }
    return fail(EPROTO,
                "this version does not understand the supervisor of the mount: unmount and mount again");
}

Result<Settings> TakeoverRequest::settings(std::map<std::string, std::string> environment) const {
    SettingsSources all = sources;
    all.environment = std::move(environment);
    auto settings = load_settings(all, config_text);
    if (!settings) return settings;
    make_paths_absolute(*settings);
    if (settings->log_file.empty()) settings->log_file = log_file;
    const auto found = lasting_settings(*settings);
    for (const auto& [key, value] : found) {
        const auto lasts = lasting.find(key);
        if (lasts != lasting.end() && lasts->second != value) return fail(changed(key, value, lasts->second));
    }
    return settings;
}

}  // namespace tierfs
