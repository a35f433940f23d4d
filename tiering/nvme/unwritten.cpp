#include "tiering/nvme/unwritten.hpp"

#include <algorithm>
#include <cstring>

#include "backends/extent/codec.hpp"

namespace tierfs {
namespace {

void copy_range(const std::vector<BufferPtr>& pieces, std::uint64_t offset, std::span<std::byte> out) {
    for (const BufferPtr& piece : pieces) {
        const auto bytes = piece->bytes();
        if (offset >= bytes.size()) {
            offset -= bytes.size();
            continue;
        }
        const std::size_t length = std::min<std::size_t>(bytes.size() - offset, out.size());
        if (length == 0) return;
        std::memcpy(out.data(), bytes.data() + offset, length);
        out = out.subspan(length);
        offset = 0;
    }
}

}  // namespace

void Unwritten::queued(const ContentId& id, const std::vector<BufferPtr>& pieces) {
    Place place;
    for (const BufferPtr& piece : pieces) {
        if (!piece) continue;
        place.object_size += piece->bytes().size();
        place.pieces.push_back(piece);
    }
    const MutexLock lock(mutex_);
    places_.try_emplace(id, std::move(place));
    empty_ = false;
}

Unwritten::Place Unwritten::place_of(std::span<const std::byte> stored, StoredAs as) {
    Place place;
    place.object_size = as.codec == Codec::none ? stored.size() : as.object_size;
    place.stored = stored;
    place.codec = as.codec;
    return place;
}

void Unwritten::packed(const ContentId& id, std::span<const std::byte> stored, StoredAs as) {
    const MutexLock lock(mutex_);
    places_.insert_or_assign(id, place_of(stored, as));
    empty_ = false;
}

void Unwritten::lent(const ContentId& id, std::span<const std::byte> stored, StoredAs as) {
    const MutexLock lock(mutex_);
    places_.try_emplace(id, place_of(stored, as));
    empty_ = false;
}

void Unwritten::returned(const ContentId& id, std::span<const std::byte> stored) {
    const MutexLock lock(mutex_);
    const auto found = places_.find(id);
    if (found != places_.end() && found->second.stored.data() == stored.data()) places_.erase(found);
    empty_ = places_.empty();
}

void Unwritten::unqueued(const ContentId& id) {
    const MutexLock lock(mutex_);
    const auto found = places_.find(id);
    if (found != places_.end() && found->second.stored.empty()) places_.erase(found);
    empty_ = places_.empty();
}

void Unwritten::gone(const ContentId& id) {
    const MutexLock lock(mutex_);
    places_.erase(id);
    empty_ = places_.empty();
}

void Unwritten::clear() {
    const MutexLock lock(mutex_);
    places_.clear();
    empty_ = true;
}

const Unwritten::Place* Unwritten::place(const ContentId& id, std::uint64_t object_size) const {
    const auto found = places_.find(id);
    return found != places_.end() && found->second.object_size == object_size ? &found->second : nullptr;
}

std::optional<Codec> Unwritten::find(const ContentId& id, std::uint64_t object_size) const {
    if (empty_) return std::nullopt;
    const MutexLock lock(mutex_);
    const Place* here = place(id, object_size);
    return here == nullptr ? std::nullopt : std::optional(here->codec);
}

bool Unwritten::read(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                     std::span<std::byte> out, Scratch& scratch) const {
    if (empty_) return false;
    MutexLock lock(mutex_);
    const Place* here = place(id, object_size);
    if (here == nullptr) return false;
    if (here->stored.empty()) {
        const auto pieces = here->pieces;
        lock.unlock();
        copy_range(pieces, offset, out);
        return true;
    }
    if (here->codec == Codec::none) {
        std::memcpy(out.data(), here->stored.data() + offset, out.size());
        return true;
    }
    lock.unlock();
    return read_compressed(id, object_size, offset, out, scratch);
}

bool Unwritten::read_compressed(const ContentId& id, std::uint64_t object_size, std::uint64_t offset,
                                std::span<std::byte> out, Scratch& scratch) const {
    // Compressed it is no longer than the object, which may have become another place meanwhile.
    const auto memory = scratch.take(2 * object_size);
    if (!memory) return false;
    const auto object = memory->bytes().first(object_size);
    auto stored = memory->bytes().subspan(object_size, object_size);
    MutexLock lock(mutex_);
    const Place* here = place(id, object_size);
    if (here == nullptr || here->stored.empty() || here->stored.size() > stored.size()) return false;
    const Codec codec = here->codec;
    stored = stored.first(here->stored.size());
    std::memcpy(stored.data(), here->stored.data(), stored.size());
    lock.unlock();
    if (codec == Codec::none) {
        std::memcpy(out.data(), stored.data() + offset, out.size());
        return true;
    }
    if (!decompress(codec, stored, object)) return false;
    std::memcpy(out.data(), object.data() + offset, out.size());
    return true;
}

}  // namespace tierfs
