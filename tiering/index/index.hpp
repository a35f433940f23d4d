// The index: names, nodes and locations in RocksDB. The only part that includes RocksDB.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/origin/object.hpp"
#include "backends/origin/origin.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// Names one version of one file; FUSE's nodeid; never reused within one index.
using NodeId = std::uint64_t;
inline constexpr NodeId kRootNode = 1;
/// Node ids are handed out from here on: lower ones serve as directory offsets of "." and "..".
inline constexpr NodeId kFirstNode = 16;

/// N record: what a name leads to.
struct NameRecord {
    NodeId node = 0;
    ObjectKind kind = ObjectKind::file;
};

/// I record: a node.
struct NodeRecord {
    NodeId parent = 0;
    std::string name;  ///< in parent; empty for the root
    std::uint64_t inode =
        0;  ///< st_ino: that of the path's first node, kept over versions, or Attributes::link
    Attributes attributes;        ///< with the version in full
    ContentId content;            ///< of files
    std::int64_t checked_ns = 0;  ///< CLOCK_REALTIME when the origin last confirmed these attributes
};

/// When a directory was last listed in full, and what was left out of it.
struct ListingRecord {
    std::int64_t listed_ns = 0;  ///< CLOCK_REALTIME
    std::uint64_t entries = 0;
    std::map<std::string, std::uint64_t> hidden;  ///< reason -> count
};

/// Changes that reach the index together or not at all.
class IndexBatch {
  public:
    virtual ~IndexBatch() = default;
    virtual void put_name(NodeId parent, std::string_view name, const NameRecord& record) = 0;
    virtual void erase_name(NodeId parent, std::string_view name) = 0;
    virtual void put_node(NodeId node, const NodeRecord& record) = 0;
    virtual void erase_node(NodeId node) = 0;
    virtual void put_listing(NodeId directory, const ListingRecord& record) = 0;
    virtual void erase_listing(NodeId directory) = 0;
    virtual void put_location(const ContentId& id, std::string_view location) = 0;
    virtual void erase_location(const ContentId& id) = 0;
    [[nodiscard]] virtual std::size_t bytes() const = 0;
};

struct IndexOptions {
    std::filesystem::path directory;  ///< made when absent, mode 0700
    std::uint64_t memory = 16 << 20;  ///< block cache and memtables together, bytes
    std::string source;               ///< an index of another source or layout is rebuilt
    std::string names =
        {};  ///< the settings that names, nodes and listings have taken in; under others they are
             ///< forgotten, and locations stay
};

/// Bytes that an index takes while it is opened, and those that are free there.
struct IndexRoom {
    std::uint64_t needed = 0, available = 0;
};
/// Of the index in `directory`, which need not be there yet; its parent must be. On a full disk RocksDB does not open one.
Result<IndexRoom> room_for_index(const std::filesystem::path& directory);

/// Names, nodes and locations of one source. What `commit` returned from survives a kill of the process (in
/// the kernel's hands, not fsynced). A layout version that is not ours, or a database that cannot be opened,
/// is put aside and rebuilt empty, never guessed at.
///
/// Thread-safe; calls may block for the disk. Errors: EIO with RocksDB's text. Formats are described in
/// tiering/index/format.hpp.
class Index {
  public:
    static Result<std::unique_ptr<Index>> open(const IndexOptions& options);
    virtual ~Index() = default;

    virtual Result<std::optional<NameRecord>> find_name(NodeId parent, std::string_view name) = 0;
    virtual Result<std::optional<NodeRecord>> find_node(NodeId node) = 0;
    /// Those of `nodes` that are known, each given to `each`; `nodes` ascend. A listing's nodes lie near each
    /// other: one pass over them costs a fraction of as many find_node.
    virtual Result<void> find_nodes(std::span<const NodeId> nodes,
                                    const std::function<void(NodeId, NodeRecord)>& each) = 0;
    virtual Result<std::optional<ListingRecord>> find_listing(NodeId directory) = 0;
    virtual Result<std::optional<std::string>> find_location(const ContentId& id) = 0;

    /// Names of a directory in byte order, those after `after` only (empty: from the start), until `each`
    /// says false.
    virtual Result<void> for_each_name(
        NodeId parent, std::string_view after,
        const std::function<bool(std::string_view, const NameRecord&)>& each) = 0;
    virtual Result<void> for_each_location(
        const std::function<bool(const ContentId&, std::string_view)>& each) = 0;
    /// Every listing record, for the sum of hidden keys.
    virtual Result<void> for_each_listing(const std::function<bool(NodeId, const ListingRecord&)>& each) = 0;

    [[nodiscard]] virtual std::unique_ptr<IndexBatch> batch() = 0;
    virtual Result<void> commit(std::unique_ptr<IndexBatch> batch) = 0;

    /// A node id never handed out before, over restarts too (ids are reserved in runs, ahead of use).
    virtual Result<NodeId> allocate_node() = 0;

    /// True when this open found nothing usable and started empty.
    [[nodiscard]] virtual bool is_new() const = 0;
    /// Bytes of memory that RocksDB says it uses.
    [[nodiscard]] virtual std::uint64_t memory_bytes() const = 0;
};

}  // namespace tierfs
