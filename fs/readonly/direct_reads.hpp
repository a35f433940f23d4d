// Readers with O_DIRECT: whether the kernel may read files for them by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "fs/session/connection_record.hpp"

namespace tierfs {

/// A file that the kernel reads by itself is read as the cache's file system has it, which refuses what is not
/// aligned; the daemon answers any read. So that a program which has read a file once can read it again, whoever
/// reads unaligned is answered by the daemon for good. An unaligned buffer shows only in reads that the kernel
/// sends in several requests. Thread-safe.
class DirectReads {
  public:
    /// `setting`: direct.passthrough. `record`: holds what was seen for the daemons to come; may be null.
    DirectReads(std::string_view setting, ConnectionRecord* record)
        : may_pass_(setting == "true" ||
                    (setting == "auto" && (record == nullptr || !record->reads_unaligned()))),
          watches_(setting == "auto"),
          record_(record) {}

    [[nodiscard]] bool may_pass() const { return may_pass_.load(std::memory_order_relaxed); }
    /// A read with O_DIRECT that the daemon answers.
    void note(std::uint64_t offset, std::uint64_t length);

  private:
    std::atomic<bool> may_pass_;
    const bool watches_;
    ConnectionRecord* const record_;
};

}  // namespace tierfs
