#include "fs/daemon/readwrite_engine.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <utility>

#include "config/base/log.hpp"

namespace tierfs {

namespace {

constexpr unsigned kThreads = 16;                   // at least, since handlers block
constexpr unsigned kMostThreads = 256;              // uploads hold a thread each
constexpr std::uint64_t kMemoryOfThread = 4 << 20;  // of memory.limit; a write is 1 MiB at most

}  // namespace

Result<std::unique_ptr<Engine>> ReadwriteEngine::open(Origin& origin, Namespace& names, Store& store,
                                                      const Settings& settings, Records records,
                                                      std::string directory, std::string mount_device) {
    auto opened = LiveOperations::open(*origin.posix(), store, origin.identity(), settings,
                                       std::move(mount_device), records.live);
    if (!opened) return fail(std::move(opened.error()));
    auto& operations = **opened;
    for (auto& [open, file] : records.kept) {
        auto share = operations.shares().take(open.opener, descriptors_of(open.flags));
        const auto taken = operations.files().restore(open, std::move(file),
                                                      share ? std::move(*share) : DescriptorShares::Share());
        if (!taken) return fail(taken.error().within("taking an open file over"));
    }
    return std::unique_ptr<Engine>(
        new ReadwriteEngine(names, settings, records.connection, std::move(directory), std::move(*opened)));
}

// Without a LiveRecord no daemon takes over: it could not tell requests that were done from those that were not.
SessionHandlers ReadwriteEngine::handlers() {
    constexpr auto kMargin = std::chrono::seconds(1);  // for an answer on its way when the deadline passes
    SessionHandlers handlers{&LiveOperations::table(), operations_.get(), &LiveOperations::at_once};
    if (operations_->record() != nullptr) handlers.record = &record_;
    handlers.clears_set_id_bits = true;
    handlers.patience = settings_.origin_deadline + kMargin;
    if (!operations_->origin().answers_cheaply()) handlers.takes_its_time = &changes_take_their_time;
    return handlers;
}

Session::Threads ReadwriteEngine::threads() const {
    return {kThreads, static_cast<unsigned>(std::clamp<std::uint64_t>(
                          settings_.memory_limit / kMemoryOfThread, kThreads, kMostThreads))};
}

std::string ReadwriteEngine::against_passthrough() const {
    struct statfs found {};
    const bool is_known = !directory_.empty() && ::statfs(directory_.c_str(), &found) == 0;
    return against_live_passthrough(settings_.writes_passthrough, operations_->origin().against_passthrough(),
                                    is_known ? found.f_type : 0);
}

void ReadwriteEngine::allow_passthrough(Session& session, std::string against) {
    auto& passthrough = operations_->files().passthrough();
    if (against.empty() && !session.passes_through())
        against = "the kernel does not offer it: Linux 6.9 or later does";
    backing_ids_ = std::make_unique<KernelBackingIds>(session.device());
    if (against.empty()) {
        if (const auto tried = try_backing_ids(*backing_ids_); !tried) against = tried.error().message;
    }
    passthrough.allow(*backing_ids_, operations_->device());
    if (against.empty()) return;
    if (settings_.writes_passthrough == "true")
        log::warning("writes.passthrough=true cannot be had, each write is answered by the daemon: " +
                     against);
    passthrough.forbid(std::move(against));
}

void ReadwriteEngine::add_status(StatusInputs& in) {
    in.profile = profile_.status(names_.file_sizes(), 0);
    in.writes = operations_->files().stats();
    in.failures = operations_->last_error().get();
    in.passthrough = operations_->files().passthrough().status();
    in.store.read_requests += in.writes.read_requests;
    in.store.read_bytes += in.writes.read_bytes;
    in.store.read_errors += in.writes.read_errors;
    in.store.origin_bytes += in.writes.read_bytes;
    in.names.known_nodes = operations_->nodes().known();
    const auto origin = operations_->origin().stats();
    in.names.hidden = origin.hidden;
    in.dirty_bytes = origin.dirty_bytes;
    in.oldest_dirty_s = origin.oldest_dirty_s;
    in.queue = origin.queue;
    if (!operations_->origin().answers_cheaply()) in.writes.write_errors += origin.errors;
}

}  // namespace tierfs
