// The AWS tools' shared files: https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "config/base/result.hpp"

namespace tierfs::s3 {

/// Variables by name: the process's, or a test's.
using Environment = std::map<std::string, std::string>;
Environment process_environment();

/// Value of a variable; empty when it is not set.
std::string variable(const Environment& environment, const std::string& name);

using IniSection = std::map<std::string, std::string>;
using Ini = std::map<std::string, IniSection>;

/// Sections with their keys in lower case. Indented lines below "key =" are "key.subkey". Lines that are
/// neither a section nor a pair are skipped, as the AWS tools do: one bad line must not take all profiles
/// away.
Ini parse_ini(std::string_view text);

/// A whole file of at most 1 MiB.
Result<std::string> read_small_file(const std::string& path);

/// Both files, read once. A plain value.
struct ProfileFiles {
    std::string config_path, credentials_path;
    Ini config, credentials;
    std::string trouble;  ///< files that exist and cannot be read, for error texts

    static ProfileFiles load(const Environment& environment);

    /// A profile with the keys of both files, the credentials file's winning; empty when neither knows it.
    [[nodiscard]] IniSection profile(const std::string& name) const;
};

/// s3.profile, AWS_PROFILE, AWS_DEFAULT_PROFILE, "default".
std::string profile_name(const std::string& setting, const Environment& environment);

}  // namespace tierfs::s3
