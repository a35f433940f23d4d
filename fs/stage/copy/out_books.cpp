#include "fs/stage/copy/out_books.hpp"

#include <algorithm>
#include <condition_variable>
#include <memory>

#include "config/base/mutex.hpp"
#include "fs/stage/copy/out.hpp"

namespace tierfs::stage {
namespace {

/// More is no manifest of ours: a record takes some 300 bytes.
constexpr std::uint64_t kLargestManifest = std::uint64_t{4} << 30;

Result<Manifest> parse(std::string_view text, const std::string& where) {
    Manifest manifest;
    for (std::uint64_t number = 1; !text.empty(); ++number) {
        const auto end = text.find('\n');
        const auto at = [&] { return where + ":" + std::to_string(number); };
        // It was written whole: there is no torn line to forgive.
        if (end == std::string_view::npos) return fail(EINVAL, at() + ": the manifest ends in a line");
        const auto line = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (number == 1) {
            auto header = parse_header(line);
            if (!header) return fail(header.error().within(at()));
            manifest.header = std::move(*header);
            continue;
        }
        auto record = parse_record(line);
        if (!record) return fail(record.error().within(at()));
        auto path = record->path;
        if (record->state == RecordState::removed) {
            manifest.records.erase(path);
        } else {
            manifest.records.insert_or_assign(std::move(path), std::move(*record));
        }
    }
    return manifest;
}

Result<void> write_in_parts(WritableOrigin& writer, std::span<const std::byte> bytes) {
    const auto part_size = part_size_for(bytes.size(), kChunkBytes, writer.limits());
    if (!part_size) return fail(part_size.error());
    const auto upload = writer.begin(kOutManifest, {});
    if (!upload) return fail(upload.error());
    std::vector<UploadPart> parts;
    Result<void> done;
    for (std::uint64_t offset = 0; done && offset < bytes.size(); offset += *part_size) {
        const auto part = bytes.subspan(offset, std::min<std::uint64_t>(*part_size, bytes.size() - offset));
        auto sent = writer.part(*upload, static_cast<unsigned>(parts.size() + 1), offset, part);
        if (sent) {
            parts.push_back(std::move(*sent));
        } else {
            done = fail(sent.error());
        }
    }
    if (done) {
        const auto written = writer.complete(*upload, parts, {});
        if (!written) done = fail(written.error());
    }
    if (!done) (void)writer.abort(*upload);  // the first error is the one to tell
    return done;
}

}  // namespace

Result<std::string> read_whole(Origin& origin, const std::string& path, const Attributes& attributes) {
    struct Slot {
        Mutex mutex;
        std::condition_variable ready;
        std::optional<Result<void>> result TIERFS_GUARDED_BY(mutex);
    };
    std::string text(attributes.size, '\0');
    for (std::uint64_t offset = 0; offset < text.size(); offset += kChunkBytes) {
        const auto slot = std::make_shared<Slot>();
        OriginRead request;
        request.path = path;
        request.version = attributes.version;
        request.offset = offset;
        request.destination =
            std::as_writable_bytes(std::span(text))
                .subspan(offset, std::min<std::uint64_t>(kChunkBytes, text.size() - offset));
        request.done = [slot](Result<void> result) {
            const MutexLock lock(slot->mutex);
            slot->result = std::move(result);
            slot->ready.notify_all();
        };
        origin.read(std::move(request));
        MutexLock lock(slot->mutex);
        while (!slot->result) lock.wait(slot->ready);
        if (!*slot->result) return fail(slot->result->error());
    }
    return text;
}

Result<Manifest> read_out_manifest(Origin& destination, WritableOrigin& writer) {
    const auto there = writer.stat_file(kOutManifest);
    if (!there && (there.error().code == ENOENT || there.error().code == EACCES)) return Manifest{};
    if (!there) return fail(there.error());
    const auto where = destination.identity() + "/" + kOutManifest;
    if (there->size > kLargestManifest) return fail(EINVAL, where + ": too large to be a manifest");
    const auto text = read_whole(destination, kOutManifest, *there);
    if (!text) return fail(text.error());
    return parse(*text, where);
}

Result<void> write_out_manifest(WritableOrigin& writer, const std::string& destination,
                                const std::map<std::string, ManifestRecord, std::less<>>& records,
                                bool fresh) {
    ManifestHeader header;
    header.source = destination;
    header.more["kind"] = "out";
    std::string text = to_line(header);
    for (const auto& [path, record] : records) text += to_line(record);
    const auto bytes = std::as_bytes(std::span(text));
    if (bytes.size() > kChunkBytes) return write_in_parts(writer, bytes);
    const auto digest = md5_hex(bytes);
    if (!digest) return fail(digest.error());
    if (!fresh) {
        const auto there = writer.checksum(kOutManifest, 0);
        if (there && *there == *digest) return {};
    }
    const auto written = writer.put(kOutManifest, bytes, {}, *digest);
    if (!written) return fail(written.error());
    return {};
}

}  // namespace tierfs::stage
