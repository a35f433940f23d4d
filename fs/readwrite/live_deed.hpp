// One request that makes, moves or removes names, carried out once however often the kernel sends it.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/origin/posix_origin.hpp"
#include "fs/readwrite/live_record.hpp"

namespace tierfs {

/// Lives from before the origin is asked until the request has been answered. The kernel sends a request again whose
/// daemon died before it answered (kResent): then was_begun() tells that an earlier daemon may have carried it out, and
/// the caller finds out whether it has. For one thread.
class LiveDeed {
  public:
    /// `record` null: nothing is kept, nobody takes over. `unique`: the request's number, as it came.
    LiveDeed(LiveRecord* record, std::uint64_t unique);
    ~LiveDeed();
    LiveDeed(const LiveDeed&) = delete;
    LiveDeed& operator=(const LiveDeed&) = delete;

    [[nodiscard]] bool was_begun() const { return was_begun_; }
    /// It has been carried out: only the answer is lacking.
    [[nodiscard]] bool was_done() const;
    /// Whether what is there now is none that was there before it was begun: it was made by it, as far as can be told.
    [[nodiscard]] bool made(const PosixAttributes& found, mode_t type, std::uint32_t uid) const;
    /// Whether that is what it was to move or remove. `missed`: it has got so far, and that is another one.
    [[nodiscard]] bool concerned(const std::optional<PosixIdentity>& found) const;
    [[nodiscard]] bool missed(const std::optional<PosixIdentity>& found) const;

    /// Before it is carried out: what it moves or removes.
    void concerns(const std::optional<PosixIdentity>& identity);
    /// The origin has carried it out.
    void done();

  private:
    LiveRecord::Deed* deed_ = nullptr;
    bool was_begun_ = false;
};

}  // namespace tierfs
