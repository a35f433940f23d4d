// One read by an application that could not be answered from RAM at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "tiering/ram/arena.hpp"
#include "tiering/values/read_reply.hpp"
#include "tiering/values/unit.hpp"

namespace tierfs {

/// Collects the pieces of a read until all are there.
///
/// The thread that plans the read fills `pieces` before it sets `pending`; afterwards each piece is written
/// by the one thread that brings it, and the thread that takes `pending` to zero owns the operation.
struct ReadOperation {
    struct Piece {
        std::uint64_t begin = 0;  ///< in the object
        std::uint32_t length = 0;
        ArenaBufferPtr buffer;  ///< null until the bytes are there
    };

    std::shared_ptr<const ObjectRef> object;
    UnitLayout layout;
    std::uint64_t begin = 0, end = 0;  ///< in the object, cut to its size, not empty
    bool sequential = false;           ///< what has to be fetched brings [wide_begin, wide_end) along
    std::uint64_t wide_begin = 0, wide_end = 0;
    ReadCallback callback;

    /// When it came, and when it had its memory; of one that waited for a fetch.
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now(), admitted = since;
    std::atomic<bool> fetched{false};

    std::vector<Piece> pieces;
    std::atomic<std::uint32_t> pending{0};

    /// Keeps the first error.
    void set_error(const Error& error) TIERFS_EXCLUDES(mutex) {
        MutexLock lock(mutex);
        if (!failure) failure = error;
    }
    [[nodiscard]] std::optional<Error> error() TIERFS_EXCLUDES(mutex) {
        MutexLock lock(mutex);
        return failure;
    }

    /// True for the thread that brought the last piece.
    [[nodiscard]] bool arrived() { return pending.fetch_sub(1, std::memory_order_acq_rel) == 1; }

    Mutex mutex;
    std::optional<Error> failure TIERFS_GUARDED_BY(mutex);
};

using ReadOperationPtr = std::shared_ptr<ReadOperation>;

}  // namespace tierfs
