// A program that takes a mount over from a daemon of another version.
#pragma once

#include <map>
#include <string>

namespace tierfs {

/// What `tierfs --take-over CHANNEL` does, which only a supervisor calls: hears over that descriptor what is
/// to be served, looks whether it can (settings, source, the form of what it is handed), says so, waits until
/// the daemon before it has ended, and serves. Returns the exit status.
int run_standby(int channel, std::map<std::string, std::string> environment);

}  // namespace tierfs
