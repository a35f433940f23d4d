// The environment as the settings take it. The command lines of tierfs and tierfs-stage include it.
#pragma once

#include <map>
#include <string>

namespace tierfs {

/// A copy of this process's environment: name -> value. To be called before threads that change it exist.
std::map<std::string, std::string> process_environment();

}  // namespace tierfs
