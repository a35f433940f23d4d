// An export of an NFS server as PosixOrigin.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "backends/nfs/entry_memory.hpp"
#include "backends/nfs/half_made.hpp"
#include "backends/nfs/root.hpp"
#include "backends/nfs/server_clock.hpp"
#include "backends/nfs/unstable_writes.hpp"
#include "backends/nfs/waiting.hpp"
#include "backends/origin/posix_origin.hpp"

namespace tierfs::nfs {

/// A name in a directory.
struct Place {
    Handle directory;
    std::string name;
};

/// What the opens of one file by this mount have in common.
struct SharedFile {
    std::shared_ptr<UnstableWrites> writes;
    unsigned opens = 0;
    bool has_set_id = false;  ///< its mode, as the server last told it, has bits that a write clears
    std::optional<Place>
        hidden;  ///< its last name was taken away: it is kept under this one until it is closed
};

/// The files of the export that this mount has open. Thread-safe.
class OpenFiles {
  public:
    OpenFiles(Client& client, WriteBudget& budget, std::chrono::milliseconds deadline)
        : client_(client), budget_(budget), deadline_(deadline) {}

    /// Waits while the file is about to lose a name: then it may be gone.
    std::shared_ptr<UnstableWrites> open(const Handle& handle);
    /// The hidden name that is to be removed, of the last one.
    std::optional<Place> close(const Handle& handle);
    /// Null: nobody has it open.
    std::shared_ptr<UnstableWrites> writes(const Handle& handle);
    [[nodiscard]] bool is_open(const Handle& handle);
    [[nodiscard]] bool is_hidden(const Handle& handle);

    void hide(const Handle& handle, Place place);

    /// What the server says of a file; kept of those that are open.
    void note_mode(const Handle& handle, mode_t mode);
    [[nodiscard]] bool has_set_id(const Handle& handle);

    /// While it lives, nobody opens the file: whether it is open, and has to be kept, does not change from no
    /// to yes.
    class Leaving {
      public:
        Leaving(OpenFiles& files, Handle handle);
        ~Leaving();
        Leaving(const Leaving&) = delete;
        Leaving& operator=(const Leaving&) = delete;

      private:
        OpenFiles& files_;
        const Handle handle_;
    };

  private:
    Client& client_;
    WriteBudget& budget_;
    const std::chrono::milliseconds deadline_;
    Mutex mutex_;
    std::condition_variable changed_;
    std::unordered_map<Handle, SharedFile> files_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_set<Handle> leaving_ TIERFS_GUARDED_BY(mutex_);
};

/// See PosixOrigin. A node is a handle, and files are the same when their handles are. Everything but the
/// bytes of writes (UnstableWrites) is durable when the server has answered (RFC 1813, 4.8). An answer that
/// was lost is asked for again; then what makes or removes a name and finds its work done takes it for its
/// own.
///
/// What is made belongs to the caller: where nfs.uid is root the server is asked as the caller, and if it
/// refuses that (groups of the caller are not known here) as root, who gives it away, and then as the caller
/// in the directory's group. The rest is done as nfs.uid, and what a server refuses to root as owners
/// (Squash). There are no extended attributes and no access control lists (EOPNOTSUPP), space cannot be
/// reserved, holes are zeros, and names cannot be exchanged (EINVAL). A file that is removed or replaced
/// while it is open keeps the name ".nfs-tierfs-" and a random text beside its old one until it is closed;
/// who dies leaves it there.
class PosixExport final : public PosixOrigin {
  public:
    struct Options {
        std::uint32_t uid = 0;                      ///< of the client's credential
        std::uint64_t budget = 0;                   ///< bytes of writes on their way
        std::size_t entries = 0;                    ///< bytes of what listings brought (EntryMemory)
        std::chrono::milliseconds longest{0};       ///< how long these are worth something
        std::chrono::milliseconds deadline{30000};  ///< of a call
    };
    PosixExport(Client& client, Root& root, const Options& options);

    [[nodiscard]] PosixNodePtr root() override { return root_node_; }
    [[nodiscard]] std::int64_t clock_ns() const override { return clock_.at_least(); }
    Result<PosixAttributes> look_up(const PosixNode& directory, const std::string& name) override;
    Result<PosixNodePtr> hold(const PosixNode& directory, const std::string& name) override;
    Result<PosixAttributes> attributes(const PosixNode& node) override;
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
    [[nodiscard]] bool waits_for_answers() const override { return true; }
    [[nodiscard]] PosixStats stats() const override;

    // -- for its files and directories

    template <typename T>
    struct Asked {
        T reply;
        unsigned sent = 1;  ///< see Reply
    };
    /// Sends a call and waits. EIO: the reply makes no sense. Its status is the caller's to look at.
    template <typename T>
    Result<Asked<T>> ask(Call call, const char* what, T (*parse)(XdrReader&));
    [[nodiscard]] Call call(const Procedure& procedure, std::string arguments) const;
    /// `asked`: when, if not just now.
    PosixAttributes shown(const struct stat& status, const Handle& handle,
                          std::optional<Clock::time_point> asked = std::nullopt);
    Result<PosixAttributes> attributes_of(const Handle& handle);
    Result<void> set_attributes(const Handle& handle, const SetAttributes& attributes);
    Result<void> resize_to(const Handle& handle, std::uint64_t size);
    /// Before bytes of a file that is open change. The server does it for writers that are not root, and the
    /// mount writes as nfs.uid whoever its writer is.
    Result<void> clear_set_id(const Handle& handle);
    /// A page of a directory: by READDIRPLUS; from a server without it names alone, by READDIR.
    /// Look-ups of its names are answered from it for a while.
    Result<Asked<ReaddirplusReply>> read_names(const Handle& directory, std::uint64_t after,
                                               const std::string& verifier);
    void closed(const Handle& handle, bool was_written);
    [[nodiscard]] Client& client() { return client_; }
    [[nodiscard]] std::size_t read_size() const { return root_.read_size(); }
    [[nodiscard]] std::size_t write_size() const { return root_.write_size(); }

  private:
    Result<Handle> handle_of(const PosixNode& node);
    Result<void> clear_set_id(const Handle& handle, const struct stat& status);
    /// LOOKUP; ENOENT.
    Result<StatReply> find(const Handle& directory, const std::string& name);
    static PosixNodePtr node_of(Handle handle);
    PosixFilePtr make_file(const Handle& handle, int flags);

    Result<void> act(Call call, const char* what);
    [[nodiscard]] Call link(const Handle& file, const Handle& directory, const std::string& name) const;

    /// What was made.
    struct Made {
        Handle handle;
        bool is_given_away = false;  ///< made as root, for the caller
        std::string credential;      ///< whom it belongs to
    };
    /// `what` may be asked again: it is there then, and taken for the one that was made.
    Result<Made> make(Call call, const char* what, const Handle& directory, const std::string& name,
                      const Caller& caller);
    /// What takes a name away. In a directory of root's whose sticky bit is set only the owner of what the
    /// name leads to may do so.
    Result<Asked<std::uint32_t>> ask_of_name(Call call, const char* what, const Handle& directory,
                                             const std::string& name);
    Result<void> take_name(Call call, const char* what, const Handle& directory, const std::string& name);
    /// What the owner is to be set to when it is given away.
    Result<SetAttributes> owner(const Handle& directory, const Caller& caller);
    Result<void> make_and_give(Call call, const char* what, const PosixNode& directory,
                               const std::string& name, mode_t mode, const Caller& caller);
    /// Before its last name goes (Leaving): keeps a file that is open under a hidden one. False: not
    /// necessary. `by_link`: the name itself is to stay.
    Result<bool> keep_if_open(const Handle& directory, const std::string& name, const StatReply& file,
                              bool by_link);
    /// The same for the file that a rename replaces, if it does.
    Result<void> keep_replaced(const Handle& source, const std::string& name, const Handle& target,
                               const std::string& new_name, std::optional<OpenFiles::Leaving>& leaving,
                               EntryMemory::Marks& changed);
    Result<void> rename_new(const Handle& from, const std::string& name, const StatReply& file,
                            const Handle& to, const std::string& new_name);

    Client& client_;
    Root& root_;
    const std::uint32_t uid_;
    const std::chrono::milliseconds deadline_;
    const PosixNodePtr root_node_;
    std::atomic<bool> names_alone_ = false;  ///< the server has no READDIRPLUS
    WriteBudget budget_;
    OpenFiles open_files_;
    HalfMade half_made_;
    EntryMemory entries_;
    ServerClock clock_;
};

/// The errno of a status as system calls that change something know it.
int to_posix_errno(std::uint32_t status);

template <typename T>
Result<PosixExport::Asked<T>> PosixExport::ask(Call call, const char* what, T (*parse)(XdrReader&)) {
    if (auto may = may_wait_for(what); !may) return fail(std::move(may.error()));
    const Answer<Asked<T>> answer;
    const auto deadline = call.deadline;
    const auto changed = EntryMemory::changed_by(call);
    call.done = [answer, what, parse](Result<Reply> reply) {
        if (!reply) return answer.give(fail(reply.error().within(what)));
        XdrReader in(reply->body);
        Asked<T> asked{parse(in), reply->sent};
        if (in.ok()) return answer.give(std::move(asked));
        answer.give(fail(EIO, std::string(what) + ": the reply makes no sense"));
    };
    client_.start(std::move(call));
    auto result = answer.wait(deadline);
    entries_.note(changed);
    return result;
}

}  // namespace tierfs::nfs
