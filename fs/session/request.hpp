// One request of the kernel, answered exactly once.
#pragma once

#include <span>
#include <string_view>

#include "fs/session/session.hpp"

namespace tierfs {

/// Holds a request until it is answered, from whichever thread. Shared by pointer, because the callbacks of
/// the floors below are copyable. One that nobody answered (a callback was dropped) is answered with EIO when
/// its last owner goes, so that no reader ever hangs. Not thread-safe: one owner at a time answers.
class Request {
  public:
    explicit Request(fuse_req_t raw) : raw_(raw), in_flight_(Session::of(raw).in_flight()) {
        in_flight_.enter();
    }
    ~Request() {
        if (raw_ != nullptr) error(EIO);
    }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    /// `code`: an errno. What no system call on a file system returns becomes EIO; ECANCELED, which says that
    /// the mount is ending, becomes ENOTCONN.
    void error(int code) {
        if (code == ECANCELED) code = ENOTCONN;
        if (code <= 0 || code > 511) code = EIO;  // the kernel refuses others, and the reader would hang
        answered(::fuse_reply_err(raw_, code));
    }
    void ok() { answered(::fuse_reply_err(raw_, 0)); }
    void entry(const fuse_entry_param& entry) { answered(::fuse_reply_entry(raw_, &entry)); }
    void attributes(const struct stat& attributes, double valid_s) {
        answered(::fuse_reply_attr(raw_, &attributes, valid_s));
    }
    void link(const char* target) { answered(::fuse_reply_readlink(raw_, target)); }
    void bytes(std::span<const char> data) { answered(::fuse_reply_buf(raw_, data.data(), data.size())); }
    void pieces(std::span<const iovec> vector) {
        answered(vector.empty() ? ::fuse_reply_buf(raw_, nullptr, 0)
                                : ::fuse_reply_iov(raw_, vector.data(), static_cast<int>(vector.size())));
    }
    void xattr_size(std::size_t size) { answered(::fuse_reply_xattr(raw_, size)); }
    void statfs(const struct statvfs& values) { answered(::fuse_reply_statfs(raw_, &values)); }

    [[nodiscard]] fuse_req_t raw() const { return raw_; }

  private:
    // A reply that the kernel no longer wants (ENOENT) or can no longer take (ENODEV) is nobody's error.
    void answered(int /*result*/) {
        raw_ = nullptr;
        in_flight_.leave();
    }

    fuse_req_t raw_;
    InFlight& in_flight_;
};

using RequestPtr = std::shared_ptr<Request>;

}  // namespace tierfs
