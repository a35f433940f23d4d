#include "fs/stage/copy/upkeep.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "config/base/json_text.hpp"
#include "config/base/units.hpp"
#include "fs/stage/copy/farm.hpp"
#include "fs/stage/copy/held_folder.hpp"

namespace tierfs::stage {

namespace {

std::string utc(std::int64_t seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts{};
    gmtime_r(&time, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

constexpr const char* kPin = "pin";

/// 0: never, as far as is known.
std::int64_t last_used(const BookFolder& books) {
    auto status = books.status("last-used");
    if (!status) status = books.status(kManifest);
    return status ? status->st_mtim.tv_sec : 0;
}

std::int64_t last_used(const std::string& folder) {
    const auto books = BookFolder::at(folder + "/" + kBooks);
    return books ? last_used(*books) : 0;
}

std::uint64_t bytes_of(const Manifest& manifest) {
    std::uint64_t bytes = 0;
    for (const auto& [path, record] : manifest.records) bytes += record.size;
    return bytes;
}

Result<Destination> look_at(const std::string& folder, const StopFlag& stop) {
    Destination::Options options;
    options.lock = false;
    return Destination::open(folder, options, stop);
}

void show_status(const Destination& destination, Reporter& reporter) {
    const Manifest& manifest = destination.manifest();
    const JournalContents& journal = destination.found_journal();
    std::uint64_t written = 0;
    for (const auto& [part, file] : journal.parts)
        for (const auto& [offset, mark] : file.pieces) written += mark.length;
    const std::int64_t used = last_used(destination.books());
    const bool pinned = destination.books().status(kPin).has_value();
    OrderedJson members = {{"files", manifest.records.size()},
                           {"bytes", bytes_of(manifest)},
                           {"unfinished_files", journal.parts.size()},
                           {"unfinished_bytes", written},
                           {"pinned", pinned},
                           {"last_used", utc(used)},
                           {"file_system", destination.facts().name},
                           {"device", destination.facts().device},
                           {"numa_node", numa_node_of(destination.facts().device)}};
    put_text(members, "path", destination.path());
    put_text(members, "source", manifest.header.source);
    if (auto space = space_of(destination.root())) members["free_bytes"] = space->available;
    reporter.event("status", members);
    reporter.say(destination.path() + ": " + manifest.header.source);
    reporter.say("  " + std::to_string(manifest.records.size()) + " files, " +
                 format_size(bytes_of(manifest)) + ", on " + destination.facts().name + " " +
                 destination.facts().device + (pinned ? ", pinned" : "") + ", last used " + utc(used));
    if (!journal.parts.empty())
        reporter.say("  interrupted: " + std::to_string(journal.parts.size()) + " files are begun, " +
                     format_size(written) + " of them written");
}

/// Removes all that is staged. Whether something of it stays.
bool evict_files(Destination& destination, ManifestWriter& writer, const EvictOptions& options,
                 Reporter& reporter, const StopFlag& stop) {
    bool left = false;
    std::vector<ManifestRecord> records;
    for (const auto& [path, record] : destination.manifest().records) {
        if (stop.requested()) {
            left = true;
            break;
        }
        const FinalState state = destination.state_of(path, &record);
        if (state == FinalState::staged) {
            if (auto removed = remove_below(destination.root(), path); !removed) {
                reporter.failed(path, removed.error());
                left = true;
                continue;
            }
            ++reporter.totals().files_removed;
        } else if (state != FinalState::absent) {
            reporter.warning("'" + printable(path) + "' in " + destination.path() +
                             " was changed since it was staged: left alone");
        }
        if (!options.farm.empty()) {
            if (auto unlinked = unlink_from_farm(options.farm, path); !unlinked)
                reporter.failed(path, unlinked.error());
        }
        records.push_back(record);
        records.back().state = RecordState::removed;
        records.back().crc32c.clear();
    }
    // A kill came between the name and the record.
    for (const auto& [part, record] : destination.found_journal().whole)
        if (destination.state_of(record.path, &record) == FinalState::staged)
            if (auto removed = remove_below(destination.root(), record.path); !removed) left = true;
    auto noted = writer.append(records);
    if (noted) noted = writer.sync();
    if (!noted) reporter.error(noted.error().message);
    return left || !noted;
}

/// The manifest last: until then a kill leaves a dataset that can be evicted again.
Result<void> remove_books(const Destination& destination) {
    const auto& books = destination.books();
    for (const auto& name : books.names()) {
        if (name == kManifest) continue;
        if (auto removed = remove_all_of(books.fd(), name); !removed)
            return fail(removed.error().within(books.path()));
    }
    auto removed = books.remove(kManifest);
    return removed ? remove_all_of(destination.root(), kBooks) : removed;
}

Result<void> evict(const std::string& folder, const EvictOptions& options, Reporter& reporter,
                   const StopFlag& stop) {
    Destination::Options how;
    how.wait = options.wait;
    how.lock = !options.dry_run;
    auto destination = Destination::open(folder, how, stop);
    if (!destination) return fail(destination.error());
    if (destination->books().status(kPin) && !options.even_pinned)
        return fail(EPERM, folder + " is pinned: unpin it first, or give --even-pinned");
    const std::uint64_t bytes = bytes_of(destination->manifest());
    const std::uint64_t files = destination->manifest().records.size();
    OrderedJson members = {{"files", files}, {"bytes", bytes}, {"dry_run", options.dry_run}};
    put_text(members, "path", destination->path());
    if (!options.dry_run) {
        auto writer = ManifestWriter::open(destination->books(), kManifest, destination->manifest().header);
        if (!writer) return fail(writer.error());
        if (evict_files(*destination, *writer, options, reporter, stop))
            return fail(EIO, destination->path() + ": not all of it could be removed");
        if (auto removed = remove_books(*destination); !removed) return removed;
    }
    reporter.event("evicted", std::move(members));
    reporter.say(std::string(options.dry_run ? "would evict " : "evicted ") + destination->path() + ": " +
                 std::to_string(files) + " files, " + format_size(bytes));
    return {};
}

/// XFS gives the blocks of removed files back a moment later, in the background.
void await_space(int fd, std::uint64_t wanted, const StopFlag& stop) {
    constexpr std::chrono::milliseconds kLook{20};
    constexpr int kLooks = 150;
    for (int i = 0; i < kLooks && !stop.requested(); ++i) {
        const auto space = space_of(fd);
        if (!space || space->available >= wanted) return;
        std::this_thread::sleep_for(kLook);
    }
}

/// The datasets of a root.
std::vector<std::string> datasets_below(const std::string& root) {
    std::vector<std::string> found;
    const auto add = [&](const std::filesystem::path& folder) {
        std::error_code error;
        if (std::filesystem::exists(folder / kBooks / "manifest.jsonl", error))
            found.push_back(folder.string());
    };
    add(root);
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(root, error))
        if (entry.is_directory(error) && !entry.is_symlink(error)) add(entry.path());
    return found;
}

}  // namespace

int stage_status(const std::vector<std::string>& folders, Reporter& reporter, const StopFlag& stop) {
    int status = 0;
    for (const auto& folder : folders) {
        const auto destination = look_at(folder, stop);
        if (destination) {
            show_status(*destination, reporter);
        } else {
            reporter.error(destination.error().message);
            status = 1;
        }
    }
    return status;
}

int stage_pin(const std::vector<std::string>& folders, const std::string& reason, Reporter& reporter,
              const StopFlag& stop) {
    int status = 0;
    for (const auto& folder : folders) {
        const auto destination = look_at(folder, stop);
        if (!destination) {
            reporter.error(destination.error().message);
            status = 1;
            continue;
        }
        const auto pin = destination->books().book(kPin, O_WRONLY | O_CREAT | O_TRUNC);
        auto written = pin ? write_all(pin->get(), reason + "\n") : fail(pin.error());
        if (written && ::fsync(pin->get()) != 0)
            written = fail(system_error(errno, destination->books().path(kPin)));
        if (!written) {
            reporter.error(written.error().message);
            status = 1;
        }
    }
    return status;
}

int stage_unpin(const std::vector<std::string>& folders, Reporter& reporter, const StopFlag& stop) {
    int status = 0;
    for (const auto& folder : folders) {
        const auto destination = look_at(folder, stop);
        if (!destination) {
            reporter.error(destination.error().message);
            status = 1;
        } else if (const auto removed = destination->books().remove(kPin); !removed) {
            reporter.error(removed.error().message);
            status = 1;
        }
    }
    return status;
}

int stage_evict(const std::vector<std::string>& folders, const EvictOptions& options, Reporter& reporter,
                const StopFlag& stop) {
    int status = 0;
    for (const auto& folder : folders) {
        if (auto done = evict(folder, options, reporter, stop); !done) {
            reporter.error(done.error().message);
            status = 1;
        }
    }
    return status;
}

int stage_gc(const std::vector<std::string>& roots, const KeepFree& wanted, const EvictOptions& options,
             Reporter& reporter, const StopFlag& stop) {
    int status = 0;
    for (const auto& root : roots) {
        const auto held = HeldFolder::open(root);
        if (!held) {
            reporter.error(held.error().message);
            status = 1;
            continue;
        }
        auto datasets = datasets_below(held->path);
        std::stable_sort(datasets.begin(), datasets.end(), [](const std::string& a, const std::string& b) {
            return last_used(a) < last_used(b);
        });
        std::uint64_t promised = 0;  // of a dry run
        std::size_t left = 0;
        const auto is_enough = [&] {
            const auto space = space_of(held->fd.get());
            return space && space->available + promised >= wanted.of(space->total);
        };
        for (const auto& dataset : datasets) {
            if (is_enough() || stop.requested()) break;
            const auto seen = look_at(dataset, stop);
            if (seen && seen->books().status(kPin)) {
                ++left;
                continue;
            }
            const std::uint64_t bytes = seen ? bytes_of(seen->manifest()) : 0;
            const auto before = space_of(held->fd.get());
            if (auto done = evict(dataset, options, reporter, stop); !done) {
                reporter.warning(done.error().message);
                ++left;
            } else if (options.dry_run) {
                promised += bytes;
            } else if (before) {
                await_space(held->fd.get(), before->available + bytes, stop);
            }
        }
        if (is_enough()) continue;
        if (stop.requested()) return 1;
        reporter.error(root + ": not as much is free as was asked for, and " +
                       (left == 0 ? "nothing that was staged is left: what others keep there takes the rest"
                                  : "all that is staged is pinned or in use"));
        status = 1;
    }
    return status;
}

}  // namespace tierfs::stage
