#include "tiering/stage/committer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <set>

#include "config/fault_point.hpp"
#include "tiering/stage/farm.hpp"
#include "tiering/stage/json_text.hpp"

namespace tierfs::stage {

namespace {

constexpr std::size_t kMostInBatch = 512;
constexpr std::size_t kWorthACommit = 256;
constexpr std::uint64_t kBytesWorthACommit = std::uint64_t{256} << 20;
constexpr std::size_t kMostWaiting = 1024;  // each holds a descriptor
constexpr std::chrono::milliseconds kPatience{200};
/// From here on one syncfs is cheaper than many fsyncs.
constexpr std::size_t kManyFiles = 4;

int rename_at(int from_folder, const std::string& from, int to_folder, const std::string& to, bool replace) {
    const unsigned flags = replace ? 0U : RENAME_NOREPLACE;
    return ::renameat2(from_folder, from.c_str(), to_folder, to.c_str(), flags);
}

}  // namespace

Committer::Committer(Destination& destination, ManifestWriter manifest, const Journal& journal,
                     const std::string& farm, Reporter& reporter)
    : destination_(destination),
      manifest_(std::move(manifest)),
      journal_(journal),
      farm_(farm),
      reporter_(reporter),
      thread_([this] { run(); }) {}

Committer::~Committer() {
    finish();
}

void Committer::finish() {
    {
        const MutexLock lock(mutex_);
        finishing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Committer::give(FinishedPart part) {
    {
        MutexLock lock(mutex_);
        while (waiting_.size() >= kMostWaiting) lock.wait(changed_);
        waiting_bytes_ += part.record.size;
        waiting_.push_back(std::move(part));
    }
    changed_.notify_all();
}

void Committer::run() {
    MutexLock lock(mutex_);
    for (;;) {
        while (waiting_.empty() && !finishing_) lock.wait(changed_);
        if (waiting_.empty()) return;
        const auto limit = std::chrono::steady_clock::now() + kPatience;
        while (!finishing_ && waiting_.size() < kWorthACommit && waiting_bytes_ < kBytesWorthACommit)
            if (lock.wait_until(changed_, limit) == std::cv_status::timeout) break;
        std::vector<FinishedPart> batch;
        while (!waiting_.empty() && batch.size() < kMostInBatch) {
            waiting_bytes_ -= waiting_.front().record.size;
            batch.push_back(std::move(waiting_.front()));
            waiting_.pop_front();
        }
        lock.unlock();
        changed_.notify_all();
        commit(batch);
        lock.lock();
    }
}

Result<void> Committer::sync_bytes(std::vector<FinishedPart>& batch) {
    if (batch.size() >= kManyFiles) {
        // Of the whole file system: the journal's lines too.
        if (TIERFS_FAULT_CALL("stage.syncfs", ::syncfs(destination_.root())) != 0)
            return fail(system_error(errno, "syncing " + destination_.path()));
        return {};
    }
    for (const auto& part : batch)
        if (part.fd && TIERFS_FAULT_CALL("stage.fsync", ::fsync(part.fd.get())) != 0)
            return fail(system_error(errno, "syncing '" + printable(part.record.path) + "'"));
    return journal_.sync();
}

bool Committer::check_shape(FinishedPart& part) {
    if (!part.fd) return true;
    drop_from_page_cache(part.fd.get());  // the page that the exact size went through
    auto verdict = check_extents(part.fd.get(), part.record.size);
    if (!verdict) {
        reporter_.failed(part.record.path, verdict.error());
        return false;
    }
    // Where the file system was forced upon us there is nothing to insist on.
    if (!verdict->problem.empty() && destination_.facts().is_suitable()) {
        reporter_.failed(part.record.path, Error{EIO, verdict->problem});
        static_cast<void>(::unlinkat(destination_.parts(), part.job.part.c_str(), 0));
        return false;
    }
    if (!verdict->warning.empty() && destination_.facts().is_suitable())
        reporter_.warning(printable(part.record.path) + ": " + verdict->warning);
    part.record.extents = verdict->extents;
    return true;
}

Result<void> Committer::name(FinishedPart& part, bool& made_folder, std::vector<FileDescriptor>& folders) {
    const std::string& path = part.record.path;
    auto parent = open_parent(destination_.root(), path, true, made_folder);
    if (!parent) return fail(parent.error());
    if (!part.job.under_final_name) {
        const int renamed =
            TIERFS_FAULT_CALL("stage.rename", rename_at(destination_.parts(), part.job.part, parent->get(),
                                                        name_in_parent(path), part.job.replaces));
        if (renamed != 0) {
            if (errno == EEXIST)
                return fail(EEXIST, "it came into being in " + destination_.path() +
                                        " meanwhile and is not of tierfs-stage: left alone");
            return fail(system_error(errno, "renaming it to its place in " + destination_.path()));
        }
    }
    folders.push_back(std::move(*parent));
    return {};
}

Result<void> Committer::sync_names(bool made_folder, const std::vector<FileDescriptor>& folders) {
    std::set<std::pair<dev_t, ino_t>> seen;
    std::vector<int> distinct;
    for (const auto& folder : folders) {
        struct stat status {};
        if (::fstat(folder.get(), &status) != 0) return fail(system_error(errno, "fstat"));
        if (seen.emplace(status.st_dev, status.st_ino).second) distinct.push_back(folder.get());
    }
    if (made_folder || distinct.size() >= kManyFiles) {
        if (::syncfs(destination_.root()) != 0)
            return fail(system_error(errno, "syncing " + destination_.path()));
        return {};
    }
    for (const int folder : distinct)
        if (::fsync(folder) != 0) return fail(system_error(errno, "syncing a folder"));
    return {};
}

void Committer::fail_all(const std::vector<FinishedPart>& batch, const Error& error) {
    for (const auto& part : batch) reporter_.failed(part.record.path, error);
}

void Committer::commit(std::vector<FinishedPart>& batch) {
    if (auto synced = sync_bytes(batch); !synced) return fail_all(batch, synced.error());
    bool made_folder = false;
    std::vector<FileDescriptor> folders;
    std::vector<FinishedPart> named;
    for (auto& part : batch) {
        if (!check_shape(part)) continue;
        if (auto done = name(part, made_folder, folders); !done) {
            reporter_.failed(part.record.path, done.error());
            continue;
        }
        named.push_back(std::move(part));
    }
    if (auto synced = sync_names(made_folder, folders); !synced) return fail_all(named, synced.error());
    std::vector<ManifestRecord> records;
    for (auto& part : named) {
        part.record.time = std::time(nullptr);
        records.push_back(part.record);
    }
    auto written = manifest_.append(records);
    if (written) written = manifest_.sync();
    if (!written) return fail_all(named, written.error());
    for (const auto& part : named) {
        ++reporter_.totals().files_staged;
        reporter_.totals().bytes_staged += part.record.size;
        Json members = {{"size", part.record.size}, {"extents", part.record.extents}};
        put_text(members, "path", part.record.path);
        reporter_.event("staged", std::move(members));
        if (farm_.empty()) continue;
        if (auto linked = link_into_farm(farm_, part.record.path, destination_.path()); !linked)
            reporter_.failed(part.record.path, linked.error());
    }
}

Result<void> Committer::record_removed(const std::vector<ManifestRecord>& records) {
    if (auto appended = manifest_.append(records); !appended) return appended;
    return manifest_.sync();
}

}  // namespace tierfs::stage
