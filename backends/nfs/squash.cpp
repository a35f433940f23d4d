#include "backends/nfs/squash.hpp"

#include <utility>
#include <vector>

#include "backends/nfs/xdr.hpp"
#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr std::size_t kMostKnown = 16384;  ///< files; those that are forgotten cost two requests more
constexpr std::uint32_t kNobody = 65534;

bool makes_a_name(const Procedure& procedure) {
    return procedure == kCreate || procedure == kMkdir || procedure == kSymlink || procedure == kMknod;
}

bool is_refused(const Call& call, const Reply& reply) {
    const auto status = call.procedure == kRead ? reply.read.status : XdrReader(reply.body).u32();
    return status == kNoAccess || status == kNotOwner;
}

/// The file or directory that a call is about stands first in its arguments.
Handle first_handle(const Call& call) {
    XdrReader in(std::as_bytes(std::span(call.arguments)));
    return Handle(in.opaque(kLongestHandle));
}

}  // namespace

/// A call that may be made several times.
struct Squash::Asking {
    Call call;  ///< without its `done`
    std::function<void(Result<Reply>)> done;
    std::size_t next = 0;   ///< of call.owned_by
    bool is_known = false;  ///< asked as whom was listened to before
    std::optional<Reply> refusal;
    std::vector<std::byte> body;  ///< of the refusal
};

void Squash::start(Call call) {
    if (makes_a_name(call.procedure)) return send_(std::move(call));
    auto asking = std::make_shared<Asking>();
    asking->done = std::exchange(call.done, nullptr);
    asking->call = std::move(call);
    auto& files = asking->call.owned_by;
    if (files.empty()) files.push_back(first_handle(asking->call));
    if (is_found_) asking->call.credential = known(files.front());
    asking->is_known = !asking->call.credential.empty();
    send(asking);
}

void Squash::send(const AskingPtr& asking) {
    Call call = asking->call;
    call.done = [this, asking](Result<Reply> reply) { took(asking, std::move(reply)); };
    send_(std::move(call));
}

void Squash::took(const AskingPtr& asking, Result<Reply> reply) {
    auto& call = asking->call;
    if (!reply || !is_refused(call, *reply)) {
        const bool is_as_first = asking->next == 1 && !call.credential.empty();
        if (reply && is_as_first) {
            if (!is_found_.exchange(true))
                log::info(
                    "nfs: the server takes root for nobody (root_squash): what it refuses to root is asked "
                    "for as the owner of each file");
            remember(call.owned_by.front(), call.credential);
        }
        return asking->done(std::move(reply));
    }
    if (asking->is_known) {  // it may have another owner now
        asking->is_known = false;
        forget(call.owned_by.front());
        call.credential.clear();
        return send(asking);
    }
    if (!asking->refusal) {
        asking->refusal = *reply;
        asking->body.assign(reply->body.begin(), reply->body.end());
        asking->refusal->body = asking->body;
    }
    ask_as_next(asking);
}

void Squash::ask_as_next(const AskingPtr& asking) {
    const auto& files = asking->call.owned_by;
    if (asking->next == files.size()) return asking->done(*asking->refusal);
    Call call;
    call.procedure = kGetattr;
    call.arguments = handle_arguments(files[asking->next++]);
    call.priority = asking->call.priority;
    call.deadline = asking->call.deadline;
    call.done = [this, asking](Result<Reply> reply) { found_owner(asking, reply); };
    send_(std::move(call));
}

void Squash::found_owner(const AskingPtr& asking, const Result<Reply>& reply) {
    if (!reply) return asking->done(fail(reply.error()));
    XdrReader in(reply->body);
    const auto told = read_getattr(in);
    if (!in.ok() || told.status != kOk) return ask_as_next(asking);
    const auto& owner = told.attributes.attributes;
    if (owner.uid == 0 && owner.gid == 0) return ask_as_next(asking);
    asking->call.credential =
        auth_sys("tierfs", owner.uid == 0 ? kNobody : owner.uid, owner.gid, asking->call.groups);
    send(asking);
}

std::string Squash::known(const Handle& file) {
    const MutexLock lock(mutex_);
    const auto found = known_.find(file);
    return found == known_.end() ? std::string() : found->second;
}

void Squash::remember(const Handle& file, const std::string& credential) {
    if (!is_found_) return;
    const MutexLock lock(mutex_);
    if (known_.size() >= kMostKnown) known_.clear();
    known_.insert_or_assign(file, credential);
}

void Squash::forget(const Handle& file) {
    const MutexLock lock(mutex_);
    known_.erase(file);
}

}  // namespace tierfs::nfs
