#include "fs/stage/copy/plan.hpp"

#include <algorithm>
#include <set>

#include "config/base/json_text.hpp"

namespace tierfs::stage {

namespace {

/// A record that speaks of a path, and where.
struct Known {
    std::size_t destination = 0;
    const ManifestRecord* record = nullptr;
};

class Planner {
  public:
    Planner(const std::string& source, const std::vector<Destination>& destinations,
            const PlanOptions& options, Placement placement)
        : source_(source), destinations_(destinations), options_(options), placement_(std::move(placement)) {
        for (std::size_t i = 0; i < destinations.size(); ++i)
            for (const auto& [path, record] : destinations[i].manifest().records) known_[path] = {i, &record};
    }

    Plan run(const SourceTree& tree) {
        plan_.problems = tree.problems;
        plan_.remarks = tree.remarks;
        std::vector<const SourceFile*> files;
        for (const auto& file : tree.files)
            if (shard_of(file.path, options_.shard.count) == options_.shard.number) files.push_back(&file);
        plan_removals(files, !tree.problems.empty());
        // The largest first: the small ones fill the gaps, on the devices and at the end of the run.
        std::stable_sort(files.begin(), files.end(), [](const SourceFile* a, const SourceFile* b) {
            const auto rank = [](const SourceFile* f) {
                return f->attributes.size >= kHintFrom ? f->attributes.size : 0;
            };
            return rank(a) > rank(b);
        });
        for (const SourceFile* file : files)
            if (const auto* known = current(*file)) note_first(*file, known->destination);
        for (const SourceFile* file : files) consider(*file);
        find_stale_parts();
        return std::move(plan_);
    }

  private:
    void plan_removals(const std::vector<const SourceFile*>& files, bool is_partial) {
        if (!options_.remove_vanished) return;
        if (is_partial) {
            plan_.remarks.emplace_back("nothing is removed: the source could not be listed whole");
            return;
        }
        std::set<std::string_view> there;
        for (const SourceFile* file : files) there.insert(file->path);
        for (const auto& [path, known] : known_) {
            if (there.contains(path) || shard_of(path, options_.shard.count) != options_.shard.number)
                continue;
            plan_.removals.push_back({known.destination, path, false});
        }
    }

    /// Null: it is not there, or not as it is at the source.
    [[nodiscard]] const Known* current(const SourceFile& file) const {
        const auto known = known_.find(file.path);
        return known != known_.end() && is_current(file, known->second) ? &known->second : nullptr;
    }

    /// Of files with several names the first that is copied, or one that is there.
    void note_first(const SourceFile& file, std::size_t destination) {
        if (file.attributes.link != 0) firsts_.try_emplace(file.attributes.link, file.path, destination);
    }

    /// True: it is a name of a file that another one is of, too; planned, or in the way of something.
    bool plan_name(CopyJob& job, const Known& known) {
        const auto first = firsts_.find(job.file.attributes.link);
        if (job.file.attributes.link == 0 || first == firsts_.end()) return false;
        if (!may_take_name(job, known)) return true;
        job.name_of = first->second.first;
        job.destination = first->second.second;
        const bool moves = known.record != nullptr && known.destination != job.destination;
        job.replaces = job.replaces || options_.overwrite || (known.record != nullptr && !moves);
        if (moves) plan_.removals.push_back({known.destination, job.file.path, true});
        plan_.places[job.file.path] = job.destination;
        plan_.names.push_back(std::move(job));
        return true;
    }

    void consider(const SourceFile& file) {
        if (const auto* there = current(file)) {
            ++plan_.kept_files;
            plan_.kept_bytes += file.attributes.size;
            plan_.places[file.path] = there->destination;
            return;
        }
        const auto found = known_.find(file.path);
        const auto known = found == known_.end() ? Known{} : found->second;
        CopyJob job;
        job.file = file;
        job.part = part_name(file.path, source_, file.attributes.version);
        if (take_whole(job) || plan_name(job, known) || !choose_place(job, known)) return;
        const auto& parts = destinations_[job.destination].found_journal().parts;
        if (const auto part = parts.find(job.part); part != parts.end() && fits(part->second, file)) {
            job.unfinished = part->second;
            for (const auto& [offset, mark] : job.unfinished.pieces) plan_.resumed_bytes += mark.length;
        }
        add(std::move(job));
    }

    void add(CopyJob job) {
        plan_.copy_bytes += job.file.attributes.size;
        plan_.places[job.file.path] = job.destination;
        used_parts_.insert(job.part);
        note_first(job.file, job.destination);
        plan_.copies.push_back(std::move(job));
    }

    [[nodiscard]] bool is_current(const SourceFile& file, const Known& known) const {
        const ManifestRecord& record = *known.record;
        const bool same_source = record.source == source_ && record.link == file.link &&
                                 (!file.link.empty() || (record.source_version == file.attributes.version &&
                                                         record.size == file.attributes.size));
        return same_source &&
               destinations_[known.destination].state_of(file.path, known.record) == FinalState::staged;
    }

    static bool fits(const UnfinishedPart& part, const SourceFile& file) {
        return part.path == file.path && part.source_version == file.attributes.version &&
               part.size == file.attributes.size;
    }

    /// A file that an interrupted run had written whole.
    bool take_whole(CopyJob& job) {
        for (std::size_t i = 0; i < destinations_.size(); ++i) {
            const auto& whole = destinations_[i].found_journal().whole;
            const auto found = whole.find(job.part);
            if (found == whole.end() || found->second.path != job.file.path) continue;
            const FinalState now = destinations_[i].state_of(job.file.path, &found->second);
            job.destination = i;
            job.record = found->second;
            job.is_whole = true;
            job.under_final_name = now == FinalState::staged;
            const ManifestRecord* const old = destinations_[i].record_of(job.file.path);
            const bool may_go =
                old != nullptr && destinations_[i].state_of(job.file.path) == FinalState::staged;
            job.replaces = options_.overwrite || may_go;
            if (now != FinalState::absent && now != FinalState::staged && !job.replaces) return false;
            plan_.resumed_bytes += job.record.size;
            add(std::move(job));
            return true;
        }
        return false;
    }

    /// A kill came between the name and the record.
    [[nodiscard]] bool is_named_without_record(std::size_t destination, const SourceFile& file) const {
        const Destination& place = destinations_[destination];
        for (const auto& [part, record] : place.found_journal().whole)
            if (record.path == file.path) return place.state_of(file.path, &record) == FinalState::staged;
        if (file.link.empty()) return false;
        ManifestRecord link;
        link.link = file.link;
        return place.state_of(file.path, &link) == FinalState::staged;
    }

    /// Whether nothing but a copy of ours lies under the name anywhere; a problem otherwise.
    bool may_take_name(CopyJob& job, const Known& known) {
        const std::string& path = job.file.path;
        for (std::size_t i = 0; i < destinations_.size(); ++i) {
            const ManifestRecord* const record = known.destination == i ? known.record : nullptr;
            const FinalState state = destinations_[i].state_of(path, record);
            if (state == FinalState::absent || state == FinalState::staged || options_.overwrite) continue;
            if (is_named_without_record(i, job.file)) {
                job.replaces = true;
                continue;
            }
            plan_.problems.push_back("'" + printable(path) + "' in " + destinations_[i].path() +
                                     (state == FinalState::changed ? " was changed since it was staged"
                                                                   : " is not of tierfs-stage") +
                                     ": left alone (--overwrite replaces it)");
            return false;
        }
        return true;
    }

    bool choose_place(CopyJob& job, const Known& known) {
        if (!may_take_name(job, known)) return false;
        const std::string& path = job.file.path;
        const std::uint64_t size = job.file.link.empty() ? job.file.attributes.size : 0;
        std::optional<std::size_t> place;
        plan_.need_bytes += Placement::cost_of(size);
        // What an interrupted run has begun has its blocks already.
        for (std::size_t i = 0; i < destinations_.size() && !place; ++i) {
            const auto& parts = destinations_[i].found_journal().parts;
            const auto part = parts.find(job.part);
            if (part != parts.end() && fits(part->second, job.file)) place = i;
        }
        // A file stays on its device: the copy that it replaces makes room there.
        if (!place && known.record != nullptr && placement_.take(known.destination, size))
            place = known.destination;
        if (!place) place = placement_.place(size);
        if (!place) {
            plan_.lacking_bytes += Placement::cost_of(size);
            return false;
        }
        job.destination = *place;
        job.replaces =
            job.replaces || options_.overwrite || (known.record != nullptr && known.destination == *place);
        // It moves to another device: the old copy goes.
        if (known.record != nullptr && known.destination != *place)
            plan_.removals.push_back({known.destination, path, true});
        return true;
    }

    void find_stale_parts() {
        for (std::size_t i = 0; i < destinations_.size(); ++i) {
            const auto& journal = destinations_[i].found_journal();
            for (const auto& [part, file] : journal.parts) add_stale(i, part, file.path);
            for (const auto& [part, record] : journal.whole)
                if (!is_recorded(i, record)) add_stale(i, part, record.path);
        }
    }

    [[nodiscard]] bool is_recorded(std::size_t destination, const ManifestRecord& record) const {
        const ManifestRecord* const known = destinations_[destination].record_of(record.path);
        return known != nullptr && known->source_version == record.source_version;
    }

    void add_stale(std::size_t destination, const std::string& part, const std::string& path) {
        if (used_parts_.contains(part)) return;
        plan_.stale_parts.emplace_back(destination, part);
        plan_.remarks.push_back("'" + printable(path) +
                                "' has changed at the source since the interrupted run, or is gone: what was "
                                "copied of it is thrown away");
    }

    const std::string& source_;
    const std::vector<Destination>& destinations_;
    const PlanOptions& options_;
    Placement placement_;
    std::map<std::string, Known> known_;
    std::set<std::string> used_parts_;
    std::map<std::uint64_t, std::pair<std::string, std::size_t>> firsts_;  ///< by Attributes::link
    Plan plan_;
};

}  // namespace

Result<Plan> make_plan(const SourceTree& tree, const std::string& source,
                       const std::vector<Destination>& destinations, const PlanOptions& options) {
    std::vector<Placement::Device> devices;
    for (const auto& destination : destinations) {
        auto space = space_of(destination.root());
        if (!space) return fail(space.error().within(destination.path()));
        const std::uint64_t keep = options.keep_free.of(space->total);
        const bool is_near =
            options.gpu_affinity < 0 || numa_node_of(destination.facts().device) == options.gpu_affinity;
        devices.push_back(
            {destination.facts().device, space->available > keep ? space->available - keep : 0, is_near});
    }
    return Planner(source, destinations, options, Placement(devices)).run(tree);
}

}  // namespace tierfs::stage
