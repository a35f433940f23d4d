// One TCP connection to an NFS server, and the thread that owns it.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <unordered_map>

#include "backends/http/admission.hpp"
#include "backends/nfs/address.hpp"
#include "backends/nfs/reply_stream.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::nfs {

using Clock = std::chrono::steady_clock;

/// A remote procedure call. What it points to stays valid until `done`.
struct Call {
    Procedure procedure;
    std::string arguments;
    std::span<const std::byte> payload;  ///< of WRITE: sent after the arguments, filled up to four bytes
    std::span<std::byte> destination;    ///< of READ: where its bytes go
    Priority priority = Priority::demand;
    Clock::time_point deadline = Clock::time_point::max();
    /// As whom, when not as the connection does (ConnectionOptions::credential); see auth_sys.
    std::string credential;
    /// Files as whose owners it may be made, in turn, where root is refused it (Squash); none: the one that
    /// stands first in the arguments.
    std::vector<std::string> owned_by;
    std::vector<std::uint32_t> groups;  ///< that these owners have, too
    bool rests = false;                 ///< it is made half a second later
    /// The answer is lost with its connection: may it be asked again? Else ECONNRESET.
    bool repeatable = true;
    /// Once, on the connection's thread (Delivery); must not block. ETIMEDOUT: the deadline passed; EIO: what
    /// the server says makes no sense; ECANCELED after stop(); ECONNRESET (see above).
    std::function<void(Result<Reply>)> done;
};

/// What was sent and came; shared by all connections of a client.
struct Counters {
    std::atomic<std::uint64_t> get = 0, head = 0, list = 0, put = 0, remove = 0, other = 0, bytes_read = 0,
                               bytes_written = 0, retries = 0, errors = 0;
    void sent(const Procedure& procedure);
    Reachability reachability;  ///< of the server, by whichever of its addresses
};

struct ConnectionOptions {
    std::string credential;           ///< see auth_sys
    unsigned calls = 32;              ///< under way at a time, by priority (http::AdmissionQueue)
    std::size_t most_data = 1 << 20;  ///< of one READ
    /// Nothing comes for so long while calls wait: another connection is tried.
    std::chrono::milliseconds silence{10000};
    std::chrono::milliseconds slowest_reconnect{1000};  ///< between two attempts
};

/// Calls are sent in order of priority and matched with their replies by their xid. A connection that breaks,
/// falls silent or brings nonsense is made anew, and the calls whose answers are missing are sent again:
/// every call of NFS that reads can be. Until then they wait, each to its deadline. The connection is made
/// when there is something to send. A server that asks for patience (NFS3ERR_JUKEBOX: it fetches the file
/// from somewhere) is asked again. Thread-safe.
class Connection final : private ReplySink {
  public:
    Connection(ConnectionOptions options, Counters& counters);
    ~Connection() override;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Where the server is; calls wait until that is known. When the first does not take up a connection, or
    /// does not answer, the next one is tried, and so on, round and round.
    void set_addresses(std::vector<Address> addresses);

    void start(Call call);

    /// Calls that were started and are not done.
    [[nodiscard]] unsigned load() const { return load_; }

    /// Fails every call with ECANCELED and ends the thread; what is started later fails at once. Idempotent.
    void stop();

  private:
    struct Waiting {
        Call call;
        unsigned sent = 0;      ///< times
        unsigned nonsense = 0;  ///< broken connections that were the peer's fault
    };

    std::optional<Expected> expected(std::uint32_t xid) override;
    void replied(std::uint32_t xid, const Reply& reply) override;

    void run();
    bool take_inbox();
    void begin();
    void finish_connect();
    void end_rest();
    void fill_output();
    void flush();
    void receive();
    void lose(const Error& why, bool is_nonsense);
    void try_next_address();
    void expire();
    void finish(Waiting waiting, Result<Reply> result);
    void fail_all(const Error& error);
    [[nodiscard]] int poll_timeout() const;

    const ConnectionOptions options_;
    Counters& counters_;
    const FileDescriptor wake_;
    std::atomic<unsigned> load_ = 0;

    Mutex mutex_;
    std::vector<Call> inbox_ TIERFS_GUARDED_BY(mutex_);
    std::vector<Address> new_addresses_ TIERFS_GUARDED_BY(mutex_);
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;

    // Of the thread alone.
    std::vector<Address> given_;      ///< all of them
    std::size_t at_ = 0;              ///< of given_
    std::optional<Address> address_;  ///< that one
    FileDescriptor socket_;
    bool connected_ = false;
    std::optional<ReplyStream> stream_;
    http::AdmissionQueue<Waiting> queue_;
    std::unordered_map<std::uint32_t, Waiting> in_flight_;
    std::deque<std::pair<Clock::time_point, Waiting>>
        resting_;  ///< NFS3ERR_JUKEBOX: asked again from then on
    std::uint32_t next_xid_;
    std::string output_;
    std::size_t output_sent_ = 0;
    Clock::time_point last_heard_, next_attempt_, next_look_;
    std::chrono::milliseconds backoff_{0};
    Error last_error_{EIO, ""};

    Mutex joining_;
    std::thread thread_ TIERFS_GUARDED_BY(joining_);
};

}  // namespace tierfs::nfs
