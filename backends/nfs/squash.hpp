// Calls of root to a server that takes root for nobody: they are made again as owners of files.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "backends/nfs/connection.hpp"

namespace tierfs::nfs {

/// Most servers take root for nobody (root_squash). What they refuse to root is asked for again as the owner
/// of the file that the call is about (Call::owned_by), of whom AUTH_SYS says no more than the number: the
/// kernel has checked by mode, owner and groups that the caller may do it. Where root owns it, it is asked
/// for as nobody in its group, if that is not root's, too. What makes a name is never asked for so: it would
/// belong to somebody else.
///
/// Whose owner was listened to is known from then on, and asked as the owner at once. Thread-safe; nothing
/// blocks.
class Squash {
  public:
    /// `send` gives a call to a connection. It must work for as long as calls may end.
    explicit Squash(std::function<void(Call)> send) : send_(std::move(send)) {}

    /// `call.credential` is empty.
    void start(Call call);

    /// A call that root was refused has been carried out for an owner.
    [[nodiscard]] bool is_found() const { return is_found_; }
    /// Where is_found(): as whom calls about that file are made first.
    void remember(const Handle& file, const std::string& credential);

  private:
    struct Asking;
    using AskingPtr = std::shared_ptr<Asking>;

    void send(const AskingPtr& asking);
    void took(const AskingPtr& asking, Result<Reply> reply);
    void ask_as_next(const AskingPtr& asking);
    void found_owner(const AskingPtr& asking, const Result<Reply>& reply);
    std::string known(const Handle& file);
    void forget(const Handle& file);

    const std::function<void(Call)> send_;
    std::atomic<bool> is_found_ = false;
    Mutex mutex_;
    std::unordered_map<Handle, std::string> known_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::nfs
