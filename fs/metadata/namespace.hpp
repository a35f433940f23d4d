// The node table: what names lead to, what nodes are, and how fresh that is. Stands on the index and the
// origin.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/origin/origin.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"
#include "fs/metadata/file_sizes.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {

/// A node as an answer to the kernel.
struct NodeView {
    NodeId node = 0;
    std::uint64_t inode = 0;
    Attributes attributes;
    /// How long the kernel may keep it: what is left of metadata.ttl; kForever where nothing changes.
    std::chrono::milliseconds valid_for{0};
};

/// One entry of a directory. `cookie` is the d_off after which this entry comes: pass it as `after` to go on.
struct DirectoryItem {
    std::string name;
    std::uint64_t cookie = 0;
    NodeView view;
};

/// Told when the kernel's caches must forget something. Called without locks held, on any thread.
class InvalidationSink {
  public:
    virtual ~InvalidationSink() = default;
    virtual void entry_changed(NodeId parent, const std::string& name) = 0;
    virtual void node_changed(NodeId node) = 0;  ///< attributes and page cache
};

struct NamespaceStats {
    std::uint64_t known_nodes = 0;                ///< in memory
    std::vector<std::uint64_t> files_by_rule;     ///< files that became known; empty: there are no rules
    std::map<std::string, std::uint64_t> hidden;  ///< reason -> count, over all directories listed
};

/// Answers lookups, attributes and listings from memory, then the index, then the origin.
///
/// Thread-safe. Each call answers through its callback exactly once: at once on the calling thread when
/// memory or the index know a fresh answer, later from a worker of the namespace when the origin must be
/// asked (so that a slow origin never holds up a thread of /dev/fuse). Concurrent questions about the same
/// thing share one request to the origin. A question that waited for a worker longer than origin.deadline is
/// answered without the origin. When that cannot be asked (ETIMEDOUT, EIO, ECONNREFUSED, EHOSTUNREACH,
/// ENETUNREACH, or such a wait: ETIMEDOUT), an answer that was fresh once is served stale: without a limit
/// (metadata.stale), or for as long as metadata.ttl once more after which the error is returned; at once, where it
/// is known that the origin does not answer. An answer that there never was is the error. A
/// node whose object changed gets a new node id under its name; the old node goes on naming its own version.
class Namespace {
  public:
    /// `session`: a number of the index's allocate_node. Nodes that lost their name in a session of a smaller
    /// number are removed: the kernel may not know them any more.
    static Result<std::unique_ptr<Namespace>> open(const Settings& settings, std::uint64_t memory,
                                                   Index& index, Origin& origin, InvalidationSink& sink,
                                                   NodeId session);
    virtual ~Namespace() = default;

    /// ENOENT for what is not there; see absent_for.
    virtual void lookup(NodeId parent, std::string name, std::function<void(Result<NodeView>)> done) = 0;

    virtual void attributes(NodeId node, std::function<void(Result<NodeView>)> done) = 0;

    /// A run of a directory's entries after a cookie (0: from "."), at most `limit` of them, "." (cookie 1)
    /// and ".." (cookie 2) included; fewer or none: the end. Names that vanish between two calls do not
    /// disturb the rest.
    virtual void read_directory(NodeId directory, std::uint64_t after, std::size_t limit,
                                std::function<void(Result<std::vector<DirectoryItem>>)> done) = 0;

    /// That page is likely to be asked for next, by the same arguments: it is made on this thread, which
    /// blocks for the index at most. Call it after the answer to the page before has gone.
    virtual void read_ahead(NodeId directory, std::uint64_t after, std::size_t limit) = 0;

    virtual void read_link(NodeId node, std::function<void(Result<std::string>)> done) = 0;

    /// Of the source (Origin::statistics). EOPNOTSUPP at once where it has none; ETIMEDOUT at once while it does not answer.
    virtual void statistics(std::function<void(const Result<struct statvfs>&)> done) = 0;

    /// Of the origin, as they are now (Origin::xattr, xattr_names). EOPNOTSUPP at once where it has none; ETIMEDOUT at
    /// once while it does not answer.
    virtual void xattr(NodeId node, std::string name,
                       std::function<void(const Result<std::string>&)> done) = 0;
    virtual void xattr_names(NodeId node,
                             std::function<void(const Result<std::vector<std::string>>&)> done) = 0;
    /// The access control list (acl(5), as an extended attribute has it) that Attributes::acl tells of; what is
    /// known of this version goes on while the origin does not answer. ENODATA: it has none. ESTALE: the origin has
    /// another version by now, and the name is asked afresh.
    virtual void access_list(NodeId node, std::function<void(const Result<std::string>&)> done) = 0;

    /// For messages; what is known of it. Of a name in the directory `node`, where `name` is not empty.
    [[nodiscard]] virtual std::string path_of(NodeId node, const std::string& name) = 0;

    /// The version that a file's node names. Memory or index only; ESTALE for a node that is not known,
    /// EISDIR.
    virtual Result<std::shared_ptr<const ObjectRef>> object(NodeId node) = 0;

    /// The origin said that this node's version is gone (ESTALE or ENOENT of a read): the name is asked
    /// afresh at the next lookup, the kernel is told to forget the entry.
    virtual void version_gone(NodeId node) = 0;

    /// One name of a directory that the origin has something else for by now.
    struct Renewed {
        std::string name;
        bool same_object = false;  ///< with other attributes: the kernel need not forget the entry
    };
    /// The origin answers otherwise from now on for these names of a directory (its path; components joined
    /// by
    /// '/'): they and the directory's listing are asked for afresh, the kernel is told to forget them. Blocks
    /// for the index at most. What was asked before and is answered after this is believed for metadata.ttl.
    virtual void renewed(const std::string& directory, const std::vector<Renewed>& names) = 0;

    /// Whether the kernel may keep a directory's listing for good: a rule says that it is immutable.
    [[nodiscard]] virtual bool keeps_listing(NodeId directory) = 0;

    /// The longest that the kernel may keep an ENOENT.
    [[nodiscard]] virtual std::chrono::milliseconds negative_ttl() const = 0;
    /// How long the kernel may keep that this name, which `lookup` just said is not there, is not there: what
    /// is left of what that stands on, negative_ttl at most. 0: not at all. Memory or index only.
    [[nodiscard]] virtual std::chrono::milliseconds absent_for(NodeId parent, const std::string& name) = 0;
    [[nodiscard]] virtual NamespaceStats stats() const = 0;
    /// Of the files that became known; cheap.
    [[nodiscard]] virtual FileSizes file_sizes() const = 0;

    /// Ends the workers; callbacks that wait are answered with ECANCELED. Call after Origin::stop.
    /// Idempotent.
    virtual void stop() = 0;
};

}  // namespace tierfs
