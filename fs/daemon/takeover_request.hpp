// The request to a program that is to take a mount over, and what holds for the life of the mount.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"

namespace tierfs {

/// Settings that the kernel, the index or the supervisor were told once: key -> value. A daemon that takes a
/// mount over must have the same. Of `datasets` only whether rules say `immutable`, and then all patterns.
std::map<std::string, std::string> lasting_settings(const Settings& settings);

/// Plain value; travels as JSON in a memfd, between versions of this program.
struct TakeoverRequest {
    SettingsSources sources;                 ///< as the mount was started; no environment
    std::optional<std::string> config_text;  ///< of the file of `config=`, as it is to hold
    std::string log_file;                    ///< of the supervisor, which the daemon shares
    std::filesystem::path scratch;           ///< of the supervisor; empty: there is none
    long supervisor_pid = 0;
    std::map<std::string, std::string> lasting;

    /// Errors: no memory.
    [[nodiscard]] Result<FileDescriptor> write() const;
    /// EPROTO: another version writes it in another form.
    static Result<TakeoverRequest> read(const FileDescriptor& file);

    /// The settings, with this process's environment `environment`. EINVAL: they are wrong, or one that lasts
    /// has changed; the message says which.
    [[nodiscard]] Result<Settings> settings(std::map<std::string, std::string> environment) const;
};

}  // namespace tierfs
