// `tierfs verify` of a pack. Internal to fs/commands.
#pragma once

#include <string>
#include <vector>

namespace tierfs {

/// Whether what `tierfs verify` was given is a pack, or a URL, where nothing else can be.
bool is_pack(const std::string& path);

/// `options`: lists of settings, for reaching it. The exit status.
int verify_pack_command(const std::string& path, const std::vector<std::string>& options, bool json);

}  // namespace tierfs
