// Removes the nodes of former sessions that no name leads to any more. Internal to fs/metadata.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/base/worker_pool.hpp"
#include "fs/metadata/merger.hpp"

namespace tierfs {

/// Works through the orphans of former sessions in small jobs, each of them one commit, so that a kill
/// between two loses nothing. A directory's own entries become orphans in turn, so that what stood below it
/// goes too, however deep. Orphans of this session stay: the kernel may still use them.
class Collector {
  public:
    Collector(Index& index, HiddenTotals& hidden, WorkerPool& workers, NodeId session)
        : index_(index), hidden_(hidden), workers_(workers), session_(session) {}

    void start();

  private:
    struct Orphan {
        std::string name;
        NameRecord record;
    };
    void step();
    /// Puts what erases one orphan into the batch; false: its entries go first, and it is met again.
    Result<bool> collect(IndexBatch& batch, const Orphan& orphan, std::size_t& changes);
    Result<std::vector<Orphan>> next();

    Index& index_;
    HiddenTotals& hidden_;
    WorkerPool& workers_;
    const NodeId session_;
};

}  // namespace tierfs
