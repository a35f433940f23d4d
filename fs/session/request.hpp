// One request of the kernel, answered exactly once.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "fs/session/replies.hpp"
#include "fs/session/session.hpp"

namespace tierfs {

/// Holds a request until it is answered, from whichever thread. Shared by pointer, because the callbacks of
/// the floors below are copyable. One that nobody answered (a callback was dropped) is answered with EIO when
/// its last owner goes. The watchdog may be first (a deadline passed, the reader was killed): then what comes
/// later is dropped. Not thread-safe but for that: one owner at a time answers.
class Request {
  public:
    /// On the thread that read it.
    explicit Request(fuse_req_t raw, Subject subject = {}) : raw_(raw), session_(Session::of(raw)) {
        session_.in_flight().enter();
        session_.requests().add(entry_, raw, Session::current(), std::move(subject));
    }
    ~Request() { error(EIO); }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    /// Tells more of it to who looks at what is late.
    void is_about(Subject subject) {
        if (raw_ != nullptr) session_.requests().describe(entry_, std::move(subject));
    }

    /// `code`: an errno. What no system call on a file system returns becomes EIO; ECANCELED, which says that
    /// the mount is ending, becomes ENOTCONN.
    void error(int code) {
        if (code == ECANCELED) code = ENOTCONN;
        if (code <= 0 || code > 511) code = EIO;  // the kernel refuses others, and the reader would hang
        answer([code](fuse_req_t raw) { return ::fuse_reply_err(raw, code); });
    }
    /// False: nobody took it.
    bool ok() {
        return answer([](fuse_req_t raw) { return ::fuse_reply_err(raw, 0); });
    }
    /// From now on it waits for what some process does, however long that takes. A signal ends it (EINTR),
    /// and the end of the mount. False: a signal has come already; it is answered.
    bool waits() {
        if (session_.requests().wait(entry_, ::fuse_req_interrupted)) return true;
        error(EINTR);
        return false;
    }
    /// It has what it waited for, if it did: a signal ends it no more. False: it is answered, so that nobody
    /// will hear of what it has got.
    [[nodiscard]] bool granted() { return raw_ != nullptr && session_.requests().end_wait(entry_); }
    /// Whether who asked still waits for an answer.
    [[nodiscard]] bool is_wanted() { return raw_ != nullptr && session_.requests().is_there(entry_); }
    /// False: nobody took it (the reader was killed, or the watchdog was first), so no RELEASE will come.
    bool opened(const OpenReply& open) {
        return answer([&](fuse_req_t raw) {
            return ::fuse_reply_buf(raw, reinterpret_cast<const char*>(&open), sizeof(open));  // NOLINT
        });
    }
    /// False: nobody took it, so the kernel counts no look-up.
    bool entry(const fuse_entry_param& entry) {
        return answer([&](fuse_req_t raw) { return ::fuse_reply_entry(raw, &entry); });
    }
    /// False: neither a look-up nor an open was counted.
    bool created(const fuse_entry_param& entry, const OpenReply& open) {
        return bytes(created_reply(entry, open));
    }
    void written(std::size_t bytes) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_write(raw, bytes); });
    }
    void offset(std::uint64_t offset) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_lseek(raw, static_cast<off_t>(offset)); });
    }
    void attributes(const struct stat& attributes, double valid_s) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_attr(raw, &attributes, valid_s); });
    }
    void lock(const struct flock& found) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_lock(raw, &found); });
    }
    void link(const char* target) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_readlink(raw, target); });
    }
    /// False: nobody took them.
    bool bytes(std::span<const char> data) {
        return answer([&](fuse_req_t raw) { return ::fuse_reply_buf(raw, data.data(), data.size()); });
    }
    void pieces(std::span<const iovec> vector) {
        answer([&](fuse_req_t raw) {
            return vector.empty() ? ::fuse_reply_buf(raw, nullptr, 0)
                                  : ::fuse_reply_iov(raw, vector.data(), static_cast<int>(vector.size()));
        });
    }
    void xattr_size(std::size_t size) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_xattr(raw, size); });
    }
    void statfs(const struct statvfs& values) {
        answer([&](fuse_req_t raw) { return ::fuse_reply_statfs(raw, &values); });
    }

  private:
    // A reply that the kernel no longer wants (ENOENT) or can no longer take (ENODEV) is nobody's error.
    template <typename Reply>
    bool answer(Reply reply) {
        if (raw_ == nullptr) return false;
        auto* const raw = std::exchange(raw_, nullptr);
        if (!session_.requests().take(entry_)) return false;  // libfuse has freed it
        const bool taken = reply(raw) == 0;
        session_.in_flight().leave();
        return taken;
    }

    fuse_req_t raw_;
    Session& session_;
    RequestTable::Entry entry_;
};

using RequestPtr = std::shared_ptr<Request>;

}  // namespace tierfs
