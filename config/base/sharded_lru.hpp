// A cache with a byte limit, divided into shards by key.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

#include "config/base/mutex.hpp"

namespace tierfs {

/// Least recently used goes first, per shard. Thread-safe; no call blocks on anything but a shard's lock.
///
/// What it mirrors (the index) is changed first, the cache after. A reader that fills the cache with what it
/// read takes `generation` before it reads and `add`s with it after: if a writer came in between, the value
/// may be old and is not kept.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class ShardedLru {
  public:
    /// `limit` bytes over all shards, of what callers say that entries cost.
    explicit ShardedLru(std::uint64_t limit) : shard_limit_(limit / kShards) {}

    std::optional<Value> get(const Key& key) {
        Shard& shard = shard_of(key);
        MutexLock lock(shard.mutex);
        const auto found = shard.places.find(key);
        if (found == shard.places.end()) return std::nullopt;
        shard.entries.splice(shard.entries.begin(), shard.entries, found->second);
        return found->second->value;
    }

    std::uint64_t generation(const Key& key) {
        Shard& shard = shard_of(key);
        MutexLock lock(shard.mutex);
        return shard.generation;
    }

    /// After a change of what is mirrored.
    void put(const Key& key, Value value, std::size_t cost) {
        Shard& shard = shard_of(key);
        MutexLock lock(shard.mutex);
        ++shard.generation;
        insert(shard, key, std::move(value), cost);
    }

    /// After a read of what is mirrored, with the generation from before the read.
    void add(const Key& key, Value value, std::size_t cost, std::uint64_t generation) {
        Shard& shard = shard_of(key);
        MutexLock lock(shard.mutex);
        if (shard.generation == generation) insert(shard, key, std::move(value), cost);
    }

    void erase(const Key& key) {
        Shard& shard = shard_of(key);
        MutexLock lock(shard.mutex);
        ++shard.generation;
        remove(shard, key);
    }

    [[nodiscard]] std::uint64_t size() {
        std::uint64_t total = 0;
        for (Shard& shard : shards_) {
            MutexLock lock(shard.mutex);
            total += shard.entries.size();
        }
        return total;
    }

    [[nodiscard]] std::uint64_t bytes() {
        std::uint64_t total = 0;
        for (Shard& shard : shards_) {
            MutexLock lock(shard.mutex);
            total += shard.bytes;
        }
        return total;
    }

  private:
    static constexpr std::size_t kShards = 16;
    /// List node, hash node and bucket of an entry, beside what the caller counts.
    static constexpr std::size_t kOverhead = 96 + 2 * sizeof(Key);

    struct Entry {
        Key key;
        Value value;
        std::size_t cost = 0;
    };
    struct Shard {
        Mutex mutex;
        std::list<Entry> entries TIERFS_GUARDED_BY(mutex);
        std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> places TIERFS_GUARDED_BY(mutex);
        std::uint64_t bytes TIERFS_GUARDED_BY(mutex) = 0;
        std::uint64_t generation TIERFS_GUARDED_BY(mutex) = 0;
    };

    Shard& shard_of(const Key& key) {
        return shards_[(static_cast<std::uint64_t>(Hash()(key)) * 0x9E3779B97F4A7C15U) >> 60U];
    }

    void remove(Shard& shard, const Key& key) TIERFS_REQUIRES(shard.mutex) {
        const auto found = shard.places.find(key);
        if (found == shard.places.end()) return;
        shard.bytes -= found->second->cost;
        shard.entries.erase(found->second);
        shard.places.erase(found);
    }

    void insert(Shard& shard, const Key& key, Value value, std::size_t cost) TIERFS_REQUIRES(shard.mutex) {
        remove(shard, key);
        cost += kOverhead;
        if (cost > shard_limit_) return;
        shard.entries.push_front(Entry{key, std::move(value), cost});
        shard.places.emplace(key, shard.entries.begin());
        shard.bytes += cost;
        while (shard.bytes > shard_limit_) {
            const Entry& oldest = shard.entries.back();
            shard.bytes -= oldest.cost;
            shard.places.erase(oldest.key);
            shard.entries.pop_back();
        }
    }

    const std::uint64_t shard_limit_;
    std::array<Shard, kShards> shards_;
};

}  // namespace tierfs
