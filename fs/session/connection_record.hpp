// The record of a connection with the kernel, for a daemon that serves one which another served before it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// This bit of a request's number: the kernel sends it once more, because the daemon that had taken it is
/// gone (FUSE_NOTIFY_RESEND, Linux 6.9). Of the kernel's include/uapi/linux/fuse.h.
inline constexpr std::uint64_t kResent = 1ULL << 63;

/// Shared memory (a memfd) that the supervisor holds and each daemon maps: how the connection was negotiated,
/// and each open that the kernel will end with a RELEASE one day. Only what the kernel holds is kept here:
/// node ids are the index's.
///
/// A daemon may die between any two instructions: what it wrote before is there, what it was writing is not
/// (each entry becomes valid by its last store). Numbers of opens (tickets) are never used twice, so that a
/// RELEASE which comes a second time ends nothing else.
///
/// One daemon at a time writes. Opens: one thread at a time, under a lock of the caller's; the rest is
/// thread-safe. Sparse: 32 bytes for each file that was open at the same time, and two pages.
class ConnectionRecord {
  public:
    /// Files that may be open at a time.
    static constexpr std::uint32_t kMostOpens = 1U << 22;

    static Result<std::unique_ptr<ConnectionRecord>> make();
    /// One that another process has made, another version of this program perhaps: EPROTO when that keeps it
    /// in another form.
    static Result<std::unique_ptr<ConnectionRecord>> attach(FileDescriptor file);
    /// The memory, for attach() in another process.
    [[nodiscard]] int descriptor() const { return file_.get(); }
    ~ConnectionRecord();
    ConnectionRecord(const ConnectionRecord&) = delete;
    ConnectionRecord& operator=(const ConnectionRecord&) = delete;

    // ---- negotiation

    /// The FUSE_INIT request of the kernel, before it is answered. One that is too long is not kept.
    void keep_init(std::span<const std::byte> request, std::uint32_t stack_depth);
    /// The kernel took the answer.
    void confirm_init();
    /// That request; empty before it was answered, so nothing can be taken over.
    [[nodiscard]] std::span<const std::byte> init() const;
    /// Whether another daemon could serve the connection: the kernel sends again what is under way.
    [[nodiscard]] bool can_be_taken_over() const;
    /// Of files passed through, as it was negotiated; 0: none are.
    [[nodiscard]] std::uint32_t stack_depth() const;

    /// The kernel opens files without asking, from now on.
    void set_opens_without_asking();
    [[nodiscard]] bool opens_without_asking() const;

    /// Somebody reads with O_DIRECT what is not aligned.
    void set_reads_unaligned();
    [[nodiscard]] bool reads_unaligned() const;

    /// The kernel checks access control lists, from FUSE_INIT on.
    void set_checks_acls();
    [[nodiscard]] bool checks_acls() const;

    // ---- the daemons

    /// The session number of the first daemon's names (Namespace::open); 0: not there yet.
    void set_names_session(std::uint64_t session);
    [[nodiscard]] std::uint64_t names_session() const;

    /// Which index the node ids stand in, of the first daemon; at most 64 characters are kept.
    void set_index_identity(const std::string& identity);
    [[nodiscard]] std::string index_identity() const;

    void count_restart();
    [[nodiscard]] std::uint64_t restarts() const;
    /// Daemons that were replaced by another program while they served.
    void count_reload();
    [[nodiscard]] std::uint64_t reloads() const;
    /// CLOCK_BOOTTIME of make(), in nanoseconds.
    [[nodiscard]] std::int64_t started_ns() const;

    // ---- opens

    struct Open {
        std::uint64_t ticket = 0;
        std::uint64_t node = 0;
        std::uint64_t unique = 0;     ///< of the request, without kResent
        std::int32_t backing_id = 0;  ///< 0: not passed through
        std::uint64_t bytes = 0;      ///< of the file that is passed through
    };
    /// Before the OPEN is answered. Its ticket, greater than 0 and smaller than 2^56; 0: too many are open.
    [[nodiscard]] std::uint64_t add_open(std::uint64_t node, std::uint64_t unique, std::int32_t backing_id,
                                         std::uint64_t bytes = 0);
    /// False: there is no such open (any more).
    bool remove_open(std::uint64_t ticket);
    void remove_all_opens();
    [[nodiscard]] std::vector<Open> opens() const;
    /// The open that the request with this number made.
    [[nodiscard]] std::optional<Open> find_open(std::uint64_t unique) const;

  private:
    struct Header;
    struct Slot;
    ConnectionRecord(FileDescriptor file, Header* header);
    static Result<void*> map(const FileDescriptor& file);
    [[nodiscard]] Slot& slot(std::uint32_t index) const;
    [[nodiscard]] Open open_in(std::uint32_t index) const;

    FileDescriptor file_;
    Header* header_;
    /// This process's own: slots that are free below the highest ever used.
    std::vector<std::uint32_t> free_;
    bool has_looked_ = false;
    void look_for_free();
};

}  // namespace tierfs
