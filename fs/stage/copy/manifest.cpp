#include "fs/stage/copy/manifest.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::stage {

namespace {

std::size_t chunks_of(std::uint64_t size) {
    return static_cast<std::size_t>(size / kChunkBytes + (size % kChunkBytes != 0 ? 1 : 0));
}

/// Holds the manifest against others who append to it: a line of another is then either there or not.
class AppendLock {
  public:
    explicit AppendLock(int fd) : fd_(fd) {
        while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
        }
    }
    ~AppendLock() { ::flock(fd_, LOCK_UN); }
    AppendLock(const AppendLock&) = delete;
    AppendLock& operator=(const AppendLock&) = delete;

  private:
    int fd_;
};

Result<void> cut_torn_line(int fd, const std::string& path) {
    const AppendLock lock(fd);
    struct stat status {};
    if (::fstat(fd, &status) != 0) return fail(system_error(errno, path));
    off_t end = status.st_size;
    for (char last = 0; end > 0; --end) {
        if (::pread(fd, &last, 1, end - 1) != 1) return fail(system_error(errno, path));
        if (last == '\n') break;
    }
    if (end != status.st_size && ::ftruncate(fd, end) != 0) return fail(system_error(errno, path));
    return {};
}

}  // namespace

bool is_clean_path(std::string_view path) {
    if (path.empty() || path.find('\0') != std::string_view::npos) return false;
    while (true) {
        const auto slash = path.find('/');
        const auto component = path.substr(0, slash);
        if (component.empty() || component == "." || component == ".." || component.size() > 255)
            return false;
        if (slash == std::string_view::npos) return true;
        path.remove_prefix(slash + 1);
    }
}

std::string to_line(const ManifestHeader& header) {
    OrderedJson json = {{"format", std::string(kManifestFormat)},
                        {"version", kManifestVersion},
                        {"created_by", header.created_by}};
    put_text(json, "source", header.source);
    for (const auto& [name, value] : header.more)
        if (!json.contains(name)) put_text(json, name, value);
    return json.dump() + "\n";
}

std::string to_line(const ManifestRecord& record) {
    OrderedJson json = OrderedJson::object();
    put_text(json, "path", record.path);
    json["size"] = record.size;
    put_text(json, "source", record.source);
    put_text(json, "source_version", record.source_version);
    json["mtime_ns"] = record.mtime_ns;
    json["mode"] = record.mode;
    if (!record.link.empty()) put_text(json, "link", record.link);
    json["xxh3"] = to_hex(record.xxh3, 16);
    OrderedJson crcs = OrderedJson::array();
    for (const auto crc : record.crc32c) crcs.push_back(to_hex(crc, 8));
    json["crc32c"] = std::move(crcs);
    json["device"] = record.device;
    json["extents"] = record.extents;
    json["time"] = record.time;
    json["state"] = record.state == RecordState::staged ? "staged" : "removed";
    return json.dump() + "\n";
}

Result<ManifestHeader> parse_header(std::string_view line) {
    const OrderedJson json = OrderedJson::parse(line, nullptr, false);
    if (!json.is_object()) return fail(EINVAL, "not a manifest of tierfs-stage");
    Fields fields(json);
    if (fields.text("format") != kManifestFormat) return fail(EINVAL, "not a manifest of tierfs-stage");
    if (const auto version = fields.number("version"); version != kManifestVersion)
        return fail(EINVAL, "manifest version " + std::to_string(version) + " is not known to this program");
    ManifestHeader header;
    header.source = fields.text("source");
    header.created_by = fields.text("created_by");
    if (!fields.good()) return fail(EINVAL, "header: " + fields.problem());
    for (const auto& [name, value] : json.items()) {
        if (name == "format" || name == "version" || name == "created_by" || name.starts_with("source"))
            continue;
        if (value.is_string()) header.more[name] = value.get<std::string>();
    }
    return header;
}

Result<ManifestRecord> parse_record(std::string_view line) {
    const OrderedJson json = OrderedJson::parse(line, nullptr, false);
    if (!json.is_object()) return fail(EINVAL, "not a JSON object");
    Fields fields(json);
    ManifestRecord record;
    record.path = fields.text("path");
    record.size = fields.number("size");
    record.source = fields.text("source");
    record.source_version = fields.text("source_version");
    record.mtime_ns = fields.signed_number("mtime_ns");
    record.mode = static_cast<std::uint32_t>(fields.number("mode", 07777));
    if (fields.has("link")) record.link = fields.text("link");
    record.xxh3 = fields.hex("xxh3", 16);
    for (const auto& crc : fields.array("crc32c"))
        record.crc32c.push_back(static_cast<std::uint32_t>(fields.hex_of(crc, 8, "crc32c")));
    record.device = fields.text("device");
    record.extents = static_cast<std::uint32_t>(fields.number("extents", UINT32_MAX));
    record.time = fields.signed_number("time");
    const std::string state = fields.text("state");
    if (!fields.good()) return fail(EINVAL, fields.problem());
    if (state != "staged" && state != "removed") return fail(EINVAL, "state '" + state + "' is not known");
    record.state = state == "staged" ? RecordState::staged : RecordState::removed;
    if (!is_clean_path(record.path)) return fail(EINVAL, "the path is not a clean relative one");
    const bool has_content = record.state == RecordState::staged && record.link.empty();
    if (has_content && record.crc32c.size() != chunks_of(record.size))
        return fail(EINVAL, "the number of checksums does not fit the size");
    return record;
}

Result<Manifest> Manifest::load(const BookFolder& books, const std::string& name) {
    auto file = books.read(name);
    if (!file) return fail(file.error());
    const auto path = books.path(name);
    Manifest manifest;
    std::string line;
    for (std::uint64_t number = 1; std::getline(*file, line); ++number) {
        if (file->eof()) break;  // no newline: torn
        const auto where = [&] { return path + ":" + std::to_string(number); };
        if (number == 1) {
            auto header = parse_header(line);
            if (!header) return fail(header.error().within(where()));
            manifest.header = std::move(*header);
        } else {
            auto record = parse_record(line);
            if (!record) return fail(record.error().within(where()));
            if (record->state == RecordState::removed) {
                manifest.records.erase(record->path);
            } else {
                auto of = record->path;
                manifest.records.insert_or_assign(std::move(of), std::move(*record));
            }
        }
        manifest.good_bytes += line.size() + 1;
    }
    if (file->bad()) return fail(EIO, path + ": cannot be read");
    if (manifest.good_bytes == 0) return fail(EINVAL, path + ": it is empty, not a manifest of tierfs-stage");
    return manifest;
}

Result<ManifestWriter> ManifestWriter::open(const BookFolder& books, const std::string& name,
                                            const ManifestHeader& header) {
    constexpr int kFlags = O_RDWR | O_APPEND;
    auto fd = books.book(name, kFlags);
    if (!fd && fd.error().code == ENOENT) {
        auto made = books.make(name, to_line(header));
        if (!made && made.error().code != EEXIST) return fail(made.error());
        fd = books.book(name, kFlags);
    }
    if (!fd) return fail(fd.error());
    const auto path = books.path(name);
    if (auto cut = cut_torn_line(fd->get(), path); !cut) return fail(cut.error());
    return ManifestWriter(std::move(*fd), path);
}

Result<void> ManifestWriter::append(std::span<const ManifestRecord> records) {
    if (records.empty()) return {};
    std::string lines;
    for (const auto& record : records) lines += to_line(record);
    const AppendLock lock(fd_.get());
    struct stat before {};
    if (::fstat(fd_.get(), &before) != 0) return fail(system_error(errno, path_));
    if (auto written = write_all(fd_.get(), lines); !written) {
        // Half a line must not stand before the next one.
        if (::ftruncate(fd_.get(), before.st_size) != 0) return fail(system_error(errno, path_));
        return fail(written.error().within(path_));
    }
    return {};
}

Result<void> ManifestWriter::sync() {
    if (::fdatasync(fd_.get()) != 0) return fail(system_error(errno, path_));
    return {};
}

}  // namespace tierfs::stage
