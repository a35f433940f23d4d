// A bucket as POSIX has it: what a writable mount of S3 is made of.
#pragma once

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "backends/origin/posix_origin.hpp"
#include "backends/s3/readwrite/births.hpp"
#include "backends/s3/readwrite/bucket_calls.hpp"
#include "backends/s3/readwrite/draft.hpp"
#include "backends/s3/readwrite/hidden_keys.hpp"
#include "backends/s3/readwrite/inode_numbers.hpp"
#include "backends/s3/readwrite/known_names.hpp"
#include "backends/s3/readwrite/listing_memory.hpp"
#include "backends/s3/readwrite/path_locks.hpp"
#include "backends/s3/readwrite/recent_copies.hpp"
#include "backends/s3/readwrite/write_back.hpp"

namespace tierfs::s3 {

/// A file or directory that somebody holds. A file is one object and what this mount makes of it: what another
/// host puts in its place is another file, of another node. What can change belongs to PosixBucket, under its
/// mutex.
struct BucketNode {
    BucketNode(std::uint64_t inode_, std::uint32_t type_, std::uint64_t birth_)
        : inode(inode_), type(type_), birth(birth_) {}
    const std::uint64_t inode;
    const std::uint32_t type;   ///< S_IFMT of st_mode
    const std::uint64_t birth;  ///< see Births; 0: a directory

    std::shared_ptr<BucketNode> parent;  ///< null: the root
    std::string name;
    enum class Standing : std::uint8_t {
        named,
        unlinked,  ///< by this mount: who has it open goes on reading
        replaced,  ///< by another host, or removed: who has it open reads what can still be had of it
    } standing = Standing::named;
    /// Of a file: as it was met, or as this mount put it there last; absent: not known yet. Of the root of a
    /// bucket, for which there can be no object: what was set here.
    Facts facts;
    bool has_object = true;     ///< false: made here and not published yet
    bool is_exclusive = false;  ///< made with O_EXCL
    bool is_lost_update_told = false;
    bool is_never_renewed = false;  ///< a read of it was refused, since what took its name is shorter
    unsigned opens = 0, writers = 0;
    /// While it is open for writing, or kept for those who have it open. One that is changed is what this mount
    /// shows at the name; one that is not is the object, as long as the bucket has that.
    std::shared_ptr<Draft> draft;
    // Of a write-back mount:
    WriteBack::EntryPtr
        pending;  ///< what was acknowledged last, until it is at the bucket; null: it is there
    std::uint64_t changed_after = 0;  ///< WriteBack::last() when the draft was changed last
    bool is_unasked = false;          ///< nobody could be asked for its name when it got it
    bool may_be_mapped = false;       ///< it has been opened for reading and writing
    bool is_conflict_untold =
        false;  ///< what was acknowledged has become another name's, and nobody has heard of it

    /// Whether this mount shows what is here, not what the bucket has.
    [[nodiscard]] bool is_local() const { return draft && (draft->is_changed() || pending); }
};
using BucketNodePtr = std::shared_ptr<BucketNode>;

/// See PosixOrigin. A directory is there when keys begin with its path and '/'; one that was made here has an
/// object of that name (a marker), which holds its mode and owner, and one that loses its last name gets one,
/// so that it stays. What is written is at the bucket when flush() or sync() has returned; until then a new
/// file is seen by this mount alone.
///
/// With a journal (writes=back) flush() and sync() return when what was written stands there, and WriteBack brings it to
/// the bucket later; so are removals, and renames of what is not there yet. All else asks the bucket, after what was
/// acknowledged before. While the bucket does not answer, names are what was known of them last, so that files and
/// directories can be made; the queue waits.
///
/// What was asked is believed for metadata.ttl; opening for writing asks anew. Renames copy, and those of
/// directories are not atomic: names arrive before they leave, and an error leaves the old ones.
class PosixBucket final : public PosixOrigin {
  public:
    struct Rules {
        std::chrono::milliseconds ttl;  ///< so long what was asked is believed
        /// What others changed since it was opened for writing here is not overwritten (ESTALE; EEXIST where it
        /// was new).
        bool exclusive = false;
        bool links = true;                                     ///< add_name makes a copy; else it is refused
        bool claims = true;                                    ///< create with O_EXCL makes an empty object
        std::uint64_t memory_limit = std::uint64_t{1} << 30U;  ///< bytes, of the process: see ListingMemory
        std::uint64_t journal_limit = 0;                       ///< bytes; 0: what its file system has
    };
    /// `copies`: where what is written is kept. `journal`: of a write-back mount; else null. The client and writer behind
    /// `calls` must outlive this.
    PosixBucket(BucketCalls calls, LocalCopies copies, const Rules& rules,
                std::unique_ptr<Journal> journal = nullptr);
    ~PosixBucket() override { stop(); }
    PosixBucket(const PosixBucket&) = delete;
    PosixBucket& operator=(const PosixBucket&) = delete;
    /// Uploads end with their next error after begin_stop(); stop() waits for them.
    void begin_stop();
    void stop();

    [[nodiscard]] PosixNodePtr root() override { return root_hold_; }
    Result<PosixAttributes> look_up(const PosixNode& directory, const std::string& name) override;
    Result<PosixNodePtr> hold(const PosixNode& directory, const std::string& name) override;
    Result<PosixAttributes> attributes(const PosixNode& node) override;
    Result<PosixFile::Renewal> renew(const PosixNode& node, std::uint64_t asked) override;
    Result<std::string> read_link(const PosixNode& node) override;
    Result<PosixCreated> create(const PosixNode& directory, const std::string& name, int flags, mode_t mode,
                                const Caller& caller) override;
    Result<PosixCreated> make_nameless(const PosixNode& directory, int flags, mode_t mode,
                                       const Caller& caller) override;
    Result<void> make_directory(const PosixNode& directory, const std::string& name, mode_t mode,
                                const Caller& caller) override;
    Result<void> make_node(const PosixNode& directory, const std::string& name, mode_t mode, dev_t device,
                           const Caller& caller) override;
    Result<void> make_link(const PosixNode& directory, const std::string& name, const std::string& target,
                           const Caller& caller) override;
    Result<void> add_name(const PosixNode& node, const PosixNode& directory,
                          const std::string& name) override;
    Result<void> remove(const PosixNode& directory, const std::string& name, bool is_directory) override;
    Result<void> rename(const PosixNode& from, const std::string& name, const PosixNode& to,
                        const std::string& new_name, unsigned flags) override;
    Result<PosixFilePtr> open(const PosixNode& node, int flags) override;
    Result<PosixDirectoryPtr> open_directory(const PosixNode& node) override;
    Result<void> set_mode(const PosixNode& node, mode_t mode) override;
    Result<void> set_owner(const PosixNode& node, uid_t uid, gid_t gid) override;
    Result<void> set_times(const PosixNode& node, const struct timespec& access,
                           const struct timespec& modification) override;
    Result<void> resize(const PosixNode& node, std::uint64_t size) override;
    Result<std::size_t> get_xattr(const PosixNode& node, const std::string& name,
                                  std::span<char> value) override;
    Result<std::size_t> list_xattrs(const PosixNode& node, std::span<char> names) override;
    Result<void> set_xattr(const PosixNode& node, const std::string& name, std::span<const char> value,
                           int flags) override;
    Result<void> remove_xattr(const PosixNode& node, const std::string& name) override;
    Result<struct statvfs> statistics() override;
    [[nodiscard]] bool has_acls() const override { return false; }
    [[nodiscard]] bool answers_cheaply() const override { return false; }
    [[nodiscard]] bool holds_for_nothing() const override { return true; }
    [[nodiscard]] std::string against_passthrough() const override;
    [[nodiscard]] PosixStats stats() const override;
    std::uint64_t hurry() override;
    void tick() override;

    // For the files and directories that it opens.
    [[nodiscard]] BucketCalls& calls() { return calls_; }
    [[nodiscard]] InodeNumbers& numbers() { return numbers_; }
    [[nodiscard]] KnownNames& known() { return known_; }
    [[nodiscard]] ListingMemory& listings() { return listings_; }
    [[nodiscard]] HiddenKeys& hidden() { return hidden_; }
    /// What can be read without asking the bucket; may outlive this.
    [[nodiscard]] const std::shared_ptr<RecentCopies>& recent() { return recent_; }
    Result<std::string> path_of(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    /// lately: within metadata.ttl. just_now: for what must not happen to a name that another host has taken or
    /// changed meanwhile.
    enum class Asked : std::uint8_t { lately, just_now };
    /// ESTALE: it is not there any more, and nobody has it open.
    Result<Facts> facts(const BucketNodePtr& node, Asked asked = Asked::lately) TIERFS_EXCLUDES(mutex_);
    Result<PosixAttributes> attributes_of(const BucketNodePtr& node) TIERFS_EXCLUDES(mutex_);
    /// What is written to it, if anything is: null else.
    std::shared_ptr<Draft> draft_of(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    /// The same for a change. ESTALE: it would be lost, since the name is another host's and nothing was changed
    /// here before.
    /// `at_most`: so many of its bytes are needed.
    Result<std::shared_ptr<Draft>> draft_to_change(const BucketNodePtr& node,
                                                   std::uint64_t at_most = UINT64_MAX)
        TIERFS_EXCLUDES(mutex_);
    /// The object whose bytes a file has, and where it is, or was. ESTALE: this mount has removed it.
    struct Object {
        std::string path;
        Facts facts;
    };
    Result<Object> object_of(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    /// The bucket has said that this is not what it has: it is asked anew.
    void doubt(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    /// See PosixFile::renew.
    Result<PosixFile::Renewal> renew_node(const BucketNodePtr& node, std::uint64_t asked)
        TIERFS_EXCLUDES(mutex_);
    /// `is_synced`: by fsync(2).
    Result<void> publish(const BucketNodePtr& node, bool is_synced) TIERFS_EXCLUDES(mutex_);
    /// The names in a directory while the bucket does not answer, with types (DT_UNKNOWN: a file or a link). Nothing: it
    /// answers, or they are not known.
    std::optional<std::map<std::string, unsigned char>> names_last(std::uint64_t directory)
        TIERFS_EXCLUDES(mutex_);
    /// Whether a name is gone here that the bucket may still have.
    bool is_removed(const std::string& path) { return back_ && back_->is_removed(path); }
    /// All of them below a directory.
    std::vector<std::string> removed_below(const std::string& marker) {
        return back_ ? back_->removed_below(marker) : std::vector<std::string>();
    }
    void closed(const BucketNodePtr& node, bool was_writing) TIERFS_EXCLUDES(mutex_);
    /// See PosixFile::descriptor and pass_through.
    int descriptor_to_pass(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    bool pass_through(const BucketNode& node, int descriptor) TIERFS_EXCLUDES(mutex_);
    /// What is new in a directory and nobody else sees yet: names and types (DT_REG, DT_DIR).
    std::map<std::string, unsigned char> unpublished_in(std::uint64_t directory) TIERFS_EXCLUDES(mutex_);

  private:
    using Change = std::function<Result<void>(FileMetadata&)>;

    // bucket_facts.cpp
    static Facts facts_of_draft(Draft& draft, const Facts& object, bool is_local);
    [[nodiscard]] Facts bare_directory() const;
    Result<Facts> facts_at(const BucketNode& directory, const std::string& name, Asked asked = Asked::lately)
        TIERFS_EXCLUDES(mutex_);
    Result<Facts> ask(const std::string& path, bool was_directory);
    Result<Facts> root_facts();

    // bucket_away.cpp, of a write-back mount
    /// Whether the bucket has not answered for long enough, and what was known last is to do. One connection that breaks
    /// says nothing of that.
    [[nodiscard]] bool is_away() const { return back_ && calls_.is_away(Reachability::kDoubt); }
    [[nodiscard]] bool is_for_being_away(const Error& error) const {
        return (error.code == ETIMEDOUT || error.code == EHOSTUNREACH) && is_away();
    }
    /// Unless what is known is all there is.
    void drop_known(Place place) {
        if (!is_away()) known_.drop(place);
    }
    std::optional<Facts> known_last(const BucketNode& directory, const std::string& name)
        TIERFS_EXCLUDES(mutex_);
    /// `is_replaced`: none of its bytes is needed.
    Result<Facts> head_to_change(const BucketNodePtr& node, const std::string& path, bool is_replaced)
        TIERFS_EXCLUDES(mutex_);
    Result<void> make_directory_later(const BucketNodePtr& directory, const std::string& name,
                                      const FileMetadata& metadata) TIERFS_EXCLUDES(mutex_);
    void add_directory(const BucketNodePtr& node, const std::shared_ptr<Draft>& draft)
        TIERFS_EXCLUDES(mutex_);
    WriteBack::Outcome bring_directory(const WriteBack::Entry& entry) TIERFS_EXCLUDES(mutex_);
    void recover_directory(Journal::Found found) TIERFS_EXCLUDES(mutex_);
    Result<bool> has_become_directory(const WriteBack::Entry& entry) TIERFS_EXCLUDES(mutex_);
    void list_ahead(const BucketNodePtr& directory) TIERFS_EXCLUDES(mutex_);
    void list_pages(std::uint64_t directory, const std::string& marker, const std::string& token,
                    const std::shared_ptr<ListedNames>& listed, unsigned pages = 1);

    // posix_bucket.cpp
    Result<std::string> path_in(const BucketNode& directory, const std::string& name) TIERFS_EXCLUDES(mutex_);
    /// What is at a name, and the node that is held of it: null, none. Another host's object in the place of a
    /// node's takes its name away. Waits for changes of the path that are under way.
    struct Met {
        Facts facts;
        BucketNodePtr node;
        std::uint64_t birth = 0;
    };
    Result<Met> meet(const BucketNode& directory, const std::string& name, Asked asked = Asked::lately)
        TIERFS_EXCLUDES(mutex_);
    std::optional<Met> met(Place place, const Facts& facts) TIERFS_EXCLUDES(mutex_);
    static bool is_of(const BucketNode& node, const Facts& facts);
    bool has_stayed(const BucketNode& node, const Facts& now) TIERFS_EXCLUDES(mutex_);
    static PosixAttributes shown(const Facts& facts, const BucketNode& node, BucketNode::Standing standing);
    static PosixAttributes shown(const Facts& facts, std::uint64_t inode, std::uint64_t birth,
                                 BucketNode::Standing standing);
    /// Of a node whose path is locked, asked now. ESTALE: another host's object is there, and the node has lost
    /// its name.
    Result<Facts> head_of(const BucketNodePtr& node, const std::string& path) TIERFS_EXCLUDES(mutex_);
    void replaced(const BucketNodePtr& node) TIERFS_EXCLUDES(mutex_);
    BucketNodePtr find_locked(std::uint64_t inode) TIERFS_REQUIRES(mutex_);
    BucketNodePtr find(std::uint64_t inode) TIERFS_EXCLUDES(mutex_);
    BucketNodePtr node_at(const BucketNodePtr& directory, const std::string& name, const Met& met)
        TIERFS_EXCLUDES(mutex_);
    void add_locked(const BucketNodePtr& node) TIERFS_REQUIRES(mutex_);
    void forget_locked(const BucketNodePtr& node) TIERFS_REQUIRES(mutex_);
    static Result<std::string> path_locked(const BucketNode& node, bool also_replaced = false);
    Place place(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    /// Of what is at a node's name, by this mount's own doing.
    void know(const BucketNode& node, Facts facts) TIERFS_EXCLUDES(mutex_);

    // bucket_names.cpp
    Result<FileMetadata> metadata_for(const BucketNodePtr& directory, mode_t mode, const Caller& caller);
    Result<std::string> free_path(const BucketNodePtr& directory, const std::string& name, Asked asked);
    Result<Draft::Base> make_object(const BucketNodePtr& directory, const std::string& name,
                                    const char* suffix, const std::string& body,
                                    const FileMetadata& metadata);
    Result<PosixCreated> claim(const BucketNodePtr& directory, const std::string& name, mode_t mode,
                               const Caller& caller) TIERFS_EXCLUDES(mutex_);
    BucketNodePtr new_file(const BucketNodePtr& directory, const std::string& name, int flags,
                           std::shared_ptr<Draft> draft);
    Result<std::shared_ptr<Draft>> new_draft(const BucketNodePtr& directory, mode_t mode,
                                             const Caller& caller);
    Result<PosixCreated> created(const BucketNodePtr& node, int flags) TIERFS_EXCLUDES(mutex_);
    Result<bool> name_nameless(const BucketNodePtr& node, const BucketNodePtr& directory,
                               const std::string& name, const std::string& to) TIERFS_EXCLUDES(mutex_);
    Result<void> copy_to_new(const BucketNodePtr& node, const std::string& from, Place place,
                             const std::string& to);
    Result<void> keep_parent(const BucketNodePtr& directory, const std::string& leaving);
    Result<void> check_empty(std::uint64_t inode, const std::string& path);
    void keep_bytes(const BucketNodePtr& node);
    void unlinked(const BucketNodePtr& node, const BucketNode& directory, const std::string& name,
                  const Facts& last) TIERFS_EXCLUDES(mutex_);

    // bucket_rename.cpp
    struct Move {
        BucketNodePtr from_directory, to_directory;
        std::string from_name, to_name, from, to;  ///< names; paths
        Place from_place = 0, to_place = 0;
        Facts moved, replaced;
        BucketNodePtr node, replaced_node;  ///< null: nobody holds it
    };
    static Result<void> check_move(const Move& move, unsigned flags);
    Result<void> move_now(Move& move, unsigned flags, std::optional<std::uint64_t> before);
    Result<void> move_here(Move& move) TIERFS_EXCLUDES(mutex_);
    Result<void> move_file(Move& move);
    Result<void> move_tree(Move& move);
    Result<std::vector<std::pair<std::string, Facts>>> objects_below(const std::string& marker);
    Result<void> copy_all(const Move& move, std::vector<std::pair<std::string, Facts>>& objects);
    void remove_all(const std::vector<std::pair<std::string, Facts>>& objects, const std::string& marker,
                    Together& together);
    std::vector<BucketNodePtr> open_below(const std::string& path) TIERFS_EXCLUDES(mutex_);
    void moved(const Move& move) TIERFS_EXCLUDES(mutex_);

    // bucket_open.cpp
    /// `is_replaced`: none of its bytes is needed.
    Result<std::shared_ptr<Draft>> make_draft(const BucketNodePtr& node, bool is_replaced = false)
        TIERFS_EXCLUDES(mutex_);
    Result<void> publish_nameless(const BucketNodePtr& node) TIERFS_EXCLUDES(mutex_);
    Result<void> publish_locked(const BucketNodePtr& node, const std::string& path) TIERFS_EXCLUDES(mutex_);
    void keep_recent(const BucketNodePtr& node, Draft& draft) TIERFS_EXCLUDES(mutex_);
    void forget_changes(const BucketNodePtr& node) TIERFS_EXCLUDES(mutex_);
    void let_go(const BucketNodePtr& node) TIERFS_EXCLUDES(mutex_);
    void put_own(const BucketNodePtr& node, const Facts& facts) TIERFS_EXCLUDES(mutex_);
    PutOptions condition_for(const BucketNode& node, Draft& draft) TIERFS_EXCLUDES(mutex_);
    void tell_lost_update(const BucketNodePtr& node, const std::string& path) TIERFS_EXCLUDES(mutex_);

    // bucket_back.cpp, of a write-back mount
    Result<std::shared_ptr<LocalCopy>> make_copy();
    [[nodiscard]] std::uint64_t room() const;
    [[nodiscard]] bool is_full();
    Result<void> wait_for_room();
    Result<void> wait_for_place();
    Result<void> wait_for_all();
    /// Before a name is made by the bucket: what is queued for it may be in the way.
    Result<void> wait_for_path(const std::string& path);
    Result<void> wait_for_node(const BucketNodePtr& node) TIERFS_EXCLUDES(mutex_);
    /// Of a new file that gets another name, or goes. No path may be locked.
    void give_up_upload(Place place) TIERFS_EXCLUDES(mutex_);
    bool is_pending(const BucketNode& node) TIERFS_EXCLUDES(mutex_);
    /// Who changes the draft that a node has for another one holds this. No path of a file begins so.
    static PathLocks::Path change_of(const BucketNode& node) {
        return {"//change/" + std::to_string(node.inode), false};
    }
    Result<std::shared_ptr<Draft>> go_on(const BucketNodePtr& node, const std::shared_ptr<Draft>& frozen,
                                         std::uint64_t at_most) TIERFS_EXCLUDES(mutex_);
    Result<void> acknowledge(const BucketNodePtr& node, const std::string& path, bool is_synced)
        TIERFS_EXCLUDES(mutex_);
    Result<void> acknowledge_at(const BucketNodePtr& node, const std::shared_ptr<Draft>& draft,
                                JournalRecord record, const WriteBack::EntryPtr& instead)
        TIERFS_EXCLUDES(mutex_);
    Result<void> remove_later(const BucketNodePtr& directory, const BucketNodePtr& node,
                              const std::string& name, const std::string& path, const Facts& there)
        TIERFS_EXCLUDES(mutex_);
    /// Changes metadata that were acknowledged. EINPROGRESS: they are on their way to the bucket.
    Result<void> amend(const BucketNodePtr& node, Draft& draft,
                       const std::function<Result<void>(Draft&)>& change) TIERFS_EXCLUDES(mutex_);
    WriteBack::Outcome bring(const WriteBack::Entry& entry);
    WriteBack::Outcome bring_file(const WriteBack::Entry& entry);
    WriteBack::Outcome bring_removal(const WriteBack::Entry& entry);
    Result<Facts> put_as_expected(const WriteBack::Entry& entry);
    WriteBack::Outcome keep_beside(const WriteBack::Entry& entry);
    void brought(const WriteBack::Entry& entry, const Facts& facts) TIERFS_EXCLUDES(mutex_);
    void refused(const WriteBack::Entry& entry) TIERFS_EXCLUDES(mutex_);
    void settled(const WriteBack::Entry& entry) TIERFS_EXCLUDES(mutex_);
    // bucket_passed.cpp
    Result<Draft::Snapshot> snapshot_of(Draft& draft);
    bool may_still_be_mapped(const BucketNodePtr& node) TIERFS_REQUIRES(mutex_);
    bool acknowledge_mapped(const BucketNodePtr& node, bool at_last) TIERFS_EXCLUDES(mutex_);
    void look_at_mapped(bool at_last) TIERFS_EXCLUDES(mutex_);
    // bucket_recover.cpp
    void recover() TIERFS_EXCLUDES(mutex_);
    BucketNodePtr directory_at(const std::string& path) TIERFS_EXCLUDES(mutex_);
    void recover_file(const BucketNodePtr& directory, const std::string& name, Journal::Found found)
        TIERFS_EXCLUDES(mutex_);

    // bucket_attributes.cpp
    Result<void> change(const PosixNode& node, const Change& change);
    Result<void> change_root(const Change& change) TIERFS_EXCLUDES(mutex_);
    Result<void> change_directory(const BucketNodePtr& node, const Change& change);
    Result<void> change_marker(const BucketNodePtr& node, const std::string& marker, const Change& change);
    Result<void> change_file(const BucketNodePtr& node, const Change& change) TIERFS_EXCLUDES(mutex_);
    Result<void> change_file_now(const BucketNodePtr& node, const Change& change) TIERFS_EXCLUDES(mutex_);

    BucketCalls calls_;
    const LocalCopies copies_;
    const bool exclusive_, links_, claims_;
    KnownNames known_;
    ListingMemory listings_;
    mutable HiddenKeys hidden_;
    InodeNumbers numbers_;
    Births births_;
    PathLocks locks_;
    mutable DraftTotals totals_;
    const std::shared_ptr<RecentCopies> recent_ = std::make_shared<RecentCopies>();
    const BucketNodePtr root_;
    const PosixNodePtr root_hold_;
    Mutex mutex_;
    std::unordered_map<std::uint64_t, std::weak_ptr<BucketNode>> nodes_ TIERFS_GUARDED_BY(mutex_);
    /// Those that have no object yet.
    std::unordered_map<std::uint64_t, std::weak_ptr<BucketNode>> fresh_ TIERFS_GUARDED_BY(mutex_);
    std::size_t sweep_at_ TIERFS_GUARDED_BY(mutex_) = 1024;
    /// Those that were passed through, and may be mapped although they are closed.
    std::vector<BucketNodePtr> mapped_ TIERFS_GUARDED_BY(mutex_);
    const std::uint64_t journal_limit_;
    /// One request each that nobody waits for is under way.
    std::atomic<bool> is_asking_{false}, is_listing_{false};
    std::unordered_map<std::uint64_t, KnownNames::Clock::time_point> listed_
        TIERFS_GUARDED_BY(mutex_);     ///< when directories were asked for by list_ahead
    std::size_t most_queued_ = 0;      ///< each takes a descriptor
    std::unique_ptr<WriteBack> back_;  ///< last: its threads use all else; null: writes=through
};

/// What PosixNode is here.
class HeldNode final : public PosixNode {
  public:
    explicit HeldNode(BucketNodePtr node_) : node(std::move(node_)) {}
    const BucketNodePtr node;
};
inline const BucketNodePtr& bucket_node(const PosixNode& node) {
    return static_cast<const HeldNode&>(node).node;  // NOLINT(*-static-cast-downcast): all are of this kind
}

/// `access`: O_ACCMODE and O_DSYNC of open(2). `writes`: closing it puts there what was made of it.
PosixFilePtr make_bucket_file(PosixBucket& bucket, BucketNodePtr node, int access, bool writes);
PosixDirectoryPtr make_bucket_directory(PosixBucket& bucket, BucketNodePtr node, std::string marker);

}  // namespace tierfs::s3
