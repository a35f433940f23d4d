// stage_verify of upkeep.hpp.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "config/base/json_text.hpp"
#include "config/base/units.hpp"
#include "fs/stage/copy/content.hpp"
#include "fs/stage/copy/upkeep.hpp"

namespace tierfs::stage {

namespace {

/// What is wrong with a file; empty: nothing. An error: it could not be found out.
Result<std::string> examine(const Destination& destination, const ManifestRecord& record, bool full,
                            const StopFlag& stop, Totals& totals) {
    const FinalState state = destination.state_of(record.path, &record);
    if (state == FinalState::absent) return "it is gone";
    if (state != FinalState::staged) return "it was changed since it was staged";
    if (!record.link.empty()) return std::string();
    bool made = false;
    const auto parent = open_parent(destination.root(), record.path, false, made);
    if (!parent) return fail(parent.error());
    const auto fd = open_direct(parent->get(), name_in_parent(record.path));
    if (!fd) return fail(fd.error());
    auto verdict = check_extents(fd->get(), record.size);
    if (!verdict) return fail(verdict.error());
    if (!verdict->problem.empty() && destination.facts().is_suitable()) return verdict->problem;
    if (!full) return std::string();
    return compare_content(
        fd->get(), record, [&stop] { return stop.requested(); },
        [&totals](std::uint64_t bytes) { totals.bytes_done += bytes; });
}

/// One folder. Threads take records by number.
class Verification {
  public:
    Verification(const Destination& destination, const VerifyOptions& options, Reporter& reporter,
                 const StopFlag& stop)
        : destination_(destination), options_(options), reporter_(reporter), stop_(stop) {
        for (const auto& [path, record] : destination.manifest().records) records_.push_back(&record);
        for (const auto* record : records_) reporter.totals().bytes_planned += record->size;
        reporter.totals().files_planned += records_.size();
        bad_.resize(records_.size());
    }

    /// Records of files that are not what was staged.
    std::vector<ManifestRecord> run() {
        std::vector<std::thread> threads;
        const unsigned count = options_.full ? std::max(1U, options_.threads) : 1;
        for (unsigned i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
        for (auto& thread : threads) thread.join();
        std::vector<ManifestRecord> bad;
        for (std::size_t i = 0; i < records_.size(); ++i)
            if (bad_[i] != 0) bad.push_back(*records_[i]);
        return bad;
    }

  private:
    void work() {
        for (std::size_t i = next_++; i < records_.size() && !stop_.requested(); i = next_++) {
            const ManifestRecord& record = *records_[i];
            const auto found = examine(destination_, record, options_.full, stop_, reporter_.totals());
            if (!found && found.error().code == ECANCELED) return;
            if (found && found->empty()) {
                ++reporter_.totals().files_staged;
                continue;
            }
            bad_[i] = found ? 1 : 0;
            reporter_.failed(record.path, found ? Error{EIO, *found} : found.error());
        }
    }

    const Destination& destination_;
    const VerifyOptions& options_;
    Reporter& reporter_;
    const StopFlag& stop_;
    std::vector<const ManifestRecord*> records_;
    std::vector<char> bad_;  ///< each written by the one thread that has the record
    std::atomic<std::size_t> next_ = 0;
};

Result<void> remove_bad(const Destination& destination, std::vector<ManifestRecord> bad) {
    if (bad.empty()) return {};
    auto writer = ManifestWriter::open(destination.books(), kManifest, destination.manifest().header);
    if (!writer) return fail(writer.error());
    for (auto& record : bad) {
        if (auto removed = remove_below(destination.root(), record.path);
            !removed && removed.error().code != ENOENT)
            return removed;
        record.state = RecordState::removed;
        record.crc32c.clear();
    }
    if (auto noted = writer->append(bad); !noted) return noted;
    return writer->sync();
}

}  // namespace

int stage_verify(const std::vector<std::string>& folders, const VerifyOptions& options, Reporter& reporter,
                 const StopFlag& stop) {
    bool good = true;
    reporter.start_progress();
    for (const auto& folder : folders) {
        Destination::Options how;
        how.lock = options.remove_bad;
        const auto destination = Destination::open(folder, how, stop);
        if (!destination) {
            reporter.error(destination.error().message);
            good = false;
            continue;
        }
        auto bad = Verification(*destination, options, reporter, stop).run();
        if (!options.remove_bad) continue;
        if (auto removed = remove_bad(*destination, std::move(bad)); !removed) {
            reporter.error(removed.error().message);
            good = false;
        }
    }
    reporter.end_progress();
    if (stop.requested()) reporter.error("stopped");
    good = good && reporter.totals().files_failed == 0 && !stop.requested();
    OrderedJson members = {{"files", reporter.totals().files_planned.load()},
                           {"bytes", reporter.totals().bytes_planned.load()},
                           {"bad_files", reporter.totals().files_failed.load()},
                           {"full", options.full},
                           {"good", good}};
    reporter.event("verified", std::move(members));
    reporter.say(std::to_string(reporter.totals().files_staged) + " of " +
                 std::to_string(reporter.totals().files_planned) + " files are as staged, " +
                 std::to_string(reporter.totals().files_failed) + " are not");
    return good ? 0 : 1;
}

}  // namespace tierfs::stage
