// fs/readwrite/: writable mounts. Names and attributes are asked of the origin as it is now (PosixOrigin),
// not of the index; nodes are files of the origin, not versions of them. LiveNodes knows which files the
// kernel knows, LiveFiles what it has open, LiveLocks what is locked, LiveOperations answers its requests.
// fs/daemon makes them for a mount with `rw`.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/origin/posix_origin.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "config/base/sharded_lru.hpp"
#include "fs/readwrite/live_record.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {

/// Which bytes readers of a file get: those of one version, through the tiers, or the file's own while it
/// changes. Guarded by its mutex.
struct LiveContent {
    Mutex mutex;
    /// How often it has become a longer version than the kernel could be told of; and of how many of these it
    /// has the attributes. What is read goes out when it has those of all.
    std::uint64_t untold TIERFS_GUARDED_BY(mutex) = 0;
    std::uint64_t told TIERFS_GUARDED_BY(mutex) = 0;
    /// How often the kernel has been told attributes, or to forget them.
    std::uint64_t tellings TIERFS_GUARDED_BY(mutex) = 0;
    unsigned writers TIERFS_GUARDED_BY(mutex) = 0;       ///< opens for writing, and changes under way
    std::uint64_t changes TIERFS_GUARDED_BY(mutex) = 0;  ///< how often it was begun to change it here
    /// The version that readers get through the tiers; null: they read the file itself.
    std::shared_ptr<const ObjectRef> object TIERFS_GUARDED_BY(mutex);
    /// The version whose pages the kernel may have; empty: any.
    std::string cached_version TIERFS_GUARDED_BY(mutex);
    unsigned opens TIERFS_GUARDED_BY(mutex) = 0;
    /// Those who have it open may have seen bytes of it, from here or from pages that the kernel had.
    bool is_seen TIERFS_GUARDED_BY(mutex) = false;
    /// How often it became another version, since nobody had seen the one that it was (PosixFile::renew).
    std::uint64_t renewals TIERFS_GUARDED_BY(mutex) = 0;
    /// The version when somebody got a lock on it and the kernel forgot what was older. Empty: not known.
    std::string locked_version TIERFS_GUARDED_BY(mutex);
};

/// How the kernel has a file open: see LivePassthrough, which alone changes it.
struct LivePassed {
    Mutex mutex;
    std::uint64_t opens TIERFS_GUARDED_BY(mutex) = 0;
    std::int32_t backing_id TIERFS_GUARDED_BY(mutex) = 0;  ///< of the opens; 0: the daemon reads and writes
    /// Somebody may have it mapped for writing, and open no more.
    std::atomic<bool> is_mapped{false};
    std::uint64_t generation TIERFS_GUARDED_BY(mutex) = 0;  ///< of opens by which it can be mapped so
    /// The origin's file, while it may be mapped, and what it was before.
    std::shared_ptr<const FileDescriptor> file TIERFS_GUARDED_BY(mutex);
    std::string version TIERFS_GUARDED_BY(mutex);
};

/// True of the mode of a file that runs, or may run, as its owner or group.
inline bool has_set_id(mode_t mode) {
    return S_ISREG(mode) && (mode & (S_ISUID | S_ISGID)) != 0;
}

class LiveNode;
using LiveNodePtr = std::shared_ptr<LiveNode>;

/// A file, directory or anything else that the kernel knows. Members without a lock never change.
class LiveNode {
  public:
    LiveNode(NodeId id_, const PosixIdentity& identity_, mode_t type_)
        : id(id_), identity(identity_), type(type_) {}
    ~LiveNode();
    LiveNode(const LiveNode&) = delete;
    LiveNode& operator=(const LiveNode&) = delete;

    const NodeId id;
    const PosixIdentity identity;
    const mode_t type;  ///< S_IFMT of st_mode
    LiveContent content;
    LivePassed passed;

  private:
    friend class LiveNodes;
    struct Name {
        LiveNodePtr parent;
        std::string name;
        friend bool operator==(const Name&, const Name&) = default;
    };
    // Guarded by the mutex of LiveNodes.
    std::uint64_t lookups = 0, opens = 0;
    LiveRecord::Place place = 0;  ///< of `lookups` in the record
    std::vector<Name> names;      ///< where it was met, the last first; some may be out of date
    PosixNodePtr kept;            ///< as long as somebody has it open, whatever becomes of its names
    bool is_let_go = false;       ///< it has lost its last name: no descriptor of it outlives its last close
    PosixNodePtr nameless;        ///< how it is reached when no name leads to it (PosixAttributes::node)
};

/// The files that the kernel knows, by node id and by what they are at the origin, until it forgets them.
/// Thread-safe; no lock is held while the origin is asked.
///
/// Descriptors of the origin are kept for the nodes used last and for open files; others are found again by
/// their names, and recognised by their identity. ESTALE: nothing at these names is that file any more, and it
/// is no directory that the origin reaches without its name.
class LiveNodes {
  public:
    /// Names under which one file is looked for.
    static constexpr std::size_t kMostNames = 8;

    /// `held`: so many descriptors of nodes are kept. `record`: where they are kept for the next daemon, and what the one
    /// before this left there; null: nobody takes over. It must outlive this.
    LiveNodes(PosixOrigin& origin, const PosixAttributes& root, std::size_t held,
              LiveRecord* record = nullptr);
    ~LiveNodes();
    LiveNodes(const LiveNodes&) = delete;
    LiveNodes& operator=(const LiveNodes&) = delete;

    /// ESTALE: not known.
    Result<LiveNodePtr> find(NodeId id);
    /// The origin's file behind a node.
    Result<PosixNodePtr> hold(const LiveNodePtr& node);

    /// What is at a name. `held` is set where this name has just led to another file than the kernel had looked
    /// up: who opens what was found gets that, however fast it is replaced again.
    struct Found {
        PosixAttributes attributes;
        PosixNodePtr held;
    };
    Result<Found> look_up(const LiveNodePtr& parent, const PosixNode& directory, const std::string& name);

    /// Takes in what was just found or made at a name. The caller replies with it and counts a look-up of the
    /// kernel (`forget` takes it back).
    LiveNodePtr met(const LiveNodePtr& parent, const std::string& name, const PosixAttributes& attributes,
                    PosixNodePtr held = nullptr);
    /// The same of a file that was made without a name.
    LiveNodePtr met_nameless(const PosixAttributes& attributes, PosixNodePtr held);
    /// The kernel forgets so many of its look-ups.
    void forget(NodeId id, std::uint64_t lookups);

    /// What a name leads to is about to lose it: returns the node if the kernel knows it, and holds it, so
    /// that it can be reached without a name. Null: nobody knows it.
    struct Leaving {
        LiveNodePtr node;
        PosixNodePtr held;
        std::optional<PosixIdentity> identity = {};  ///< of what is there, whoever knows it
    };
    Leaving leaving(const PosixNode& directory, const LiveNodePtr& parent, const std::string& name);
    /// It has lost it. When that was the last one, it is let go: its space is free when this returns, or when
    /// the last who has it open has closed it; or when the kernel forgets it, where the name is `replaced`
    /// again and again, so that those who are about to open it can.
    enum class Lost : std::uint8_t { removed, replaced };
    void left(Leaving leaving, const LiveNodePtr& parent, const std::string& name, Lost how);
    /// It has it under another name, too.
    void named(const LiveNodePtr& node, const LiveNodePtr& parent, const std::string& name);

    /// A regular file was opened, and closed again: so long it is kept, since any name may be given away elsewhere.
    void opened(const LiveNodePtr& node, const PosixNodePtr& held);
    void closed(const LiveNodePtr& node);
    [[nodiscard]] bool is_open(NodeId id);

    /// Path at the origin by the name met last. ESTALE: it has none.
    Result<std::string> path(const LiveNodePtr& node);

    [[nodiscard]] std::uint64_t known();
    [[nodiscard]] PosixOrigin& origin() const { return origin_; }

  private:
    struct IdentityHash {
        std::size_t operator()(const PosixIdentity& identity) const noexcept {
            return (identity.inode ^ identity.device << 40U) * 0x9E3779B97F4A7C15U ^
                   static_cast<std::uint64_t>(identity.born_ns);
        }
    };
    struct Step {
        LiveNodePtr node;
        LiveNode::Name name;
    };
    /// From a node that is held to another, the last step first.
    struct Way {
        PosixNodePtr from;
        std::vector<Step> steps;
    };
    /// By the names that are known, however deep: no recursion, which a tree of anybody's making would drive
    /// over the end of the stack. ESTALE: none lead there.
    Result<Way> way_to(const LiveNodePtr& node);
    /// Holds what lies on it. Forgets the name that turns out to lead elsewhere: ENOENT, ENOTDIR, ESTALE.
    Result<PosixNodePtr> follow(const Way& way);
    Result<PosixNodePtr> hold_by_name(const LiveNode& node, const PosixNode& directory,
                                      const std::string& name);
    void forget_name(LiveNode& node, const LiveNode::Name& name);
    /// False: it was not before.
    bool add_restless(NodeId parent, const std::string& name) TIERFS_REQUIRES(mutex_);
    bool is_restless(NodeId parent, const std::string& name);
    void add_name(LiveNode& node, const LiveNodePtr& parent, const std::string& name) TIERFS_REQUIRES(mutex_);
    void restore() TIERFS_REQUIRES(mutex_);
    void count_lookups(LiveNode& node, std::uint64_t lookups) TIERFS_REQUIRES(mutex_);
    void rewrite_record() TIERFS_REQUIRES(mutex_);
    LiveNodePtr met_locked(const PosixAttributes& attributes, PosixNodePtr held) TIERFS_REQUIRES(mutex_);

    PosixOrigin& origin_;
    LiveRecord* const record_;
    Mutex mutex_;
    std::unordered_map<NodeId, LiveNodePtr> nodes_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_map<PosixIdentity, LiveNodePtr, IdentityHash> by_identity_ TIERFS_GUARDED_BY(mutex_);
    NodeId next_ TIERFS_GUARDED_BY(mutex_) = kFirstNode;
    /// Names that have led elsewhere last, the latest at the end.
    std::vector<std::pair<NodeId, std::string>> restless_ TIERFS_GUARDED_BY(mutex_);
    ShardedLru<NodeId, PosixNodePtr> held_;
};

}  // namespace tierfs
