// Makes the index of a pack.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/pack/format.hpp"

namespace tierfs::pack {

/// Gathers entries into blocks, in memory: some 50 bytes each. Not thread-safe.
class IndexWriter {
  public:
    IndexWriter();

    /// In the order of their keys; EINVAL for what cannot stand in an index.
    Result<void> add(Entry entry);

    /// The whole file. The same entries and extents give the same bytes. Once.
    std::string finish(const std::vector<Extent>& extents);

  private:
    void end_block();

    std::string out_, blocks_, last_key_, first_before_;
    std::vector<Entry> waiting_;
    std::size_t weight_ = 0;
    std::uint64_t count_ = 0, block_count_ = 0;
};

}  // namespace tierfs::pack
