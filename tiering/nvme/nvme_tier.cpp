// Which device an object is on, or is to be on.
#include "tiering/nvme/nvme_tier.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <optional>
#include <utility>

#include "config/base/log.hpp"
#include "config/base/mutex.hpp"
#include "tiering/nvme/device_keeper.hpp"
#include "tiering/nvme/device_limits.hpp"
#include "tiering/nvme/recent_places.hpp"

namespace tierfs {
namespace {

std::uint64_t mix(std::uint64_t value) {  // the finalizer of splitmix64 (Steele et al., OOPSLA 2014)
    value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31U);
}

/// Weighted rendezvous hashing (Schindelhauer and Schomaker, SPAA 2005): the highest score gets the object,
/// each device in proportion to its weight, and when one goes only its own objects move.
double score(const ContentId& id, std::uint64_t device, std::uint64_t weight) {
    const auto unit = (static_cast<double>(mix(id.low ^ mix(device)) >> 11U) + 0.5) / 9007199254740992.0;
    return -static_cast<double>(weight) / std::log(unit);
}

/// The best of some devices.
struct Choice {
    std::size_t slot = 0;
    DevicePtr device;
    double points = -1;

    void offer(std::size_t at, const DevicePtr& candidate, double worth) {
        if (device && worth <= points) return;
        slot = at;
        device = candidate;
        points = worth;
    }
};

class NvmeTierImpl final : public NvmeTierForTests {
  public:
    NvmeTierImpl(const NvmeOptions& options, Index& index, NvmeHooks hooks)
        : options_(options), hooks_(std::move(hooks)), shared_(index, options.devices.size()) {}

    Result<void> start();

    bool read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
              std::span<std::byte> out) override;
    bool contains(const ContentId& id, std::uint64_t object_size, std::uint64_t block) override;
    std::optional<WholeFile> whole_file(const ContentId& id, std::uint64_t object_size) override;
    std::shared_ptr<const void> hold(const ContentId& id, std::uint64_t bytes) override;
    void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset, BufferPtr data,
               DatasetNumber dataset, Codec codec) override {
        std::vector<BufferPtr> one;
        one.push_back(std::move(data));
        admit(id, object_size, offset, std::move(one), dataset, codec);
    }
    void admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
               std::vector<BufferPtr> data, DatasetNumber dataset, Codec codec) override;
    void admit_packed(PackedObjects objects, DatasetNumber dataset) override;
    bool is_compressed(const ContentId& id, std::uint64_t object_size) override;
    void use_memory(std::function<BufferPtr(std::size_t)> source) override {
        shared_.scratch.use(std::move(source));
    }
    void retain(DatasetNumber dataset, Retention retention) override {
        for (const auto& slot : slots_) slot->retain(dataset, retention);
    }
    void renew(DatasetNumber dataset) override {
        for_each([&](NvmeDevice& device) { device.renew(dataset); });
    }
    void claim(const ContentId& id, DatasetNumber dataset) override;
    bool take_over(const ContentId& id, std::uint64_t object_size, DatasetNumber dataset,
                   DatasetNumber from) override;
    void disown(DatasetNumber dataset) override {
        for_each([&](NvmeDevice& device) { device.disown(dataset); });
    }
    std::uint64_t used_by(DatasetNumber dataset) const override {
        std::uint64_t sum = 0;
        for_each([&](const NvmeDevice& device) { sum += device.used_by(dataset); });
        return sum;
    }
    bool takes(std::uint64_t object_size, std::uint64_t length, DatasetNumber dataset,
               std::uint64_t coming) const override;
    void flush() override {
        for_each([](NvmeDevice& device) { device.flush(); });
    }
    void erase(const ContentId& id) override {
        for_each([&](NvmeDevice& device) { device.erase(id); });
    }
    TierStats stats() const override;
    std::uint64_t checksum_errors() const override;
    void relieve() override {
        for_each([](NvmeDevice& device) { device.relieve(); });
    }
    void close() override {
        for (const auto& slot : slots_) slot->stop(true);
    }
    void abandon() override {
        for (const auto& slot : slots_) slot->stop(false);
    }

  private:
    struct Opened {
        std::size_t slot = 0;
        NvmeFolder folder;
        std::uint64_t capacity = 0;
    };
    Result<std::vector<Opened>> open_folders();
    std::uint64_t late_limit(std::size_t number, std::uint64_t capacity);
    /// One device that cannot be opened is left out; the last one, or one that another process uses, is not.
    Result<void> leave_out(std::size_t slot, const Error& error);
    bool locate(const ContentId& id, Location& location);
    bool read_unwritten(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                        std::span<std::byte> out) const;
    std::optional<Codec> find_unwritten(const ContentId& id, std::uint64_t object_size) const;
    /// The device that a record means; null: it is not there.
    DevicePtr device_of(const ContentId& id, const Location& location) const;
    DevicePtr device_for(const ContentId& id, std::uint64_t object_size, std::uint64_t length,
                         DatasetNumber dataset);
    DevicePtr known_device(const ContentId& id, std::uint64_t object_size, std::uint64_t length,
                           DatasetNumber dataset);

    template <typename Do>
    void for_each(const Do& each) const {
        for (const auto& slot : slots_) {
            if (const auto device = slot->get()) each(*device);
        }
    }

    const NvmeOptions options_;
    const NvmeHooks hooks_;
    NvmeShared shared_;
    Mutex dividing_;  ///< devices that come late come one after the other
    RecentPlaces recent_;
    std::atomic<std::uint64_t> misses_{0};  ///< of what no device was asked for
    std::vector<std::unique_ptr<DeviceKeeper>>
        slots_;  ///< constant after start; last: their threads end first
};

Result<void> NvmeTierImpl::leave_out(std::size_t slot, const Error& error) {
    if (slots_.size() == 1 || error.code == EBUSY) return fail(error);
    slots_[slot]->leave_out(error);
    return {};
}

Result<std::vector<NvmeTierImpl::Opened>> NvmeTierImpl::open_folders() {
    std::vector<Opened> opened;
    std::optional<Error> first;
    for (std::size_t at = 0; at < slots_.size(); ++at) {
        auto folder = slots_[at]->open_folder();
        // With one device and a given limit nothing is divided, and nothing need be counted.
        auto capacity = !folder                                     ? fail(folder.error())
                        : slots_.size() == 1 && options_.limit != 0 ? Result<std::uint64_t>(options_.limit)
                                                                    : capacity_of(folder->path);
        if (!capacity) {
            if (auto left = leave_out(at, capacity.error()); !left) return fail(left.error());
            if (!first) first = capacity.error();
            continue;
        }
        opened.push_back({at, std::move(*folder), *capacity});
    }
    if (opened.empty()) return fail(*first);
    return opened;
}

std::uint64_t NvmeTierImpl::late_limit(std::size_t number, std::uint64_t capacity) {
    if (options_.limit == 0) return std::max(capacity / 5 * 4, kLeastDeviceLimit);
    const MutexLock lock(dividing_);
    std::vector<DevicePtr> devices;
    std::vector<std::uint64_t> capacities{capacity};
    for (std::size_t at = 0; at < slots_.size(); ++at) {
        auto device = at == number ? nullptr : slots_[at]->get();
        if (!device) continue;
        capacities.push_back(device->capacity().value_or(device->limit()));
        devices.push_back(std::move(device));
    }
    const auto parts = divide_limit(options_.limit, capacities);
    if (!parts) return kLeastDeviceLimit;
    for (std::size_t at = 0; at < devices.size(); ++at) devices[at]->set_limit((*parts)[at + 1]);
    return (*parts)[0];
}

Result<void> NvmeTierImpl::start() {
    for (const NvmePlace& place : options_.devices) {
        const std::size_t number = slots_.size();
        slots_.push_back(std::make_unique<DeviceKeeper>(
            place,
            DeviceKeeper::Context{options_, hooks_, shared_, number, [this, number](std::uint64_t capacity) {
                                      return late_limit(number, capacity);
                                  }}));
    }
    if (slots_.empty()) return fail(EINVAL, "nvme.path is empty");
    auto opened = open_folders();
    if (!opened) return fail(opened.error());
    std::vector<std::uint64_t> capacities;
    for (const Opened& each : *opened) capacities.push_back(each.capacity);
    const auto limits = divide_limit(options_.limit, capacities);
    if (!limits) return fail(limits.error());
    std::optional<Error> first;
    for (std::size_t at = 0; at < opened->size(); ++at) {
        const std::size_t slot = (*opened)[at].slot;
        const auto done = slots_[slot]->open_first(std::move((*opened)[at].folder), (*limits)[at]);
        if (done) continue;
        if (auto left = leave_out(slot, done.error()); !left) return left;
        if (!first) first = done.error();
    }
    const bool any = std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) { return slot->get(); });
    if (!any) return fail(first ? *first : Error{EIO, "no device of nvme.path can be used"});
    for (const auto& slot : slots_) slot->watch();
    return {};
}

bool NvmeTierImpl::locate(const ContentId& id, Location& location) {
    if (shared_.locations.find(id, location)) return true;
    const auto found = shared_.index.find_location(id);
    if (!found || !*found) return false;
    const auto decoded = Location::decode(**found);
    if (!decoded) return false;
    location = *decoded;
    shared_.locations.put(id, location);
    return true;
}

DevicePtr NvmeTierImpl::device_of(const ContentId& id, const Location& location) const {
    for (const auto& slot : slots_) {
        auto device = slot->get();
        if (!device) continue;
        if (device->id() == location.device) return device;
        if (location.device == 0 && (slots_.size() == 1 || device->holds(id, location))) return device;
    }
    return nullptr;
}

bool NvmeTierImpl::read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                        std::span<std::byte> out) {
    Location location;
    const bool sane = !out.empty() && offset % kSidecarUnit == 0 && offset <= object_size &&
                      out.size() <= object_size - offset;
    // In this order: what is written has its record before it is forgotten here.
    if (sane && read_unwritten(id, object_size, offset, out)) return true;
    if (sane && locate(id, location) && location.object_size == object_size) {
        if (const auto device = device_of(id, location)) return device->read(id, location, offset, out);
    }
    ++misses_;
    return false;
}

bool NvmeTierImpl::read_unwritten(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                                  std::span<std::byte> out) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
        const auto device = slot->get();
        return device && device->read_unwritten(id, object_size, offset, out);
    });
}

std::optional<Codec> NvmeTierImpl::find_unwritten(const ContentId& id, std::uint64_t object_size) const {
    for (const auto& slot : slots_) {
        const auto device = slot->get();
        const auto found = device ? device->find_unwritten(id, object_size) : std::nullopt;
        if (found) return found;
    }
    return std::nullopt;
}

bool NvmeTierImpl::contains(const ContentId& id, std::uint64_t object_size, std::uint64_t block) {
    Location location;
    if (block >= block_count(object_size)) return false;
    if (find_unwritten(id, object_size)) return true;
    if (!locate(id, location) || location.object_size != object_size) return false;
    const auto device = device_of(id, location);
    return device && device->contains(id, location, block);
}

bool NvmeTierImpl::is_compressed(const ContentId& id, std::uint64_t object_size) {
    Location location;
    if (const auto codec = find_unwritten(id, object_size)) return *codec != Codec::none;
    return locate(id, location) && location.object_size == object_size && location.codec != Codec::none;
}

DevicePtr NvmeTierImpl::known_device(const ContentId& id, std::uint64_t object_size, std::uint64_t length,
                                     DatasetNumber dataset) {
    if (const auto place = recent_.find(id)) {
        auto device = slots_[*place]->get();
        if (device && device->takes(object_size, length, dataset)) return device;
    }
    Location location;
    if (!locate(id, location)) return nullptr;
    auto device = device_of(id, location);
    return device && device->holds(id, location) && device->takes(object_size, length, dataset) ? device
                                                                                                : nullptr;
}

DevicePtr NvmeTierImpl::device_for(const ContentId& id, std::uint64_t object_size, std::uint64_t length,
                                   DatasetNumber dataset) {
    if (slots_.size() == 1) return slots_[0]->get();
    std::uint64_t max_packed = 0;
    for_each([&](const NvmeDevice& device) { max_packed = std::max(max_packed, device.max_packed()); });
    const bool large = object_size > max_packed;
    if (large) {  // all pieces go where the first one went
        if (auto known = known_device(id, object_size, length, dataset)) return known;
    }
    Choice roomiest, spread;
    for (std::size_t at = 0; at < slots_.size(); ++at) {
        auto device = slots_[at]->get();
        if (!device || !device->takes(object_size, length, dataset)) continue;
        const std::uint64_t free = large ? device->free_bytes() : 0;
        if (large && free >= object_size) roomiest.offer(at, device, static_cast<double>(free));
        spread.offer(at, device, score(id, device->id(), device->limit()));
    }
    Choice& chosen = roomiest.device ? roomiest : spread;
    if (large && chosen.device) recent_.put(id, chosen.slot);
    return chosen.device;
}

void NvmeTierImpl::admit(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                         std::vector<BufferPtr> data, DatasetNumber dataset, Codec codec) {
    std::uint64_t length = 0;
    for (const auto& buffer : data) length += buffer ? buffer->bytes().size() : 0;
    if (const auto device = device_for(id, object_size, length, dataset))
        device->admit(id, object_size, offset, std::move(data), dataset, codec);
}

void NvmeTierImpl::admit_packed(PackedObjects objects, DatasetNumber dataset) {
    if (objects.entries.empty()) return;
    // They stay together: which device, the first one says.
    const ChunkEntry& first = objects.entries.front();
    if (const auto device = device_for(first.id, first.object_size, first.object_size, dataset))
        device->admit_packed(std::move(objects), dataset);
}

bool NvmeTierImpl::takes(std::uint64_t object_size, std::uint64_t length, DatasetNumber dataset,
                         std::uint64_t coming) const {
    return std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
        const auto device = slot->get();
        return device && device->takes(object_size, length, dataset, coming);
    });
}

std::optional<WholeFile> NvmeTierImpl::whole_file(const ContentId& id, std::uint64_t object_size) {
    Location location;
    if (!locate(id, location) || location.object_size != object_size) return std::nullopt;
    const auto device = device_of(id, location);
    return device ? device->whole_file(id, location) : std::nullopt;
}

std::shared_ptr<const void> NvmeTierImpl::hold(const ContentId& id, std::uint64_t bytes) {
    DevicePtr any;
    for (const auto& slot : slots_) {
        const auto device = slot->get();
        if (!device) continue;
        if (auto pin = device->pin_file(id)) return pin;
        if (!any) any = device;
    }
    return any ? any->owe(bytes) : nullptr;
}

void NvmeTierImpl::claim(const ContentId& id, DatasetNumber dataset) {
    bool unclaimed = false;
    for_each([&](const NvmeDevice& device) { unclaimed = unclaimed || device.has_unclaimed(); });
    Location location;
    if (!unclaimed || !locate(id, location)) return;
    if (const auto device = device_of(id, location)) device->claim(id, location, dataset);
}

bool NvmeTierImpl::take_over(const ContentId& id, std::uint64_t object_size, DatasetNumber dataset,
                             DatasetNumber from) {
    Location location;
    if (!locate(id, location) || location.object_size != object_size) return false;
    const auto device = device_of(id, location);
    return device && device->take_over(id, location, dataset, from);
}

TierStats NvmeTierImpl::stats() const {
    TierStats sum;
    std::size_t normal = 0, full = 0, down = 0;
    for (const auto& slot : slots_) {
        add_counts(sum, slot->stats());
        DeviceStats one = slot->device_stats();
        sum.limit_bytes += one.limit_bytes;
        sum.used_bytes += one.used_bytes;
        normal += one.state == "normal" ? 1 : 0;
        full += one.state == "full" ? 1 : 0;
        down += one.state == "down" ? 1 : 0;
        sum.devices.push_back(std::move(one));
    }
    sum.misses += misses_;
    sum.state = "unstable";
    if (normal + full == slots_.size()) sum.state = normal != 0 ? "normal" : "full";
    if (down == slots_.size()) sum.state = "down";
    return sum;
}

std::uint64_t NvmeTierImpl::checksum_errors() const {
    std::uint64_t sum = 0;
    for (const auto& slot : slots_) sum += slot->checksum_errors();
    return sum;
}

}  // namespace

NvmePlace NvmePlace::at(const std::filesystem::path& folder) {
    return {folder.native(), [folder]() -> Result<NvmeFolder> { return NvmeFolder{folder, {}}; }};
}

Result<std::unique_ptr<NvmeTierForTests>> open_nvme_tier(const NvmeOptions& options, Index& index,
                                                         NvmeHooks hooks) {
    auto tier = std::make_unique<NvmeTierImpl>(options, index, std::move(hooks));
    if (auto started = tier->start(); !started) return fail(started.error());
    return tier;
}

Result<std::unique_ptr<NvmeTier>> NvmeTier::open(const NvmeOptions& options, Index& index) {
    NvmeHooks hooks;
    hooks.probe_interval = std::chrono::seconds(1);
    auto tier = open_nvme_tier(options, index, hooks);
    if (!tier) return fail(tier.error());
    return std::unique_ptr<NvmeTier>(std::move(*tier));
}

}  // namespace tierfs
