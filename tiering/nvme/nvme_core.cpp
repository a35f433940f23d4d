#include "tiering/nvme/nvme_core.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <string>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"

namespace tierfs {

NvmeCore::NvmeCore(const NvmeDeviceOptions& given, std::uint64_t given_id, NvmeHooks given_hooks,
                   NvmeShared& given_shared)
    : options(given),
      device_id(given_id),
      hooks(std::move(given_hooks)),
      shared(given_shared),
      index(given_shared.index),
      locations(given_shared.locations),
      limit(given.limit),
      extent_size(align_down(std::clamp<std::uint64_t>(given.limit / 64, 1 << 20, 64 << 20))),
      max_packed(std::min({given.pack_max_object, std::uint64_t{kMaxPackedObject},
                           extent_size - std::uint64_t{kDiskAlignment}})),
      catalog(given.limit, given.directory / "extents", given.directory / "files"),
      health([this] { return now(); }) {}

std::optional<NvmeCore::FreeSpace> NvmeCore::free_space() const {
    struct statvfs status {};
    if (TIERFS_FAULT_CALL("nvme.space", ::statvfs(options.directory.c_str(), &status)) != 0)
        return std::nullopt;
    const std::uint64_t size = std::uint64_t{status.f_blocks} * status.f_frsize;
    if (hooks.available) return FreeSpace{hooks.available(options.directory), size};
    return FreeSpace{std::uint64_t{status.f_bavail} * status.f_frsize, size};
}

std::uint64_t NvmeCore::reserve(const FreeSpace& space) const {
    constexpr std::uint64_t kReserve = 64 << 20;
    return options.keep_free != 0 ? options.keep_free : std::min(space.size / 50, kReserve);
}

bool NvmeCore::has_space(std::uint64_t bytes) const {
    const auto space = free_space();
    return !space || space->available >= bytes + reserve(*space);
}

std::optional<Location> NvmeCore::find_indexed(const ContentId& id) {
    const auto found = index.find_location(id);
    if (!found || !*found) return std::nullopt;
    const auto location = Location::decode(**found);
    if (location && location->device != device_id && location->device != 0) return std::nullopt;
    return location;
}

bool NvmeCore::is_elsewhere(const ContentId& id) {
    const auto found = index.find_location(id);
    if (!found || !*found) return false;
    const auto location = Location::decode(**found);
    return location && location->device != device_id && location->device != 0 &&
           shared.is_present(location->device);
}

bool NvmeCore::commit(std::unique_ptr<IndexBatch> batch) {
    const auto done = index.commit(std::move(batch));
    if (!done) log::warning("NVMe tier: " + done.error().message);
    return done.has_value();
}

bool NvmeCore::commit_when_large(std::unique_ptr<IndexBatch>& batch) {
    if (batch->bytes() < kLargestBatch) return true;
    return commit(std::exchange(batch, index.batch()));
}

bool NvmeCore::store_location(const ContentId& id, const Location& location) {
    auto batch = index.batch();
    batch->put_location(id, location.encode());
    if (!commit(std::move(batch))) return false;
    locations.put(id, location);
    return true;
}

void NvmeCore::erase_location(const ContentId& id) {
    auto batch = index.batch();
    batch->erase_location(id);
    (void)commit(std::move(batch));
    locations.forget(id);  // after the index, where a reader may just have found it
}

void NvmeCore::write_failed(const Error& error) {
    const bool full = error.code == ENOSPC || error.code == EDQUOT;
    if (health.write_failed(error.message, full)) log_state(error.message);
}

void NvmeCore::write_succeeded() {
    if (health.write_succeeded()) log_state("a write succeeded");
}

void NvmeCore::read_failed(int code) {
    const auto cause = system_error(code, options.directory.native()).message;
    log::warning("NVMe tier: a read failed, the origin is asked instead: " + cause);
    if (health.read_failed(cause)) log_state(cause);
}

void NvmeCore::degrade(const std::string& reason) {
    if (health.degrade(reason)) log_state(reason);
}

void NvmeCore::give_up(const std::string& reason) {
    if (health.give_up(reason)) log_state(reason);
}

void NvmeCore::recovered(const std::string& reason) {
    if (health.recovered()) log_state(reason);
}

void NvmeCore::log_state(const std::string& cause) const {
    const auto line = "NVMe tier " + options.directory.native() + " is " + health.state_name() + ": " + cause;
    // Not as a warning: those of many failed reads would leave it out.
    health.state() == Health::State::normal ? log::info(line) : log::error(line);
}

}  // namespace tierfs
