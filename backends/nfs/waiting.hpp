// For callers that block.
#pragma once

#include <condition_variable>
#include <memory>
#include <optional>

#include "backends/nfs/client.hpp"
#include "config/base/delivery.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::nfs {

/// One answer that somebody waits for. Copies are the same answer: what comes after the wait was given up is
/// dropped with the last of them.
template <typename T>
class Answer {
  public:
    void give(Result<T> value) const {
        const MutexLock lock(state_->mutex);
        state_->value = std::move(value);
        state_->ready.notify_all();
    }

    /// ETIMEDOUT when nothing has come a second after the deadline, which who answers knows too. EDEADLK: see
    /// may_wait_for. Where the answer goes to memory of the caller, that is asked before the call is sent.
    Result<T> wait(Clock::time_point deadline) const {
        if (auto may = may_wait_for("the NFS server"); !may) return fail(std::move(may.error()));
        MutexLock lock(state_->mutex);
        while (!state_->value) {
            if (lock.wait_until(state_->ready, deadline + std::chrono::seconds(1)) == std::cv_status::timeout)
                return fail(ETIMEDOUT, "the NFS server did not answer before origin.deadline");
        }
        return std::move(*state_->value);
    }

  private:
    struct State {
        Mutex mutex;
        std::condition_variable ready;
        std::optional<Result<T>> value TIERFS_GUARDED_BY(mutex);
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Sends a call and waits: what `parse` makes of the reply's own part. EIO with `what` when it does not fit.
template <typename T>
Result<T> ask(Client& client, Call call, const std::string& what, T (*parse)(XdrReader&)) {
    if (auto may = may_wait_for(what); !may) return fail(std::move(may.error()));
    const Answer<T> answer;
    const auto deadline = call.deadline;
    call.done = [answer, what, parse](Result<Reply> reply) {
        if (!reply) return answer.give(fail(reply.error().within(what)));
        XdrReader in(reply->body);
        T value = parse(in);
        if (in.ok()) return answer.give(std::move(value));
        answer.give(fail(EIO, what + ": the reply makes no sense"));
    };
    client.start(std::move(call));
    return answer.wait(deadline);
}

}  // namespace tierfs::nfs
