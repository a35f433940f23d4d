#include "backends/pack/reading.hpp"

#include "config/base/delivery.hpp"

namespace tierfs::pack {

void Reads::start(std::string path, std::string version, std::uint64_t offset, std::span<std::byte> to) {
    {
        const MutexLock lock(mutex_);
        ++under_way_;
    }
    OriginRead request;
    request.path = std::move(path);
    request.version = std::move(version);
    request.offset = offset;
    request.destination = to;
    request.priority = priority_;
    request.done = [this](Result<void> result) { ended(std::move(result)); };
    origin_.read(std::move(request));
}

void Reads::ended(Result<void> result) {
    // Told with the mutex held: who waits may destroy this as soon as it is free.
    const MutexLock lock(mutex_);
    --under_way_;
    if (!result && !error_) error_ = std::move(result.error());
    changed_.notify_all();
}

Result<void> Reads::wait() {
    MutexLock lock(mutex_);
    while (under_way_ > 0) lock.wait(changed_);
    if (!error_) return {};
    auto error = std::move(*error_);
    error_.reset();
    return fail(std::move(error));
}

Result<void> read_now(Origin& origin, const std::string& path, std::uint64_t offset,
                      std::span<std::byte> to) {
    if (auto may = may_wait_for("a read of a pack"); !may) return may;
    Reads reads(origin, Priority::demand);
    reads.start(path, {}, offset, to);
    return reads.wait();
}

}  // namespace tierfs::pack
