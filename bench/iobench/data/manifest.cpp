#include "bench/iobench/data/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <new>
#include <unordered_set>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::string_view kFirstLine = "# iobench manifest 1: XXH3-128, bytes, path";
constexpr std::size_t kDigits = 32;

bool parse_line(std::string_view line, ManifestEntry& entry) {
    const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
    if (first != kDigits || second == std::string_view::npos) return false;
    entry.hash = line.substr(0, first);
    if (entry.hash.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
    const std::string_view size = line.substr(first + 1, second - first - 1);
    const auto parsed = std::from_chars(size.data(), size.data() + size.size(), entry.size);
    if (parsed.ec != std::errc() || parsed.ptr != size.data() + size.size()) return false;
    entry.path = line.substr(second + 1);
    return !leaves_dataset(entry.path);
}

/// Empty when the file holds what the entry says.
std::string compare(const std::string& directory, const ManifestEntry& entry, std::span<std::byte> buffer,
                    const std::function<void(std::uint64_t)>& more) {
    const std::string path = directory + "/" + entry.path;
    auto file = open_for_reading(path);
    if (!file) return file.error().message;
    Hasher hasher;
    std::uint64_t size = 0;
    for (;;) {
        const auto n = read_at(*file, buffer, size, path);
        if (!n) return n.error().message;
        hasher.add(buffer.first(*n));
        size += *n;
        more(*n);
        if (*n < buffer.size()) break;
    }
    if (size != entry.size)
        return "is " + std::to_string(size) + " bytes, expected " + std::to_string(entry.size);
    if (const std::string hash = hasher.hex(); hash != entry.hash)
        return "content has XXH3-128 " + hash + ", expected " + entry.hash;
    return {};
}

}  // namespace

bool leaves_dataset(const std::string& path) {
    const std::filesystem::path named(path);
    // The kernel reads a path up to its first NUL, so that "..\0x" would lead out.
    if (path.empty() || named.is_absolute() || path.find('\0') != std::string::npos) return true;
    return std::any_of(named.begin(), named.end(), [](const auto& part) { return part == ".."; });
}

Hasher::Hasher() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
}

void Hasher::add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Hasher::hex() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    std::string text;
    for (const unsigned char byte : canonical.digest) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

std::string hash_of(std::span<const std::byte> bytes) {
    Hasher hasher;
    hasher.add(bytes);
    return hasher.hex();
}

Result<void> write_manifest(const std::string& path, Manifest entries) {
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    std::string text(kFirstLine);
    text += '\n';
    for (const auto& entry : entries)
        text += entry.hash + '\t' + std::to_string(entry.size) + '\t' + entry.path + '\n';
    return write_atomically(path, true,
                            [&](const Sink& sink) { return sink(std::as_bytes(std::span(text))); });
}

Result<Manifest> read_manifest(const std::string& path) {
    std::ifstream file(path);
    if (!file) return fail(system_error(errno, path));
    std::string line;
    if (!std::getline(file, line) || line != kFirstLine)
        return fail(EINVAL, path + ":1: not a manifest of iobench: its first line is not \"" +
                                std::string(kFirstLine) + "\"");
    Manifest entries;
    for (std::size_t number = 2; std::getline(file, line); ++number) {
        ManifestEntry entry;
        if (!parse_line(line, entry))
            return fail(EINVAL,
                        path + ":" + std::to_string(number) +
                            ": expected XXH3-128, size and a path inside the dataset, divided by tabs");
        entries.push_back(std::move(entry));
    }
    if (file.bad()) return fail(EIO, path + ": cannot be read to its end");
    return entries;
}

Result<std::vector<Mismatch>> verify(const std::string& directory, const Manifest& manifest,
                                     const std::function<void(std::uint64_t)>& done) {
    auto present = walk(directory);
    if (!present) return fail(present.error());
    std::vector<Mismatch> wrong;
    std::unordered_set<std::string> named;
    std::vector<std::byte> buffer(1 << 20);
    std::uint64_t total = 0;
    for (const auto& entry : manifest) {
        named.insert(entry.path);
        const auto more = [&](std::uint64_t bytes) { done(total += bytes); };
        if (std::string what = compare(directory, entry, buffer, more); !what.empty())
            wrong.push_back({entry.path, std::move(what)});
    }
    for (const auto& file : *present)
        if (!named.contains(file.path)) wrong.push_back({file.path, "is not in the manifest"});
    return wrong;
}

}  // namespace tierfs::iobench
