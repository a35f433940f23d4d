#include "backends/s3/readwrite/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "backends/http/request.hpp"
#include "backends/s3/client/sigv4.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/json_text.hpp"
#include "config/base/log.hpp"

namespace tierfs::s3 {

namespace {

namespace fs = std::filesystem;

constexpr const char *kRecord = ".record", *kBytes = ".bytes", *kDamaged = ".damaged", *kNew = ".new";
constexpr std::size_t kLargestRecord = 64 << 10;
constexpr std::chrono::milliseconds kPatience{5000}, kBetweenTries{50};

std::string name_of(std::uint64_t number, const char* ending) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%016llu", static_cast<unsigned long long>(number));
    return text.data() + std::string(ending);
}

std::optional<std::uint64_t> number_of(std::string_view name, std::string_view ending) {
    if (!name.ends_with(ending)) return std::nullopt;
    name.remove_suffix(ending.size());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
    return number;
}

std::string folder_of(const std::string& identity) {
    constexpr std::size_t kDigits = 16;
    return sha256_hex(identity).substr(0, kDigits);
}

constexpr std::array<const char*, 3> kExpectations{"nothing", "version", "anything"};

Result<std::string> read_all(int directory, const std::string& name) {
    const FileDescriptor file(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return fail(system_error(errno, name));
    std::string text(kLargestRecord, '\0');
    const auto got = ::pread(file.get(), text.data(), text.size(), 0);
    if (got < 0) return fail(system_error(errno, name));
    text.resize(static_cast<std::size_t>(got));
    return text;
}

}  // namespace

std::string record_text(const JournalRecord& record) {
    OrderedJson json;
    json["sequence"] = record.sequence;
    json["kind"] = record.kind == JournalRecord::Kind::put ? "put" : "remove";
    put_text(json, "path", record.path);
    json["expects"] = kExpectations.at(static_cast<std::size_t>(record.expects));
    put_text(json, "version", record.version);
    json["after"] = record.after;
    json["first"] = record.first != 0 ? record.first : record.sequence;
    json["made_ns"] = record.made_ns;
    json["light"] = record.is_light ? 1 : 0;
    json["replaces"] = record.replaces;
    if (record.kind == JournalRecord::Kind::remove) return json.dump() + "\n";
    json["size"] = record.size;
    put_text(json, "bytes", record.bytes);
    put_text(json, "tags", record.metadata.tags);
    auto headers = OrderedJson::array();
    for (const auto& [name, value] : metadata_headers(record.metadata)) {
        OrderedJson header;
        put_text(header, "name", name == "Content-Type" ? "content-type" : name);
        put_text(header, "value", value);
        headers.push_back(std::move(header));
    }
    json["metadata"] = std::move(headers);
    return json.dump() + "\n";
}

Result<JournalRecord> parse_record(const std::string& text) {
    const auto json = OrderedJson::parse(text, nullptr, false);
    if (!json.is_object()) return fail(EINVAL, "no JSON object");
    Fields fields(json);
    JournalRecord record;
    record.sequence = fields.number("sequence");
    const auto kind = fields.text("kind"), expects = fields.text("expects");
    record.kind = kind == "put" ? JournalRecord::Kind::put : JournalRecord::Kind::remove;
    record.path = fields.text("path");
    const auto expected = std::find(kExpectations.begin(), kExpectations.end(), expects);
    record.expects = static_cast<JournalRecord::Expects>(expected - kExpectations.begin());
    record.version = fields.text("version");
    record.after = fields.number("after");
    record.first = fields.number("first");
    record.made_ns = static_cast<std::int64_t>(fields.number("made_ns"));
    record.is_light = fields.number("light", 1) == 1;
    record.replaces = fields.number("replaces");
    if (!fields.good()) return fail(EINVAL, fields.problem());
    if ((kind != "put" && kind != "remove") || expected == kExpectations.end() || record.path.empty() ||
        record.sequence == 0 || record.first == 0 || record.first > record.sequence)
        return fail(EINVAL, "a value is none that is written");
    if (record.is_of_directory() && (record.kind == JournalRecord::Kind::remove || record.path.size() == 1))
        return fail(EINVAL, "no directory that is made");
    if (record.kind == JournalRecord::Kind::remove) return record;
    record.size = fields.number("size");
    record.bytes = fields.text("bytes");
    const auto tags = fields.text("tags");
    http::Response head;
    for (const auto& header : fields.array("metadata")) {
        if (!header.is_object()) return fail(EINVAL, "metadata is none");
        Fields one(header);
        auto name = one.text("name"), value = one.text("value");
        if (!one.good()) return fail(EINVAL, one.problem());
        head.headers.emplace_back(std::move(name), std::move(value));
    }
    if (!fields.good() || !number_of(record.bytes, kBytes)) return fail(EINVAL, "bytes or metadata are none");
    record.metadata = metadata_of_head(head, {}, record.is_of_directory());
    record.metadata.tags = tags;
    return record;
}

namespace {

std::uint64_t records_in(const fs::path& folder) {
    std::error_code none;
    return static_cast<std::uint64_t>(
        std::count_if(fs::directory_iterator(folder, none), fs::directory_iterator(),
                      [](const fs::directory_entry& one) { return one.path().string().ends_with(kRecord); }));
}

/// A source under another name, or one that is not mounted any more: nobody would bring that to its bucket.
void tell_of_others(const std::string& folder, const std::string& own) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().string() == own) continue;
        const auto records = records_in(entry.path());
        if (records == 0) continue;
        const FileDescriptor lock(::open((entry.path() / "lock").c_str(), O_RDWR | O_CLOEXEC));
        if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
        std::string source;
        std::getline(std::ifstream(entry.path() / "source"), source);
        log::warning("the journal " + entry.path().string() + " holds " + std::to_string(records) +
                     " changes of " + printable(source) +
                     " that no mount is bringing to it: mount that writable, with this journal.path");
    }
}

}  // namespace

Result<std::unique_ptr<Journal>> Journal::open(const std::string& folder, const std::string& identity) {
    const auto own = (fs::path(folder) / folder_of(identity)).string();
    const auto refuse = [](const std::string& path) {
        return fail(system_error(errno, "journal.path " + path));
    };
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refuse(folder);
    if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) return refuse(own);
    FileDescriptor directory(::open(own.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return refuse(own);
    FileDescriptor lock(::openat(directory.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock) return refuse(own + "/lock");
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return refuse(own + "/lock");
        if (std::chrono::steady_clock::now() >= until)
            return fail(EBUSY, "journal.path " + folder + " is in use by another writable mount of " +
                                   identity + ": unmount that one, or give this one a folder of its own");
        std::this_thread::sleep_for(kBetweenTries);
    }
    const FileDescriptor source(
        ::openat(directory.get(), "source", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (source) (void)write_all(source.get(), identity + "\n");
    std::unique_ptr<Journal> journal(new Journal(own, std::move(directory), std::move(lock)));
    tell_of_others(folder, own);
    journal->against_passthrough_ = journal->find_against_passthrough();
    if (auto looked = journal->look(); !looked) return fail(looked.error().within("journal.path " + own));
    return journal;
}

std::uint64_t Journal::count(const std::string& folder, const std::string& identity) {
    return folder.empty() ? 0 : records_in(fs::path(folder) / folder_of(identity));
}

Result<void> Journal::look() {
    std::error_code error;
    std::vector<std::string> records, others;
    bool is_damaged = false;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
        auto name = entry.path().filename().string();
        is_damaged = is_damaged || name.ends_with(kDamaged);
        (number_of(name, kRecord) ? records : others).push_back(std::move(name));
    }
    if (error) return fail(system_error(error.value(), folder_));
    std::vector<std::uint64_t> replaced;
    for (const auto& name : records) {
        last_found_ = std::max(last_found_, *number_of(name, kRecord));
        auto found = find(name, replaced);
        if (found) continue;
        // What cannot be read now may be read by the next mount.
        if (found.error().code != EINVAL) return found;
        log::error("the journal's " + folder_ + "/" + name +
                   " cannot be used, and is put aside: " + found.error().message);
        const auto aside = name.substr(0, name.size() - std::string(kRecord).size()) + kDamaged;
        if (::renameat(directory_->get(), name.c_str(), directory_->get(), aside.c_str()) != 0)
            return fail(system_error(errno, name));
        is_damaged = true;
    }
    for (const auto sequence : replaced) {
        std::erase_if(found_, [&](const Found& one) { return one.record.sequence == sequence; });
        if (auto removed = done(sequence); !removed) return removed;
    }
    std::sort(found_.begin(), found_.end(), [](const Found& one, const Found& other) {
        return one.record.sequence < other.record.sequence;
    });
    std::set<std::string> needed;
    for (const auto& one : found_) needed.insert(one.record.bytes);
    for (const auto& name : others) {
        const auto number = number_of(name, kBytes);
        if (number) made_ = std::max(made_.load(), *number);
        // Of a damaged record nobody knows whose bytes they are.
        const bool goes = name.ends_with(kNew) || (number && !is_damaged && !needed.contains(name));
        if (goes) ::unlinkat(directory_->get(), name.c_str(), 0);
    }
    return {};
}

Result<void> Journal::find(const std::string& name, std::vector<std::uint64_t>& replaced) {
    const auto text = read_all(directory_->get(), name);
    if (!text) return fail(text.error());
    auto record = parse_record(*text);
    if (!record) return fail(record.error());
    if (record->sequence != number_of(name, kRecord)) return fail(EINVAL, "its name is another record's");
    const auto replaces = record->replaces;
    Found found{std::move(*record), nullptr};
    if (found.record.kind == JournalRecord::Kind::put) {
        const auto& bytes = found.record.bytes;
        FileDescriptor file(::openat(directory_->get(), bytes.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (!file)
            return fail(errno == ENOENT ? EINVAL : errno,
                        bytes + " cannot be opened: " + system_error(errno, "open").message);
        struct stat there {};
        if (::fstat(file.get(), &there) != 0) return fail(system_error(errno, bytes));
        if (static_cast<std::uint64_t>(there.st_size) < found.record.size)
            return fail(EINVAL, bytes + " is shorter than what was acknowledged");
        found.copy = copy_of(std::move(file), bytes);
        found.copy->keep();
    }
    found_.push_back(std::move(found));
    if (replaces != 0) replaced.push_back(replaces);
    return {};
}

std::shared_ptr<LocalCopy> Journal::copy_of(FileDescriptor file, std::string name) {
    return {new LocalCopy(std::move(file), std::move(name)), [folder = directory_](LocalCopy* copy) {
                if (!copy->is_kept()) ::unlinkat(folder->get(), copy->name().c_str(), 0);
                delete copy;
            }};
}

/// Times of change are as fine as that since Linux 6.13, where they have been looked at (ext4, XFS, Btrfs, tmpfs). Files
/// without a name: nothing of them stays.
std::string Journal::find_against_passthrough() const {
    constexpr int kTries = 32;
    std::array<FileDescriptor, 2> files;
    for (auto& file : files) {
        file.reset(::openat(directory_->get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (!file) return system_error(errno, "a file without a name in journal.path").message;
    }
    LocalCopy from(std::move(files[0])), to(std::move(files[1]));
    const std::array<std::byte, 1> byte{};
    std::optional<LocalCopy::Stamp> before;
    for (int i = 0; i < kTries; ++i) {
        if (auto written = from.write(byte, 0); !written) return written.error().message;
        const auto now = from.stamp();
        if (!now) return now.error().message;
        if (before && *before == *now)
            return "journal.path is on a file system that does not tell each write by its time: XFS and Btrfs do, of "
                   "Linux 6.13 or later";
        before = *now;
    }
    if (auto shared = from.share_with(to); !shared)
        return "journal.path is on a file system that shares no blocks between files, as XFS and Btrfs do: " +
               shared.error().message;
    return {};
}

bool Journal::is_half_empty() const {
    struct statvfs found {};
    return ::fstatvfs(directory_->get(), &found) == 0 && found.f_bavail >= found.f_blocks / 2;
}

std::uint64_t Journal::free_space() const {
    struct statvfs found {};
    return ::fstatvfs(directory_->get(), &found) == 0 ? found.f_bavail * found.f_frsize : 0;
}

Result<std::shared_ptr<LocalCopy>> Journal::make() {
    const auto name = name_of(++made_, kBytes);
    FileDescriptor file(TIERFS_FAULT_CALL(
        "s3.journal.open",
        ::openat(directory_->get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
    if (!file) return fail(system_error(errno, "the journal's " + folder_ + "/" + name));
    return copy_of(std::move(file), name);
}

Result<void> Journal::sync_folder() {
    if (TIERFS_FAULT_CALL("s3.journal.sync", ::fsync(directory_->get())) != 0)
        return fail(system_error(errno, "syncing the journal's " + folder_));
    return {};
}

/// Under a name that nobody reads until it is complete.
Result<void> Journal::write(const JournalRecord& record) {
    const auto name = name_of(record.sequence, kRecord), made = name_of(record.sequence, kNew);
    FileDescriptor file(TIERFS_FAULT_CALL(
        "s3.journal.record",
        ::openat(directory_->get(), made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)));
    if (!file) return fail(system_error(errno, "the journal's " + folder_ + "/" + made));
    auto written = write_all(file.get(), record_text(record));
    if (written && TIERFS_FAULT_CALL("s3.journal.sync", ::fdatasync(file.get())) != 0)
        written = fail(system_error(errno, "syncing a record"));
    if (written && TIERFS_FAULT_CALL("s3.journal.rename", ::renameat(directory_->get(), made.c_str(),
                                                                     directory_->get(), name.c_str())) != 0)
        written = fail(system_error(errno, "naming a record"));
    if (written) return sync_folder();
    ::unlinkat(directory_->get(), made.c_str(), 0);
    return fail(written.error().within("the journal's " + folder_));
}

Result<void> Journal::add(const JournalRecord& record, LocalCopy* copy) {
    if (copy != nullptr) {
        copy->keep();
    }
    auto written = write(record);
    if (!written) {
        // It may be there all the same, when only the folder could not be synced.
        if (done(record.sequence) && copy != nullptr) copy->let_go();
        return written;
    }
    // The record says that it replaces the other, as long as it stands, and the other leaves before it does.
    if (record.replaces != 0) (void)done(record.replaces);
    return {};
}

Result<void> Journal::change(const JournalRecord& record) {
    {
        const MutexLock lock(mutex_);
        leaving_.erase(record.sequence);  // it stays
    }
    return write(record);
}

// Durable before anything that comes after it is done: a record that a power cut brought back would undo that. So one
// that could not be removed goes before the next does.
Result<void> Journal::done(std::uint64_t sequence) {
    const MutexLock lock(mutex_);
    leaving_.insert(sequence);
    while (!leaving_.empty()) {
        const auto name = name_of(*leaving_.begin(), kRecord);
        if (TIERFS_FAULT_CALL("s3.journal.unlink", ::unlinkat(directory_->get(), name.c_str(), 0)) != 0 &&
            errno != ENOENT)
            return fail(system_error(errno, "removing the journal's " + folder_ + "/" + name));
        if (auto synced = sync_folder(); !synced) return synced;
        leaving_.erase(leaving_.begin());
    }
    return {};
}

}  // namespace tierfs::s3
