// fs/session/: the connection with the kernel. Session reads requests from /dev/fuse, Request answers one of
// them, Invalidator tells the kernel what to forget. fs/readonly, fs/readwrite, fs/observe and fs/daemon use it.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"
#include "config/base/result.hpp"
#include "fs/session/connection_record.hpp"
#include "fs/session/init_patch.hpp"
#include "fs/session/request_table.hpp"

namespace tierfs {

/// Counts requests that the kernel waits for. Thread-safe.
class InFlight {
  public:
    void enter() { count_.fetch_add(1); }
    void leave();
    /// True when none is left before the time is over.
    bool wait_until_none(std::chrono::milliseconds patience);
    [[nodiscard]] std::uint64_t count() const { return count_.load(); }

  private:
    std::atomic<std::uint64_t> count_{0};
    Mutex mutex_;
    std::condition_variable none_;
};

/// What a Session hands requests to: libfuse's table of operations and the pointer they get.
struct SessionHandlers {
    const fuse_lowlevel_ops* operations = nullptr;
    void* user = nullptr;  ///< what user_of(request) returns
    /// What needs no handler, by opcode: kAsk: hand it to libfuse; 0: no reply is due; else the errno to
    /// reply. Spares libfuse's making of a request. May be null.
    int (*at_once)(std::uint32_t opcode) = nullptr;
    static constexpr int kAsk = -1;
    std::uint32_t stack_depth = 0;  ///< of files passed through; 0: none are (init_patch.hpp)
    /// The handlers clear set-user-ID and set-group-ID bits of what is written to, so the kernel need not ask
    /// for them before each write.
    bool clears_set_id_bits = false;
    /// Not 0: handlers block, perhaps for good, in what they ask. Then one thread is always kept from them:
    /// it answers ETIMEDOUT to what finds all others busy for that long, and at once while they are held.
    std::chrono::milliseconds patience{0};
    /// Whatever is asked waits for a source that is away, however long: nothing is answered for being late
    /// (takes_its_time does not matter then). Those who are killed end all the same, also while they close
    /// what they had open.
    bool waits_for_ever = false;
    /// What may take longer than one operation, by opcode.
    bool (*takes_its_time)(std::uint32_t opcode) = &tierfs::takes_its_time;
    /// Where the negotiation is kept for the next daemon, or where an earlier one left it: then the session
    /// takes that connection over. May be null.
    ConnectionRecord* record = nullptr;
};

/// A FUSE session on a /dev/fuse descriptor that somebody else mounted: libfuse speaks the protocol, our own
/// threads read requests (fuse_session_custom_io). Replies may be sent from any thread.
///
/// The threads sleep in a blocking read: its wake-ups are exclusive, those of poll are not. They end when the
/// mount is gone, which `ended()` tells (an eventfd becomes readable), or by stop(). Units: threads.
/// Thread-safety: start and stop from one thread. `handlers` must outlive the session.
class Session {
  public:
    static Result<std::unique_ptr<Session>> open(FileDescriptor device, const SessionHandlers& handlers);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// How many threads read requests: `least` from the start, up to `most` while those there are wait for something,
    /// until they have nothing to do for some time.
    struct Threads {
        unsigned least, most;
    };
    /// Of a connection that was served before, the kernel sends again what was under way.
    Result<void> start(Threads threads);
    /// Waits until the kernel has taken the reply to FUSE_INIT: settings of the mount in sysfs hold only
    /// then.
    bool wait_until_initialised(std::chrono::milliseconds patience);
    /// Whether the connection passes files through: wanted, and offered by the kernel. Once initialised.
    [[nodiscard]] bool passes_through() const {
        return handlers_.stack_depth != 0 && offers_passthrough(init_offer_);
    }
    /// Ends the threads; requests that are not answered yet stay valid. Idempotent. False: some are held by
    /// what they ask beyond the patience; the session must then not be destroyed.
    bool stop(std::chrono::milliseconds patience = std::chrono::hours(24));
    /// What is not answered yet is another daemon's to answer: replies from now on are not written, and the
    /// kernel sends those requests again when it is asked to. Notifications are. Stopped before.
    void leave_the_rest() { leaves_ = true; }

    [[nodiscard]] bool takes_its_time(std::uint32_t opcode) const {
        return handlers_.waits_for_ever || handlers_.takes_its_time(opcode);
    }
    [[nodiscard]] bool waits_for_ever() const { return handlers_.waits_for_ever; }

    [[nodiscard]] int ended() const { return ended_.get(); }
    [[nodiscard]] fuse_session* raw() const { return session_; }
    [[nodiscard]] int device() const { return ::fuse_session_fd(session_); }
    /// It ended since /dev/fuse could not be read or a reply was lost, not since somebody unmounted.
    [[nodiscard]] bool broken() const { return broken_; }
    [[nodiscard]] InFlight& in_flight() { return in_flight_; }
    [[nodiscard]] RequestTable& requests() { return requests_; }

    /// What the calling thread of a session has just read; empty on other threads.
    static const RequestInfo& current();

    /// What threads are in the middle of, answered or not, and which sleep until a request comes.
    [[nodiscard]] std::vector<RequestInfo> busy_threads() const;
    [[nodiscard]] std::vector<pid_t> idle_threads() const;
    [[nodiscard]] bool is_busy_with(pid_t thread, std::uint64_t unique) const;

    /// Messages of the kernel since the start, by opcode_name.
    [[nodiscard]] std::map<std::string, std::uint64_t> messages() const;

    static Session& of(fuse_req_t request);
    template <typename T>
    static T& user_of(fuse_req_t request) {
        return *static_cast<T*>(of(request).handlers_.user);
    }

    /// The same in the handler of FUSE_INIT, which gets no request but this pointer.
    template <typename T>
    static T& user_at_init(void* session) {
        return *static_cast<T*>(static_cast<Session*>(session)->handlers_.user);
    }

    /// max(4, 2 x processors), at most 16.
    static unsigned default_threads();

  private:
    Session(const SessionHandlers& handlers, FileDescriptor ended);
    static constexpr std::uint32_t kOpcodes = 64;
    static constexpr pid_t kStarting = -1;
    /// What one thread does, for others to see. Numbers are set first, `since` last; 0: nothing. `thread` 0: there is none; kStarting: it
    /// does not know itself yet.
    struct Busy {
        std::atomic<pid_t> thread{0};
        std::atomic<std::uint64_t> unique{0}, node{0};
        std::atomic<std::uint32_t> opcode{0};
        std::atomic<pid_t> asker{0};
        std::atomic<RequestInfo::Clock::rep> since{0};
        std::array<std::atomic<std::uint64_t>, kOpcodes> messages{};  ///< by opcode; 0: any other
    };

    Result<void> replay_init();
    Result<void> ask_for_resend();
    void serve(Busy& busy);
    bool start_thread(std::size_t place);
    /// Adds threads while all there are wait, and takes them away again; runs on `grower_`.
    void keep_width();
    void call_for_more();
    bool grow();
    void shrink();
    [[nodiscard]] bool most_wait() const;
    /// Whether the calling thread is one that is not needed any more.
    bool is_to_leave();
    bool receive(std::span<std::byte> buffer, Busy& busy);
    bool answered_at_once(const fuse_in_header& header);
    /// Who waits for that request got a signal.
    void interrupt(std::uint64_t unique);
    void reply_error(std::uint64_t unique, int code);
    /// Waits for its turn to block. Not 0: the errno to reply, since it would never come, or `asker` was
    /// killed.
    int take_turn(pid_t asker);
    /// At least so many have been busy for the patience, with what does not take its time.
    [[nodiscard]] bool are_held(unsigned threads) const;
    void process(std::span<std::byte> request, Busy& busy);
    ssize_t write_reply(int descriptor, iovec* vector, int count);
    ssize_t write_init_reply(int descriptor, const iovec* vector);
    void reply_lost(int descriptor, const iovec& first);
    /// The mount must be given up: ended() becomes readable.
    void tell_end() const;

    SessionHandlers handlers_;
    const bool takes_over_;
    fuse_session* session_ = nullptr;
    FileDescriptor ended_;
    InFlight in_flight_;
    RequestTable requests_;
    std::vector<std::unique_ptr<Busy>>
        busy_;  ///< one for each thread that there may be, fixed before the first
    std::atomic<bool> stopping_{false}, broken_{false}, leaves_{false};
    std::atomic<unsigned> running_{0};
    std::atomic<unsigned> reading_{0};   ///< threads that a request finds asleep
    std::atomic<unsigned> surplus_{0};   ///< threads that are to leave
    std::atomic<bool> crowded_{false};   ///< the last thread that slept has got a request
    std::atomic<unsigned> blocking_{0};  ///< threads that may be blocked by a handler
    unsigned least_ = 0;
    std::vector<std::thread> threads_;  ///< in the places of busy_; start's, then the grower's, then stop's
    bool may_grow_ = false;             ///< set before the first of them
    std::thread grower_;
    // Written by the one thread that reads FUSE_INIT, before it replies: no other request comes earlier.
    InitOffer init_offer_;
    std::atomic<std::uint64_t> init_unique_{0};
    Mutex mutex_;
    std::condition_variable initialised_changed_, crowd_;
    bool initialised_ TIERFS_GUARDED_BY(mutex_) = false;
    bool replaying_ = false;  ///< before there are threads: the reply to FUSE_INIT is not for the kernel
};

}  // namespace tierfs
