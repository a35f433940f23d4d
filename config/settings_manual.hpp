// The reference of the file of settings.
#pragma once

#include <string>

namespace tierfs {

/// The keys as a YAML file has them, section by section, in man(7) markup: for tierfs.yaml.5.
std::string settings_yaml_man();

}  // namespace tierfs
