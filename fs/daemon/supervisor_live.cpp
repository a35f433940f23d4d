// Takeover of writable mounts: the part that the supervisor has in it.
#include <chrono>
#include <cstdlib>
#include <utility>

#include "backends/source_url.hpp"
#include "config/base/log.hpp"
#include "fs/daemon/descriptor_keeper.hpp"
#include "fs/daemon/supervisor_process.hpp"

namespace tierfs {

namespace {

constexpr auto kKeeperPatience = std::chrono::seconds(5);  // to close what it has

/// Not offered yet: what happens at a third and fourth kill in a row, to removed directories that are open and to
/// mappings that outlive their files is still to be seen to.
bool takes_writable_mounts_over() {
#if TIERFS_TEST_POINTS
    return std::getenv("TIERFS_TEST_TAKEOVER") != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
#else
    return false;
#endif
}

}  // namespace

// Of what is open elsewhere than on this machine nothing outlives the daemon. For tests alone as yet.
void Supervisor::make_live_record() {
    if (!takes_writable_mounts_over() || settings_.read_only || !settings_.supervisor ||
        !directory_of_source(settings_.source))
        return;
    auto record = LiveRecord::make();
    if (record) {
        live_ = std::move(*record);
    } else {
        log::warning(record.error().message + ": the mount ends with its daemon");
    }
}

void Supervisor::keep_keeper(Message message) {
    const auto generation = std::strtoul(message.text.c_str(), nullptr, 10);
    keepers_.at(generation & 1U) = std::move(message.descriptor);
}

/// Locks of the cache's folders, which the next mount wants, go with them.
void Supervisor::end_keepers() {
    for (auto& line : keepers_) end_descriptor_keeper(std::move(line), kKeeperPatience);
}

}  // namespace tierfs
