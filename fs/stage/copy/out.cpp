#include "fs/stage/copy/out.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "backends/dir/directory_origin.hpp"
#include "config/base/json_text.hpp"
#include "fs/stage/copy/held_folder.hpp"
#include "fs/stage/copy/out_books.hpp"
#include "fs/stage/copy/out_upload.hpp"

namespace tierfs::stage {
namespace {

bool is_below(const std::string& path, const std::string& folder) {
    return path == folder ||
           (path.starts_with(folder) && (folder.ends_with('/') || path[folder.size()] == '/'));
}

/// One run; the steps in their order.
class OutRun {
  public:
    OutRun(const OutOptions& options, Origin& destination, OutObserver& observer, const StopFlag& stop)
        : options_(options),
          destination_(destination),
          writer_(*destination.writable()),
          observer_(observer),
          stop_(stop) {}

    Result<OutSummary> run();

  private:
    Result<void> open_directory();
    Result<void> open_journal();
    Result<void> list();
    /// Whether nothing is at the destination. Errors: it does not answer, or there is no such bucket.
    Result<bool> is_fresh();
    /// Uploads that no file of now belongs to.
    Result<void> clean_up();
    Result<void> drop_intents();
    Result<void> send();
    Result<void> remove_vanished();
    Result<void> tell_only();
    /// What has not changed keeps its record, so that the manifest stays the same, byte for byte.
    void keep_times();
    [[nodiscard]] std::vector<std::string> vanished() const;
    [[nodiscard]] const SourceFile* find(const std::string& path) const;

    const OutOptions& options_;
    Origin& destination_;
    WritableOrigin& writer_;
    OutObserver& observer_;
    const StopFlag& stop_;
    std::unique_ptr<Origin> source_;
    FileDescriptor root_;
    SourceTree tree_;
    std::optional<OutJournal> journal_;
    bool fresh_ = false;
    Manifest previous_;  ///< of the destination
    std::map<std::string, ManifestRecord, std::less<>> records_;
    OutSummary summary_;
};

Result<void> OutRun::open_directory() {
    Settings settings;
    auto held = HeldFolder::open(options_.directory);
    if (!held) return fail(held.error());
    auto opened = open_directory_origin(settings, held->path);
    if (!opened) return fail(opened.error());
    source_ = std::move(*opened);
    root_ = std::move(held->fd);
    const std::string here = source_->identity(), there = destination_.identity();
    if (destination_.kind() == "directory" && (is_below(here, there) || is_below(there, here)))
        return fail(EINVAL, options_.directory + " and the destination lie in each other");
    return {};
}

Result<void> OutRun::open_journal() {
    const mode_t make = options_.dry_run ? 0 : 0700;
    auto state = options_.state.empty() ? BookFolder::open(root_.get(), options_.directory, kOutState, make)
                                        : BookFolder::at(options_.state, make);
    if (!state && options_.dry_run && state.error().code == ENOENT) {
        journal_ = OutJournal();
        return {};
    }
    if (!state) return fail(state.error().code, state.error().message + " (--state names another folder)");
    auto journal = options_.dry_run ? OutJournal::peek(*state, destination_.identity())
                                    : OutJournal::open(*state, destination_.identity());
    if (!journal) return fail(journal.error());
    journal_ = std::move(*journal);
    return {};
}

Result<void> OutRun::list() {
    const std::function<bool()> stopped = [this] { return stop_.requested(); };
    auto tree = list_source(*source_, stopped);
    if (!tree) return fail(tree.error());
    tree_ = std::move(*tree);
    if (!tree_.problems.empty()) return fail(EIO, tree_.problems.front());
    const std::string own = std::string(kOutState) + "/";
    std::erase_if(tree_.files, [&](const SourceFile& file) { return file.path.starts_with(own); });
    for (const auto& remark : tree_.remarks) observer_.remark(remark);
    for (const auto& file : tree_.files) {
        if (file.link.empty()) ++summary_.files;
        if (file.link.empty()) summary_.bytes += file.attributes.size;
    }
    observer_.planned(summary_.files, summary_.bytes);
    return {};
}

const SourceFile* OutRun::find(const std::string& path) const {
    const auto at = std::lower_bound(
        tree_.files.begin(), tree_.files.end(), path,
        [](const SourceFile& file, const std::string& wanted) { return file.path < wanted; });
    return at != tree_.files.end() && at->path == path ? &*at : nullptr;
}

Result<bool> OutRun::is_fresh() {
    const auto checked = destination_.check();
    if (!checked && checked.error().code != ENOENT && checked.error().code != EACCES)
        return fail(checked.error());
    const auto page = destination_.list("", "");
    if (!page && page.error().code == ENOENT) return true;
    // Who may write but not list still may: each file is then looked for.
    if (!page && page.error().code == EACCES) return false;
    if (!page) return fail(checked ? page.error() : checked.error());
    return page->entries.empty() && page->next.empty();
}

Result<void> OutRun::drop_intents() {
    for (const auto& [path, time] : journal_->intents()) {
        const auto pending = writer_.pending(path);
        if (!pending) return fail(pending.error());
        for (const auto& upload : *pending) {
            if (upload.begun_s < time - kClockSlack) continue;  // somebody else's
            if (auto gone = writer_.abort(upload.upload); !gone) return fail(gone.error());
        }
        if (auto kept = journal_->ended(path); !kept) return fail(kept.error());
    }
    return {};
}

Result<void> OutRun::clean_up() {
    for (const auto& [path, pending] : journal_->pending()) {
        const auto* file = find(path);
        if (file != nullptr && file->attributes.version == pending.source_version) continue;
        if (auto gone = writer_.abort({path, pending.id}); !gone) return fail(gone.error());
        if (auto kept = journal_->ended(path); !kept) return fail(kept.error());
    }
    return drop_intents();
}

Result<void> OutRun::send() {
    OutOptions options = options_;
    std::uint64_t largest = options.part_size;
    for (const auto& file : tree_.files) {
        if (const auto part = part_size_for(file.attributes.size, options.part_size, writer_.limits()))
            largest = std::max(largest, std::min(*part, file.attributes.size));
    }
    options.workers = static_cast<unsigned>(
        std::clamp<std::uint64_t>(options.memory / largest, 1, std::max(1U, options.workers)));
    OutUpload upload({options, root_.get(), destination_, writer_, *journal_, observer_, stop_,
                      source_->identity(), fresh_},
                     tree_.files);
    auto sent = upload.run();
    const auto files = summary_.files, bytes = summary_.bytes;
    summary_ = upload.summary();
    summary_.files = files;
    summary_.bytes = bytes;
    records_ = upload.records();
    return sent;
}

std::vector<std::string> OutRun::vanished() const {
    std::vector<std::string> paths;
    const auto add = [&](const std::string& path, bool is_file) {
        if (is_file && find(path) == nullptr) paths.push_back(path);
    };
    for (const auto& [path, record] : previous_.records) add(path, record.link.empty());
    for (const auto& [path, done] : journal_->done()) add(path, true);
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    return paths;
}

Result<void> OutRun::remove_vanished() {
    for (const auto& path : vanished()) {
        if (stop_.requested()) return fail(ECANCELED, "interrupted: the same command goes on from here");
        if (auto gone = writer_.remove(path); !gone) return fail(gone.error());
        if (auto kept = journal_->forgotten(path); !kept) return fail(kept.error());
        ++summary_.removed;
        OutEvent event;
        event.path = path;
        event.fate = OutFate::removed;
        observer_.file(event);
    }
    return {};
}

void OutRun::keep_times() {
    for (auto& [path, record] : records_) {
        const auto known = previous_.records.find(path);
        if (known == previous_.records.end()) continue;
        auto same = record;
        same.time = known->second.time;
        if (same == known->second) record.time = same.time;
    }
}

Result<void> OutRun::tell_only() {
    for (const auto& file : tree_.files) {
        if (!file.link.empty()) continue;
        if (stop_.requested()) return fail(ECANCELED, "interrupted");
        OutEvent event;
        event.path = file.path;
        event.size = file.attributes.size;
        event.fate = OutFate::would_send;
        const auto there = fresh_ ? Result<Attributes>(fail(ENOENT, "")) : writer_.stat_file(file.path);
        if (there && there->size == file.attributes.size) {
            const auto known = journal_->done().find(file.path);
            const bool same = known != journal_->done().end() && known->second.version == there->version &&
                              known->second.record.source_version == file.attributes.version;
            event.fate = same ? OutFate::skipped : OutFate::would_compare;
        }
        ++(event.fate == OutFate::skipped ? summary_.skipped : summary_.sent);
        observer_.file(event);
        observer_.progress(file.attributes.size);
    }
    if (!options_.remove_vanished) return {};
    for (const auto& path : vanished()) {
        OutEvent event;
        event.path = path;
        event.fate = OutFate::would_remove;
        ++summary_.removed;
        observer_.file(event);
    }
    return {};
}

Result<OutSummary> OutRun::run() {
    if (auto opened = open_directory(); !opened) return fail(opened.error());
    if (auto listed = list(); !listed) return fail(listed.error());
    if (auto opened = open_journal(); !opened) return fail(opened.error());
    if (journal_->damaged_lines() > 0)
        observer_.remark("the journal has " + std::to_string(journal_->damaged_lines()) +
                         " damaged lines: what they were about is compared anew");
    const auto fresh = is_fresh();
    if (!fresh) return fail(fresh.error());
    fresh_ = *fresh;
    auto previous = fresh_ ? Result<Manifest>(Manifest{}) : read_out_manifest(destination_, writer_);
    if (!previous) return fail(previous.error());
    previous_ = std::move(*previous);
    if (options_.dry_run) {
        if (auto told = tell_only(); !told) return fail(told.error());
        return summary_;
    }
    if (auto clean = clean_up(); !clean) return fail(clean.error());
    if (auto sent = send(); !sent) return fail(sent.error());
    if (summary_.failed > 0) return summary_;
    if (options_.remove_vanished) {
        if (auto removed = remove_vanished(); !removed) return fail(removed.error());
    } else {
        // What an earlier run sent is there still.
        for (const auto& path : vanished()) {
            const auto known = previous_.records.find(path);
            records_.emplace(
                path, known != previous_.records.end() ? known->second : journal_->done().at(path).record);
        }
    }
    keep_times();
    if (auto written = write_out_manifest(writer_, destination_.identity(), records_, fresh_); !written)
        return fail(written.error());
    summary_.manifest_written = true;
    return summary_;
}

}  // namespace

std::string name_of(OutFate fate) {
    switch (fate) {
        case OutFate::sent:
            return "sent";
        case OutFate::resumed:
            return "resumed";
        case OutFate::skipped:
            return "skipped";
        case OutFate::removed:
            return "removed";
        case OutFate::failed:
            return "failed";
        case OutFate::would_send:
            return "would send";
        case OutFate::would_compare:
            return "would compare";
        case OutFate::would_remove:
            return "would remove";
    }
    return "";
}

Result<OutSummary> stage_out(const OutOptions& options, Origin& destination, OutObserver& observer,
                             const StopFlag& stop) {
    if (destination.writable() == nullptr)
        return fail(EROFS, destination.identity() + ": nothing can be written there");
    if (options.part_size == 0 || options.part_size % kChunkBytes != 0)
        return fail(EINVAL, "the part size is no multiple of " + std::to_string(kChunkBytes) + " bytes");
    return OutRun(options, destination, observer, stop).run();
}

}  // namespace tierfs::stage
