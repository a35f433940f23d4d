#include "backends/nfs/resolver.hpp"

namespace tierfs::nfs {
namespace {

constexpr unsigned kMostRestarts = 2;

std::string parent_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

}  // namespace

struct Resolver::Walk {
    std::string path;
    bool asks_last = false;  ///< the last name is looked up even when it is known
    Effort effort;
    Done done;
    std::size_t at = 0;  ///< `handle` is that of the first so many bytes of the path
    Handle handle;
    std::optional<FileAttributes3> attributes;
    unsigned restarts = 0;
};

void Resolver::directory(const std::string& path, const Effort& effort, Done done) {
    auto walk = std::make_shared<Walk>();
    walk->path = path;
    walk->effort = effort;
    walk->done = std::move(done);
    begin(walk);
}

void Resolver::look_up(const std::string& path, const Effort& effort, Done done) {
    auto walk = std::make_shared<Walk>();
    walk->path = path;
    walk->asks_last = true;
    walk->effort = effort;
    walk->done = std::move(done);
    begin(walk);
}

void Resolver::begin(const std::shared_ptr<Walk>& walk) {
    std::string known = walk->asks_last ? parent_of(walk->path) : walk->path;
    for (; !known.empty(); known = parent_of(known)) {
        const auto found = handles_.find(known);
        if (!found || Clock::now() - found->since > trust_) continue;
        walk->handle = found->handle;
        walk->at = known.size();
        return step(walk);
    }
    root_.get(walk->effort.deadline, [this, walk](Result<Handle> root) {
        if (!root) return walk->done(fail(std::move(root.error())));
        walk->handle = std::move(*root);
        walk->at = 0;
        step(walk);
    });
}

void Resolver::step(const std::shared_ptr<Walk>& walk) {
    if (walk->at >= walk->path.size()) return walk->done(Found{walk->handle, walk->attributes});
    const auto from = walk->at == 0 ? 0 : walk->at + 1;
    const auto end = std::min(walk->path.find('/', from), walk->path.size());
    const auto name = walk->path.substr(from, end - from);
    if (name.size() > 255) return walk->done(fail(ENAMETOOLONG, "a name of '" + walk->path + "'"));
    Call call;
    call.procedure = kLookup;
    call.arguments = lookup_arguments(walk->handle, name);
    call.deadline = walk->effort.deadline;
    call.priority = walk->effort.priority;
    call.done = [this, walk, end](Result<Reply> reply) { took(walk, end, std::move(reply)); };
    client_.start(std::move(call));
}

void Resolver::took(const std::shared_ptr<Walk>& walk, std::size_t end, Result<Reply> answer) {
    if (!answer) return walk->done(fail(answer.error().within("LOOKUP of '" + walk->path + "'")));
    XdrReader in(answer->body);
    auto reply = read_lookup(in);
    if (!in.ok()) return walk->done(fail(EIO, "LOOKUP of '" + walk->path + "': the reply makes no sense"));
    if (reply.status == kStale || reply.status == kBadHandle) {
        distrust(walk->path.substr(0, walk->at), walk->handle);
        if (walk->restarts++ < kMostRestarts) return begin(walk);
    }
    const auto so_far = walk->path.substr(0, end);
    if (reply.status != kOk) {
        handles_.drop(so_far);
        return walk->done(
            fail(to_errno(reply.status), "LOOKUP of '" + so_far + "': " + status_name(reply.status)));
    }
    handles_.put(so_far, reply.handle);
    walk->handle = std::move(reply.handle);
    walk->attributes = std::move(reply.attributes);
    walk->at = end;
    step(walk);
}

void Resolver::distrust(const std::string& path, const Handle& stale) {
    for (auto known = path; !known.empty(); known = parent_of(known)) handles_.drop(known);
    root_.forget(stale);
}

}  // namespace tierfs::nfs
