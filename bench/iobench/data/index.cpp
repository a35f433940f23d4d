#include "bench/iobench/data/index.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <span>

#include "bench/iobench/data/files.hpp"
#include "bench/iobench/data/manifest.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::string_view kFirstIndexLine = "# iobench index 1: XXH3-128, bytes, offset, file, sample";
constexpr std::size_t kFields = 5, kIndexDigits = 32;

bool number(std::string_view text, std::uint64_t& value) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

bool parse_index_line(std::string_view line, IndexEntry& entry) {
    std::array<std::string_view, kFields> field;
    for (std::size_t i = 0; i < kFields; ++i) {
        const std::size_t end = i + 1 < kFields ? line.find('\t') : line.size();
        if (end == std::string_view::npos) return false;
        field.at(i) = line.substr(0, end);
        line.remove_prefix(i + 1 < kFields ? end + 1 : end);
    }
    if (field[0].size() != kIndexDigits ||
        field[0].find_first_not_of("0123456789abcdef") != std::string_view::npos)
        return false;
    if (!number(field[1], entry.size) || !number(field[2], entry.offset)) return false;
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (entry.size > kMost || entry.offset > kMost - entry.size) return false;  // no offset of pread(2)
    entry.hash = field[0];
    entry.file = field[3];
    entry.sample = field[4];
    return !leaves_dataset(entry.file) && !entry.sample.empty();
}

Result<std::string> whole_text(const std::string& path) {
    auto file = open_for_reading(path);
    if (!file) return fail(file.error());
    std::string text;
    for (constexpr std::size_t kBlock = 1 << 20;;) {
        const std::size_t at = text.size();
        text.resize(at + kBlock);
        const auto n = read_at(*file, std::as_writable_bytes(std::span(text).subspan(at)), at, path);
        if (!n) return fail(n.error());
        text.resize(at + *n);
        if (*n < kBlock) return text;
    }
}

}  // namespace

std::string index_text(const Index& entries) {
    std::string text(kFirstIndexLine);
    text += '\n';
    for (const auto& entry : entries) {
        text.append(entry.hash).append("\t").append(std::to_string(entry.size)).append("\t");
        text.append(std::to_string(entry.offset)).append("\t").append(entry.file).append("\t");
        text.append(entry.sample).append("\n");
    }
    return text;
}

Result<Index> parse_index(const std::string& text, const std::string& name) {
    Index entries;
    std::string_view rest = text;
    for (std::size_t line_number = 1; !rest.empty(); ++line_number) {
        const std::size_t end = rest.find('\n');
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        IndexEntry entry;
        const bool right = line_number == 1 ? line == kFirstIndexLine
                                            : end != std::string_view::npos && parse_index_line(line, entry);
        if (!right)
            return fail(EINVAL, name + ":" + std::to_string(line_number) + ": expected " +
                                    (line_number == 1 ? "\"" + std::string(kFirstIndexLine) + "\""
                                                      : "XXH3-128, size, offset, a file inside the dataset "
                                                        "and a sample's name, divided by tabs"));
        if (line_number > 1) entries.push_back(std::move(entry));
    }
    if (text.empty()) return fail(EINVAL, name + ":1: is empty, which no index is");
    return entries;
}

Result<std::optional<Index>> read_index(const std::string& directory, std::string_view which,
                                        const std::optional<std::string>& hash) {
    const std::string path = directory + "/" + std::string(which);
    auto text = whole_text(path);
    if (!text && (text.error().code == ENOENT || text.error().code == ENOTDIR)) return std::nullopt;
    if (!text) return fail(text.error());
    if (hash && hash_of(std::as_bytes(std::span(*text))) != *hash)
        return fail(EIO, path + ": its content is not what the manifest says");
    auto parsed = parse_index(*text, path);
    if (!parsed) return fail(parsed.error());
    return std::move(*parsed);
}

}  // namespace tierfs::iobench
