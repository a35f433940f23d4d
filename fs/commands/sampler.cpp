#include "fs/commands/sampler.hpp"

#include <nlohmann/json.hpp>

#include "fs/commands/find_mount.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

Result<TimedSnapshot> take_snapshot(const std::string& mountpoint, std::chrono::milliseconds patience) {
    const auto mount = find_tierfs_mount(mountpoint);
    if (!mount) return fail(mount.error());
    const auto address = control_of(*mount);
    if (!address) return fail(address.error());
    auto sample = ask_control(*address, "sample", patience);
    // A daemon of an earlier version has no buckets to tell: then there are no percentiles.
    if (!sample && sample.error().message.find("does not know the command") != std::string::npos)
        sample = ask_control(*address, "status", patience);
    if (!sample) return fail(unanswered(*mount, sample.error()));
    return TimedSnapshot{read_snapshot(*sample), std::chrono::steady_clock::now()};
}

}  // namespace tierfs
