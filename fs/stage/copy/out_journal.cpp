#include "fs/stage/copy/out_journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::stage {
namespace {

constexpr std::string_view kFormat = "tierfs-stage-out-journal";
constexpr int kVersion = 1;

std::string header_line(const std::string& destination) {
    OrderedJson json{{"format", std::string(kFormat)}, {"version", kVersion}};
    put_text(json, "destination", destination);
    return json.dump() + "\n";
}

OrderedJson event(const char* what, const std::string& path) {
    OrderedJson json{{"what", what}};
    put_text(json, "path", path);
    return json;
}

std::string intent_line(const std::string& path, std::int64_t now_s) {
    auto json = event("intent", path);
    json["time"] = now_s;
    return json.dump() + "\n";
}

std::string pending_line(const OutPending& upload) {
    auto json = event("upload", upload.path);
    put_text(json, "source_version", upload.source_version);
    put_text(json, "id", upload.id);
    json["size"] = upload.size;
    json["part_size"] = upload.part_size;
    return json.dump() + "\n";
}

std::string done_line(const OutDone& done) {
    auto json = event("done", done.record.path);
    put_text(json, "version", done.version);
    put_text(json, "checksum", done.checksum);
    json["record"] = OrderedJson::parse(to_line(done.record));
    return json.dump() + "\n";
}

std::string name_for(const std::string& destination) {
    return to_hex(XXH3_64bits(destination.data(), destination.size()), 16);
}

Result<FileDescriptor> lock_file(const BookFolder& state, const std::string& name) {
    auto fd = state.book(name, O_RDWR | O_CREAT, 0600);
    if (!fd) return fail(fd.error());
    while (::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return fail(EBUSY, state.path(name) +
                                   ": another tierfs-stage out sends the same directory to the same "
                                   "destination: wait for its end");
        if (errno != EINTR) return fail(system_error(errno, state.path(name)));
    }
    return fd;
}

}  // namespace

Result<OutJournal> OutJournal::open(const BookFolder& state, const std::string& destination) {
    OutJournal journal;
    const auto name = name_for(destination) + ".jsonl";
    journal.path_ = state.path(name);
    auto lock = lock_file(state, name_for(destination) + ".lock");
    if (!lock) return fail(lock.error());
    journal.lock_ = std::move(*lock);
    if (auto loaded = journal.load(state, name, destination); !loaded) return fail(loaded.error());
    if (auto rewritten = journal.rewrite(state, name, destination); !rewritten)
        return fail(rewritten.error());
    if (auto synced = state.sync(); !synced) return fail(synced.error());
    return journal;
}

Result<OutJournal> OutJournal::peek(const BookFolder& state, const std::string& destination) {
    OutJournal journal;
    const auto name = name_for(destination) + ".jsonl";
    journal.path_ = state.path(name);
    if (auto loaded = journal.load(state, name, destination); !loaded) return fail(loaded.error());
    return journal;
}

Result<void> OutJournal::load(const BookFolder& state, const std::string& name,
                              const std::string& destination) {
    auto file = state.read(name);
    if (!file) return file.error().code == ENOENT ? Result<void>{} : fail(file.error());
    std::string line;
    for (std::uint64_t number = 1; std::getline(*file, line); ++number) {
        if (file->eof()) break;  // no newline: torn
        const auto refuse = [&](const std::string& why) {
            return fail(EINVAL, path_ + ":" + std::to_string(number) + ": " + why +
                                    ": move the file away; then everything is compared anew");
        };
        if (number == 1) {
            if (line + "\n" != header_line(destination))
                return refuse("no journal of tierfs-stage out for this destination");
            continue;
        }
        // A line that a full disk cut, with the next one behind it: what it was about is compared anew.
        if (!take(line)) ++damaged_lines_;
    }
    if (file->bad()) return fail(EIO, path_ + ": cannot be read");
    return {};
}

Result<void> OutJournal::take(std::string_view line) {
    const OrderedJson json = OrderedJson::parse(line, nullptr, false);
    if (!json.is_object()) return fail(EINVAL, "no JSON object");
    Fields fields(json);
    const auto what = fields.text("what");
    const auto path = fields.text("path");
    if (!fields.good()) return fail(EINVAL, fields.problem());
    if (!is_clean_path(path)) return fail(EINVAL, "the path is not a clean relative one");
    if (what == "intent") {
        const auto time = fields.signed_number("time");
        if (fields.good()) intents_[path] = time;
    } else if (what == "upload") {
        OutPending pending{path, fields.text("source_version"), fields.text("id"), fields.number("size"),
                           fields.number("part_size")};
        if (fields.good()) {
            intents_.erase(path);
            pending_[path] = std::move(pending);
        }
    } else if (what == "ended") {
        pending_.erase(path);
        intents_.erase(path);
    } else if (what == "forgotten") {
        done_.erase(path);
    } else if (what == "done") {
        const auto record = json.find("record");
        auto parsed = parse_record(record == json.end() ? "" : record->dump());
        if (!parsed) return fail(parsed.error());
        OutDone done{std::move(*parsed), fields.text("version"), fields.text("checksum")};
        if (done.record.path != path) return fail(EINVAL, "a record of another path");
        if (fields.good()) {
            intents_.erase(path);
            done_[path] = std::move(done);
        }
    } else {
        return fail(EINVAL, "a line of an unknown kind");
    }
    return fields.good() ? Result<void>{} : fail(EINVAL, fields.problem());
}

Result<void> OutJournal::rewrite(const BookFolder& state, const std::string& name,
                                 const std::string& destination) {
    const auto beside = name + ".new";
    if (auto gone = state.remove(beside); !gone) return gone;
    auto file = state.book(beside, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600);
    if (!file) return fail(file.error());
    file_ = std::move(*file);
    std::string text = header_line(destination);
    for (const auto& [path, time] : intents_) text += intent_line(path, time);
    for (const auto& [path, upload] : pending_) text += pending_line(upload);
    for (const auto& [path, done] : done_) text += done_line(done);
    if (auto written = write_all(file_.get(), text); !written)
        return fail(written.error().within(state.path(beside)));
    if (::fsync(file_.get()) != 0) return fail(system_error(errno, state.path(beside)));
    return state.rename(beside, name);
}

Result<void> OutJournal::append(const std::string& line, bool durably) const {
    if (auto written = write_all(file_.get(), line); !written) return fail(written.error().within(path_));
    if (durably && ::fdatasync(file_.get()) != 0) return fail(system_error(errno, path_));
    return {};
}

Result<void> OutJournal::intend(const std::string& path, std::int64_t now_s, bool durably) const {
    return append(intent_line(path, now_s), durably);
}

Result<void> OutJournal::began(const OutPending& upload) const {
    return append(pending_line(upload), true);
}

Result<void> OutJournal::ended(const std::string& path) const {
    return append(event("ended", path).dump() + "\n", false);
}

Result<void> OutJournal::finished(const OutDone& done) const {
    return append(done_line(done), false);
}

Result<void> OutJournal::forgotten(const std::string& path) const {
    return append(event("forgotten", path).dump() + "\n", false);
}

}  // namespace tierfs::stage
