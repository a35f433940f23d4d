#include "bench/iobench/data/shards.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <cstdio>
#include <memory>
#include <optional>

namespace tierfs::iobench {

namespace {

struct FreeArchive {
    void operator()(archive* handle) const { archive_write_free(handle); }
};
struct FreeEntry {
    void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

/// What libarchive's callback has to know: it hands pieces on, counts them and keeps the sink's error.
struct Drain {
    const Sink& sink;
    std::uint64_t written = 0;
    std::optional<Error> error = std::nullopt;
};

la_ssize_t pass_on(archive* handle, void* context, const void* buffer, std::size_t size) {
    auto& drain = *static_cast<Drain*>(context);
    if (drain.error) return static_cast<la_ssize_t>(size);  // it has failed, and what follows is of no use
    const auto bytes = std::span(static_cast<const std::byte*>(buffer), size);
    if (auto taken = drain.sink(bytes); !taken) {
        drain.error = taken.error();
        archive_set_error(handle, taken.error().code, "%s", taken.error().message.c_str());
        return -1;
    }
    drain.written += size;
    return static_cast<la_ssize_t>(size);
}

Result<void> checked(int status, archive* handle, const Drain& drain, const std::string& shard) {
    if (status == ARCHIVE_OK) return {};
    if (drain.error) return fail(*drain.error);
    const char* text = archive_error_string(handle);
    return fail(EIO, shard + ": libarchive: " + (text != nullptr ? text : "unknown error"));
}

Result<Bytes> read_member(const std::string& path, const ManifestEntry& member) {
    auto file = open_for_reading(path);
    if (!file) return fail(file.error());
    Bytes bytes(member.size + 1);
    const auto n = read_at(*file, bytes, 0, path);
    if (!n) return fail(n.error());
    bytes.resize(*n);
    if (*n != member.size || hash_of(bytes) != member.hash)
        return fail(EIO, path + ": changed while it was packed");
    return bytes;
}

Result<void> add_member(archive* handle, Drain& drain, const std::string& shard, const ManifestEntry& member,
                        const Bytes& bytes, IndexEntry& where) {
    const std::unique_ptr<archive_entry, FreeEntry> header(archive_entry_new());
    archive_entry_set_pathname(header.get(), member.path.c_str());
    archive_entry_set_filetype(header.get(), AE_IFREG);
    archive_entry_set_perm(header.get(), 0644);
    archive_entry_set_size(header.get(), static_cast<la_int64_t>(member.size));
    archive_entry_set_mtime(header.get(), 0, 0);
    auto result = checked(archive_write_header(handle, header.get()), handle, drain, shard);
    if (!result) return result;
    where = {member.path, shard, drain.written, member.size, member.hash};
    const la_ssize_t n = archive_write_data(handle, bytes.data(), bytes.size());
    if (n != static_cast<la_ssize_t>(bytes.size())) return checked(ARCHIVE_FATAL, handle, drain, shard);
    return checked(archive_write_finish_entry(handle), handle, drain, shard);
}

}  // namespace

std::vector<ShardRange> divide(const ShardPlan& plan, std::span<const std::uint64_t> sizes) {
    std::vector<ShardRange> ranges;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < sizes.size(); ++i) {
        const bool begins =
            plan.count != 0 ? i == 0 || i * plan.count / sizes.size() != (i - 1) * plan.count / sizes.size()
                            : ranges.empty() || bytes + sizes[i] > plan.size;
        if (begins) {
            ranges.push_back({i, 0});
            bytes = 0;
        }
        ++ranges.back().count;
        bytes += sizes[i];
    }
    return ranges;
}

std::string shard_path(std::uint64_t index) {
    char text[40];
    std::snprintf(text, sizeof text, "shards/%05llu.tar", static_cast<unsigned long long>(index));
    return text;
}

Result<void> produce_shard(const std::string& directory, const std::string& shard,
                           std::span<const ManifestEntry> members, std::span<IndexEntry> entries,
                           const Sink& sink) {
    Drain drain{sink};
    const std::unique_ptr<archive, FreeArchive> handle(archive_write_new());
    archive* const raw = handle.get();
    if (raw == nullptr) return fail(ENOMEM, shard + ": libarchive has no memory");
    archive_write_set_format_pax_restricted(raw);
    archive_write_add_filter_none(raw);
    archive_write_set_bytes_per_block(raw, 0);  // handed on at once: the count is then the offset
    auto result = checked(archive_write_open(raw, &drain, nullptr, pass_on, nullptr), raw, drain, shard);
    for (std::size_t i = 0; result && i < members.size(); ++i) {
        const auto bytes = read_member(directory + "/" + members[i].path, members[i]);
        result = bytes ? add_member(raw, drain, shard, members[i], *bytes, entries[i])
                       : Result<void>(fail(bytes.error()));
    }
    // Closed after a failure too: archive_write_fail would leave the last filter's buffer behind.
    if (!result) drain.error = result.error();
    const int closed = archive_write_close(raw);  // writes the end marker
    if (result) result = checked(closed, raw, drain, shard);
    return result;
}

}  // namespace tierfs::iobench
