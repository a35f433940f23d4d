#include "fs/stage/copy/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::stage {

namespace {

bool is_part_name(const std::string& name) {
    return is_clean_path(name) && name.find_first_not_of("0123456789abcdef/.part") == std::string::npos;
}

/// false: the line is damaged.
bool take_line(const std::string& line, JournalContents& contents) {
    const OrderedJson json = OrderedJson::parse(line, nullptr, false);
    if (!json.is_object()) return false;
    Fields fields(json);
    const std::string part = fields.text("part");
    if (!fields.good() || !is_part_name(part)) return false;
    if (json.contains("record")) {
        auto record = parse_record(json["record"].dump());
        if (!record) return false;
        contents.parts.erase(part);
        contents.whole.insert_or_assign(part, std::move(*record));
        return true;
    }
    if (fields.has("path")) {
        UnfinishedPart file{fields.text("path"), fields.text("source_version"), fields.number("size"), {}};
        if (!fields.good() || !is_clean_path(file.path)) return false;
        contents.whole.erase(part);
        contents.parts.insert_or_assign(part, std::move(file));
        return true;
    }
    const PieceMark mark{fields.number("offset"),
                         static_cast<std::uint32_t>(fields.number("length", UINT32_MAX)),
                         static_cast<std::uint32_t>(fields.hex("crc32c", 8))};
    if (!fields.good()) return false;
    const auto found = contents.parts.find(part);
    if (found == contents.parts.end()) return false;
    const bool inside = mark.offset < found->second.size && mark.length <= found->second.size - mark.offset;
    if (!inside || mark.length == 0) return false;
    found->second.pieces.insert_or_assign(mark.offset, mark);
    return true;
}

}  // namespace

Result<void> JournalContents::load(const BookFolder& books, const std::string& name) {
    auto file = books.read(name);
    if (!file) return file.error().code == ENOENT ? Result<void>() : fail(file.error());
    std::string line;
    while (std::getline(*file, line)) {
        if (file->eof()) break;  // no newline: torn by the kill
        if (!line.empty() && !take_line(line, *this)) ++damaged_lines;
    }
    if (file->bad()) return fail(EIO, books.path(name) + ": cannot be read");
    return {};
}

Result<Journal> Journal::open(const BookFolder& books, const std::string& name) {
    auto fd = books.book(name, O_WRONLY | O_APPEND | O_CREAT);
    if (!fd) return fail(fd.error());
    Journal journal(std::move(*fd), books.path(name));
    // Ends a line that a kill tore; empty lines mean nothing.
    if (auto ended = journal.append("\n"); !ended) return fail(ended.error());
    return journal;
}

Result<void> Journal::append(const std::string& line) const {
    if (auto written = write_all(fd_.get(), line); !written) return fail(written.error().within(path_));
    return {};
}

Result<void> Journal::begin(const std::string& part, const UnfinishedPart& file) const {
    OrderedJson json = {{"part", part}};
    put_text(json, "path", file.path);
    put_text(json, "source_version", file.source_version);
    json["size"] = file.size;
    return append(json.dump() + "\n");
}

Result<void> Journal::piece(const std::string& part, const PieceMark& mark) const {
    const OrderedJson json = {
        {"part", part}, {"offset", mark.offset}, {"length", mark.length}, {"crc32c", to_hex(mark.crc32c, 8)}};
    return append(json.dump() + "\n");
}

Result<void> Journal::whole(const std::string& part, const ManifestRecord& record) const {
    std::string text = to_line(record);
    text.pop_back();
    return append(R"({"part":")" + part + R"(","record":)" + text + "}\n");
}

Result<void> Journal::sync() const {
    if (::fdatasync(fd_.get()) != 0) return fail(system_error(errno, path_));
    return {};
}

}  // namespace tierfs::stage
