#include "fs/stage/copy/stage_in.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "config/base/json_text.hpp"
#include "config/base/units.hpp"
#include "fs/stage/copy/copy_worker.hpp"
#include "fs/stage/copy/farm.hpp"

namespace tierfs::stage {

namespace {

constexpr unsigned kMostThreads = 8;

bool is_within(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
}

/// Bytes per second of the last run into this folder; 0: not known.
double last_rate(const Destination& destination) {
    if (!destination.has_books()) return 0;
    auto file = destination.books().read("last-run.json");
    if (!file) return 0;
    const OrderedJson json = OrderedJson::parse(*file, nullptr, false);
    if (!json.is_object()) return 0;
    Fields fields(json);
    const auto bytes = static_cast<double>(fields.number("bytes_done"));
    const auto seconds = json.find("seconds");
    const bool known = fields.good() && seconds != json.end() && seconds->is_number();
    return known && seconds->get<double>() > 0 ? bytes / seconds->get<double>() : 0;
}

/// One run.
class StageIn {
  public:
    StageIn(const StageOptions& options, Reporter& reporter, const StopFlag& stop)
        : options_(options), reporter_(reporter), stop_(stop) {}

    Result<void> run();
    /// After run(): lets go of the source. true: it holds threads within the kernel and never lets them go,
    /// so that the process can only be left at once.
    bool close() {
        if (!origin_) return false;
        origin_->stop();
        return origin_->is_held();
    }

  private:
    Result<void> open_source();
    Result<void> open_destinations();
    Result<void> check_destination(const Destination& destination) const;
    Result<void> check_dataset(const Destination& destination) const;
    Result<Plan> plan(const SourceTree& tree);
    void report(const Plan& plan);
    Result<void> remove(const std::vector<Removal>& removals, bool moved);
    Result<bool> remove_one(const Removal& removal, ManifestRecord& record);
    Result<void> open_books();
    Result<void> make_names(std::vector<CopyJob> names);
    static Result<void> link_part(const Destination& destination, const CopyJob& job,
                                  const ManifestRecord& first);
    Result<void> copy(Plan plan);
    void link_kept(const std::map<std::string, std::size_t>& places);

    const StageOptions& options_;
    Reporter& reporter_;
    const StopFlag& stop_;
    std::unique_ptr<Origin> origin_;
    std::string source_;
    std::vector<Destination> destinations_;
    std::vector<Journal> journals_;
    std::vector<std::unique_ptr<Committer>> committers_;
};

Result<void> StageIn::open_source() {
    auto origin = open_origin(options_.settings);
    if (!origin) return fail(origin.error());
    origin_ = std::move(*origin);
    source_ = origin_->identity();
    return origin_->check();
}

Result<void> StageIn::check_destination(const Destination& destination) const {
    constexpr std::string_view kDirectory = "dir:";
    if (source_.starts_with(kDirectory) && is_within(destination.path(), source_.substr(kDirectory.size())))
        return fail(EINVAL, destination.path() + " lies within the source");
    if (destination.facts().is_suitable() || options_.only_plan) return check_dataset(destination);
    const std::string why = destination.path() + " is on " + destination.facts().name +
                            ": only XFS and ext4 hold files that GPUDirect Storage reads directly";
    if (!options_.force_unsuitable)
        return fail(EOPNOTSUPP, why + " (--force-unsuitable stages all the same)");
    reporter_.warning(why);
    return check_dataset(destination);
}

Result<void> StageIn::check_dataset(const Destination& destination) const {
    const std::string& staged = destination.manifest().header.source;
    if (staged == source_) return {};
    return fail(EEXIST, destination.path() + " holds another dataset, " + printable(staged) +
                            ": evict that first, or choose another folder");
}

Result<void> StageIn::open_destinations() {
    // Always in the same order, so that two runs that wait cannot wait for each other.
    std::vector<std::string> paths = options_.destinations;
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    for (const auto& path : paths) {
        // Looked at first: what is refused gets no books.
        Destination::Options look;
        look.peek = true;
        look.lock = false;
        look.source = source_;
        look.shard = options_.plan.shard;
        auto destination = Destination::open(path, look, stop_);
        if (!destination) return fail(destination.error());
        if (auto good = check_destination(*destination); !good) return good;
        if (!options_.only_plan) {
            Destination::Options options = look;
            options.peek = false;
            options.create = options.lock = true;
            options.wait = options_.wait;
            destination = Destination::open(path, options, stop_);
            if (!destination) return fail(destination.error());
            if (auto good = check_dataset(*destination); !good) return good;
        }
        for (const auto& other : destinations_)
            if (is_within(other.path(), destination->path()) || is_within(destination->path(), other.path()))
                return fail(EINVAL, other.path() + " and " + destination->path() + " lie within each other");
        if (const auto damaged = destination->found_journal().damaged_lines; damaged > 0)
            reporter_.warning(std::to_string(damaged) + " lines of the journal of " + destination->path() +
                              " are damaged: what they were about is copied again");
        destinations_.push_back(std::move(*destination));
    }
    return {};
}

Result<Plan> StageIn::plan(const SourceTree& tree) {
    return make_plan(tree, source_, destinations_, options_.plan);
}

void StageIn::report(const Plan& plan) {
    for (const auto& remark : plan.remarks) reporter_.warning(remark);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> by_destination(destinations_.size());
    for (const auto& job : plan.copies) {
        ++by_destination[job.destination].first;
        by_destination[job.destination].second += job.file.attributes.size;
    }
    OrderedJson places = OrderedJson::array();
    for (std::size_t i = 0; i < destinations_.size(); ++i) {
        OrderedJson place = {{"files", by_destination[i].first}, {"bytes", by_destination[i].second}};
        put_text(place, "path", destinations_[i].path());
        place["device"] = destinations_[i].facts().device;
        place["file_system"] = destinations_[i].facts().name;
        places.push_back(std::move(place));
        reporter_.say(destinations_[i].path() + " (" + destinations_[i].facts().name +
                      "): " + std::to_string(by_destination[i].first) + " files, " +
                      format_size(by_destination[i].second));
    }
    OrderedJson members = {{"copy_files", plan.copies.size()},     {"copy_bytes", plan.copy_bytes},
                           {"link_names", plan.names.size()},      {"resumed_bytes", plan.resumed_bytes},
                           {"keep_files", plan.kept_files},        {"keep_bytes", plan.kept_bytes},
                           {"remove_files", plan.removals.size()}, {"need_bytes", plan.need_bytes},
                           {"lacking_bytes", plan.lacking_bytes},  {"problems", plan.problems.size()},
                           {"destinations", std::move(places)}};
    put_text(members, "source", source_);
    double rate = 0;
    for (const auto& destination : destinations_) rate += last_rate(destination);
    std::string estimate;
    if (rate > 0) {
        const double seconds = static_cast<double>(plan.copy_bytes - plan.resumed_bytes) / rate;
        members["seconds_estimate"] = seconds;
        estimate =
            "; about " + std::to_string(static_cast<long>(seconds) + 1) + " s at the rate of the last run";
    }
    reporter_.event("plan", std::move(members));
    if (!plan.names.empty())
        reporter_.say(std::to_string(plan.names.size()) + " more names of files with several: hard links");
    reporter_.say("copy " + std::to_string(plan.copies.size()) + " files, " + format_size(plan.copy_bytes) +
                  " (" + format_size(plan.resumed_bytes) + " of it are there already); keep " +
                  std::to_string(plan.kept_files) + " files, " + format_size(plan.kept_bytes) + "; remove " +
                  std::to_string(plan.removals.size()) + " files" + estimate);
}

/// The record becomes that of its removal. false: it is not ours to remove.
Result<bool> StageIn::remove_one(const Removal& removal, ManifestRecord& record) {
    Destination& destination = destinations_[removal.destination];
    const ManifestRecord* const known = destination.record_of(removal.path);
    if (known == nullptr) return false;
    record = *known;
    record.state = RecordState::removed;
    record.crc32c.clear();
    const FinalState state = destination.state_of(removal.path);
    if (state == FinalState::staged) {
        if (auto done = remove_below(destination.root(), removal.path); !done)
            return fail(done.error().within(destination.path()));
    } else if (state != FinalState::absent) {
        reporter_.warning("'" + printable(removal.path) + "' in " + destination.path() +
                          " was changed since it was staged: left alone");
    }
    return true;
}

Result<void> StageIn::remove(const std::vector<Removal>& removals, bool moved) {
    std::vector<std::vector<ManifestRecord>> records(destinations_.size());
    for (const auto& removal : removals) {
        if (removal.is_moved != moved || stop_.requested()) continue;
        ManifestRecord record;
        auto removed = remove_one(removal, record);
        if (!removed) {
            reporter_.failed(removal.path, removed.error());
            continue;
        }
        if (!*removed) continue;
        records[removal.destination].push_back(std::move(record));
        destinations_[removal.destination].forget(removal.path);
        if (moved) continue;
        ++reporter_.totals().files_removed;
        if (options_.farm.empty()) continue;
        if (auto unlinked = unlink_from_farm(options_.farm, removal.path); !unlinked)
            reporter_.failed(removal.path, unlinked.error());
    }
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].empty()) continue;
        if (auto noted = committers_[i]->record_removed(records[i]); !noted) return noted;
    }
    return {};
}

Result<void> StageIn::open_books() {
    for (auto& destination : destinations_) {
        auto journal = Journal::open(destination.books(), destination.journal_name());
        if (!journal) return fail(journal.error());
        journals_.push_back(std::move(*journal));
    }
    for (std::size_t i = 0; i < destinations_.size(); ++i) {
        const Manifest& manifest = destinations_[i].manifest();
        auto writer = ManifestWriter::open(destinations_[i].books(), kManifest, manifest.header);
        if (!writer) return fail(writer.error());
        committers_.push_back(std::make_unique<Committer>(destinations_[i], std::move(*writer), journals_[i],
                                                          options_.farm, reporter_));
    }
    return {};
}

Result<void> StageIn::copy(Plan plan) {
    for (const auto& [destination, part] : plan.stale_parts) destinations_[destination].remove_part(part);
    for (const auto& destination : destinations_) destination.remove_strange_parts();
    Totals& totals = reporter_.totals();
    totals.files_planned = plan.copies.size() + plan.names.size();
    totals.bytes_planned = plan.copy_bytes;
    totals.files_kept = plan.kept_files;
    totals.bytes_kept = plan.kept_bytes;
    JobQueue queue(std::move(plan.copies));
    const CopyContext context{*origin_, source_,   destinations_, journals_,         committers_,
                              queue,    reporter_, stop_,         options_.use_ring, options_.check_md5};
    const unsigned threads =
        std::min({kMostThreads, options_.workers, 2 * std::max(1U, std::thread::hardware_concurrency())});
    const std::size_t memory = kChunkBytes * (options_.workers / threads);
    reporter_.start_progress();
    std::vector<std::thread> running;
    running.reserve(threads);
    for (unsigned i = 0; i < threads; ++i)
        running.emplace_back([&context, memory] { CopyWorker(context, memory).run(); });
    for (auto& thread : running) thread.join();
    for (auto& committer : committers_) committer->finish();
    auto named = stop_.requested() || plan.names.empty() ? Result<void>() : make_names(std::move(plan.names));
    reporter_.end_progress();
    if (!named) return named;
    if (stop_.requested()) return fail(ECANCELED, "stopped: the same command goes on where this one ended");
    if (totals.files_failed == 0) return remove(plan.removals, true);
    return {};
}

// The files that these are names of have their own by now, and their records.
Result<void> StageIn::make_names(std::vector<CopyJob> names) {
    committers_.clear();
    journals_.clear();
    if (auto opened = open_books(); !opened) return opened;
    std::vector<Manifest> manifests;
    for (const auto& destination : destinations_) {
        auto manifest = Manifest::load(destination.books(), kManifest);
        if (!manifest) return fail(manifest.error());
        manifests.push_back(std::move(*manifest));
    }
    for (auto& job : names) {
        if (stop_.requested()) break;
        const auto& records = manifests[job.destination].records;
        const auto first = records.find(job.name_of);
        const auto now = origin_->stat(job.file.path), of = origin_->stat(job.name_of);
        const bool is_same = now && of && now->link != 0 && now->link == of->link;
        if (first == records.end() || !is_same) {
            reporter_.failed(job.file.path,
                             Error{ESTALE, "'" + printable(job.name_of) +
                                               "', which it is another name of, was not staged, or has "
                                               "changed: run the command again"});
            continue;
        }
        if (auto made = link_part(destinations_[job.destination], job, first->second); !made) {
            reporter_.failed(job.file.path, made.error());
            continue;
        }
        ManifestRecord record = first->second;
        record.path = job.file.path;
        auto& committer = *committers_[job.destination];
        committer.give({std::move(job), FileDescriptor(), std::move(record)});
    }
    for (auto& committer : committers_) committer->finish();
    return {};
}

/// Where the part of a copy would be, a name of the file that is there.
Result<void> StageIn::link_part(const Destination& destination, const CopyJob& job,
                                const ManifestRecord& first) {
    if (destination.state_of(first.path, &first) != FinalState::staged)
        return fail(ESTALE, "'" + printable(first.path) + "' was changed since it was staged");
    bool made = false;
    const auto parent = open_parent(destination.root(), first.path, false, made);
    if (!parent) return fail(parent.error());
    destination.remove_part(job.part);
    const auto place = destination.place_of(job.part);
    if (::linkat(parent->get(), name_in_parent(first.path).c_str(), place.folder, place.name.c_str(), 0) != 0)
        return fail(system_error(errno, "a hard link to '" + printable(first.path) + "'"));
    return {};
}

void StageIn::link_kept(const std::map<std::string, std::size_t>& places) {
    if (options_.farm.empty()) return;
    for (const auto& [path, destination] : places) {
        if (stop_.requested()) return;
        if (destinations_[destination].state_of(path) != FinalState::staged) continue;
        if (auto linked = link_into_farm(options_.farm, path, destinations_[destination].path()); !linked)
            reporter_.failed(path, linked.error());
    }
}

Result<void> StageIn::run() {
    if (auto opened = open_source(); !opened) return opened;
    if (auto opened = open_destinations(); !opened) return opened;
    auto tree = list_source(*origin_, [this] { return stop_.requested(); });
    if (!tree) return fail(tree.error());
    auto planned = plan(*tree);
    if (!planned) return fail(planned.error());
    if (!options_.only_plan) {
        if (auto opened = open_books(); !opened) return opened;
        if (auto removed = remove(planned->removals, false); !removed) return removed;
        if (reporter_.totals().files_removed != 0) {  // there may be room now, and names
            planned = plan(*tree);
            if (!planned) return fail(planned.error());
        }
    }
    report(*planned);
    for (const auto& problem : planned->problems) {
        ++reporter_.totals().files_failed;
        reporter_.error(problem);
    }
    if (planned->lacking_bytes > 0) {
        return fail(ENOSPC, "the devices have too little room: " + format_size(planned->need_bytes) +
                                " are needed, " + format_size(planned->lacking_bytes) +
                                " of it fit nowhere (see --keep-free); nothing was copied");
    }
    if (options_.only_plan) return {};
    const auto places = planned->places;
    if (auto copied = copy(std::move(*planned)); !copied) return copied;
    link_kept(places);
    const bool good = reporter_.totals().files_failed == 0;
    for (const auto& destination : destinations_) {
        if (good) destination.remove_journals();
        destination.note_use(reporter_.totals().bytes_done > 0 ? reporter_.totals_json().dump() : "");
    }
    return {};
}

}  // namespace

int stage_in(const StageOptions& options, Reporter& reporter, const StopFlag& stop) {
    StageIn stage(options, reporter, stop);
    const auto done = stage.run();
    if (!done) reporter.error(done.error().message);
    const std::uint64_t failed = reporter.totals().files_failed;
    const bool good = done && failed == 0;
    if (!options.only_plan) {
        OrderedJson members = reporter.totals_json();
        members["complete"] = good;
        reporter.event("done", std::move(members));
        if (done) reporter.say("done: " + reporter.progress_line());
    }
    if (done && failed > 0)
        reporter.error(std::to_string(failed) + " files could not be staged; the others are");
    if (stage.close()) {
        std::fflush(nullptr);
        ::_exit(good ? 0 : 1);
    }
    return good ? 0 : 1;
}

}  // namespace tierfs::stage
