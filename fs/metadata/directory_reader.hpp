// Reads directories out of the index, listing them first where that is due. Internal to fs/metadata.
#pragma once

#include <functional>
#include <vector>

#include "fs/metadata/asker.hpp"
#include "fs/metadata/directories_ahead.hpp"
#include "fs/metadata/lister.hpp"
#include "fs/metadata/node_table.hpp"
#include "fs/metadata/pages_ahead.hpp"

namespace tierfs {

/// Cookies: 1 ".", 2 "..", else the node id of the entry: its record says the name to go on after, also when
/// the name has vanished or leads elsewhere since. Thread-safe.
class DirectoryReader {
  public:
    using Items = std::vector<DirectoryItem>;

    DirectoryReader(NodeTable& table, const Freshness& freshness, const Validity& validity, Asker& asker,
                    Lister& lister, Outage& outage)
        : table_(table),
          freshness_(freshness),
          validity_(validity),
          asker_(asker),
          lister_(lister),
          outage_(outage),
          beside_(table, freshness, lister) {}

    /// `directory` is one.
    void read(NodeId directory, std::uint64_t after, std::size_t limit,
              std::function<void(Result<Items>)> done);

    /// See Namespace.
    void read_ahead(NodeId directory, std::uint64_t after, std::size_t limit);

  private:
    [[nodiscard]] PagesAhead::Moment moment() const { return {table_.changes(), freshness_.now()}; }
    Result<Items> serve(NodeId directory, std::uint64_t after, std::size_t limit);
    Result<DirectoryItem> dot(NodeId node, const char* name, std::uint64_t cookie);
    Result<void> append_names(NodeId directory, const std::string& after, std::size_t limit, Items& items);

    NodeTable& table_;
    const Freshness& freshness_;
    const Validity& validity_;
    Asker& asker_;
    Lister& lister_;
    Outage& outage_;
    PagesAhead ahead_;
    DirectoriesAhead beside_;
};

}  // namespace tierfs
