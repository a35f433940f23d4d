#include "fs/stage/copy/committer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/json_text.hpp"
#include "fs/stage/copy/farm.hpp"

namespace tierfs::stage {

namespace {

constexpr std::size_t kMostInBatch = 1024;
constexpr std::size_t kWorthACommit = 256;
constexpr std::uint64_t kBytesWorthACommit = std::uint64_t{256} << 20;
constexpr std::size_t kMostWaiting = 1024;  // each holds a descriptor
constexpr std::size_t kMostFolders = 64;    // likewise
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
    bool is_time = false;  // for the thread to look: waking it for every file costs more than the file
    {
        MutexLock lock(mutex_);
        while (waiting_.size() >= kMostWaiting) lock.wait(changed_);
        waiting_bytes_ += part.record.size;
        waiting_.push_back(std::move(part));
        is_time =
            waiting_.size() == 1 || waiting_.size() == kWorthACommit || waiting_bytes_ >= kBytesWorthACommit;
    }
    if (is_time) changed_.notify_all();
}

void Committer::run() {
    Named named;
    for (;;) {
        auto batch = next_batch();
        if (batch.empty()) break;
        commit(batch, named);
    }
}

/// Empty: all is done.
std::vector<FinishedPart> Committer::next_batch() {
    std::vector<FinishedPart> batch;
    {
        MutexLock lock(mutex_);
        while (waiting_.empty() && !finishing_) lock.wait(changed_);
        const auto limit = std::chrono::steady_clock::now() + kPatience;
        while (!finishing_ && waiting_.size() < kWorthACommit && waiting_bytes_ < kBytesWorthACommit)
            if (lock.wait_until(changed_, limit) == std::cv_status::timeout) break;
        while (!waiting_.empty() && batch.size() < kMostInBatch) {
            waiting_bytes_ -= waiting_.front().record.size;
            batch.push_back(std::move(waiting_.front()));
            waiting_.pop_front();
        }
    }
    changed_.notify_all();
    return batch;
}

bool Committer::more_is_waiting() const {
    const MutexLock lock(mutex_);
    return waiting_.size() >= kManyFiles;
}

/// Of the whole file system: names, the journal's lines and the manifest's too.
Result<void> Committer::sync_all() {
    if (TIERFS_FAULT_CALL("stage.syncfs", ::syncfs(destination_.root())) != 0)
        return fail(system_error(errno, "syncing " + destination_.path()));
    return {};
}

Result<void> Committer::sync_each(const std::vector<FinishedPart>& batch) const {
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
        destination_.remove_part(part.job.part);
        return false;
    }
    if (!verdict->warning.empty() && destination_.facts().is_suitable())
        reporter_.warning(printable(part.record.path) + ": " + verdict->warning);
    part.record.extents = verdict->extents;
    return true;
}

/// The folder that the name goes into. Those of a batch stay open: many files have the same.
Result<int> Committer::folder_of(const std::string& path, Named& named) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
    if (const auto known = named.folders.find(folder); known != named.folders.end())
        return known->second.get();
    if (named.folders.size() >= kMostFolders) {
        named.folders.clear();
        named.is_wide = true;
    }
    auto opened = open_parent(destination_.root(), path, true, named.is_wide);
    if (!opened) return fail(opened.error());
    return named.folders.emplace(folder, std::move(*opened)).first->second.get();
}

Result<void> Committer::name(FinishedPart& part, Named& named) {
    const std::string& path = part.record.path;
    const auto folder = folder_of(path, named);
    if (!folder) return fail(folder.error());
    if (part.job.under_final_name) return {};
    const auto place = destination_.place_of(part.job.part);
    const int renamed = TIERFS_FAULT_CALL("stage.rename", rename_at(place.folder, place.name, *folder,
                                                                    name_in_parent(path), part.job.replaces));
    if (renamed == 0) {
        if (!part.job.name_of.empty())
            destination_.remove_part(part.job.part);  // two names of one file stay two
        return {};
    }
    if (errno == EEXIST)
        return fail(EEXIST, "it came into being in " + destination_.path() +
                                " meanwhile and is not of tierfs-stage: left alone");
    return fail(system_error(errno, "renaming it to its place in " + destination_.path()));
}

Result<void> Committer::sync_names(const Named& named) {
    if (named.is_wide || named.folders.size() >= kManyFiles) return sync_all();
    for (const auto& [path, folder] : named.folders)
        if (::fsync(folder.get()) != 0) return fail(system_error(errno, "syncing a folder"));
    return {};
}

void Committer::fail_all(const std::vector<ManifestRecord>& records, const Error& error) {
    for (const auto& record : records) reporter_.failed(record.path, error);
}

/// The names are durable.
void Committer::record(Named& named, bool durably) {
    const Named done = std::exchange(named, {});
    auto written = manifest_.append(done.records);
    if (written && durably) written = manifest_.sync();
    if (!written) return fail_all(done.records, written.error());
    for (const auto& record : done.records) {
        ++reporter_.totals().files_staged;
        reporter_.totals().bytes_staged += record.size;
        if (reporter_.wants_events()) {
            OrderedJson members = {{"size", record.size}, {"extents", record.extents}};
            put_text(members, "path", record.path);
            reporter_.event("staged", std::move(members));
        }
        if (farm_.empty()) continue;
        if (auto linked = link_into_farm(farm_, record.path, destination_.path()); !linked)
            reporter_.failed(record.path, linked.error());
    }
}

/// `named`: files of the batch before, then of this one unless they are recorded at once.
void Committer::commit(std::vector<FinishedPart>& batch, Named& named) {
    const bool all_at_once = batch.size() >= kManyFiles || !named.records.empty();
    if (auto synced = all_at_once ? sync_all() : sync_each(batch); !synced) {
        fail_all(std::exchange(named, {}).records, synced.error());
        for (const auto& part : batch) reporter_.failed(part.record.path, synced.error());
        return;
    }
    if (!named.records.empty()) record(named, false);
    for (auto& part : batch) {
        if (!check_shape(part)) continue;
        if (auto done = name(part, named); !done) {
            reporter_.failed(part.record.path, done.error());
            continue;
        }
        part.record.time = std::time(nullptr);
        named.records.push_back(std::move(part.record));
    }
    batch.clear();
    if (more_is_waiting()) return;  // their syncfs is that of these names too
    if (auto synced = sync_names(named); !synced)
        return fail_all(std::exchange(named, {}).records, synced.error());
    record(named, true);
}

Result<void> Committer::record_removed(const std::vector<ManifestRecord>& records) {
    if (auto appended = manifest_.append(records); !appended) return appended;
    return manifest_.sync();
}

}  // namespace tierfs::stage
