#include "fs/pack/extent_builder.hpp"

#include <algorithm>

#include "backends/extent/chunk_writer.hpp"
#include "backends/extent/codec.hpp"
#include "backends/pack/reading.hpp"

namespace tierfs::pack {

namespace {

/// Read at a time for one extent.
constexpr std::uint64_t kGroupBytes = 16 << 20;
constexpr std::size_t kGroupFiles = 256;

ContentId id_of(const ExtentJob& job, const Entry& entry) {
    return content_id(job.source, entry.path(), entry.attributes.version);
}

Place place_of(const ChunkTable& table, const ChunkEntry& entry, std::uint32_t number) {
    Place place;
    place.extent = number;
    place.offset = table.data_offset() + entry.offset;
    place.stored = entry.stored_length;
    place.codec = codec_of(entry.codec).value_or(Codec::none);
    place.sums = entry.sums;
    return place;
}

class Builder {
  public:
    Builder(Origin& origin, const ExtentJob& job, Progress& progress)
        : origin_(origin), job_(job), progress_(progress) {
        chunk_.start(kMaxTableBytes + kMaxChunkData);
    }

    Result<BuiltExtent> run(const std::function<bool()>& stopped) {
        const auto& files = job_.plan.files;
        built_.bytes.reserve(job_.plan.bytes + (job_.plan.bytes >> 4U));
        built_.places.reserve(files.size());
        for (std::size_t from = 0; from < files.size();) {
            if (stopped()) return fail(ECANCELED, "stopped");
            const auto to = end_of_group(from);
            if (auto done = take(std::span(files).subspan(from, to - from)); !done) return fail(done.error());
            from = to;
        }
        end_chunk();
        return std::move(built_);
    }

  private:
    [[nodiscard]] std::size_t end_of_group(std::size_t from) const {
        const auto& files = job_.plan.files;
        std::uint64_t bytes = 0;
        std::size_t to = from;
        while (to < files.size() && to - from < kGroupFiles && (to == from || bytes < kGroupBytes))
            bytes += job_.entries[files[to++]].attributes.size;
        return to;
    }

    Result<void> take(std::span<const std::size_t> files) {
        std::uint64_t bytes = 0;
        for (const auto file : files) bytes += job_.entries[file].attributes.size;
        buffer_.resize(bytes);
        Reads reads(origin_);
        std::span<std::byte> rest = buffer_;
        for (const auto file : files) {
            const Entry& entry = job_.entries[file];
            reads.start(entry.path(), entry.attributes.version, 0, rest.first(entry.attributes.size));
            rest = rest.subspan(entry.attributes.size);
        }
        if (auto read = reads.wait(); !read) return read;
        progress_.bytes_read += bytes;
        std::span<const std::byte> content = buffer_;
        for (const auto file : files) {
            const Entry& entry = job_.entries[file];
            if (!add(id_of(job_, entry), content.first(entry.attributes.size)))
                return fail(EIO, "'" + entry.path() + "' does not fit into an extent");
            content = content.subspan(entry.attributes.size);
        }
        return {};
    }

    bool add(const ContentId& id, std::span<const std::byte> content) {
        const auto shorter = compressed(content);
        const StoredAs as = shorter ? StoredAs{job_.codec.codec, content.size()} : StoredAs{};
        const auto stored = shorter.value_or(content);
        if (chunk_.add(id, {&stored, 1}, as)) return true;
        end_chunk();
        return chunk_.add(id, {&stored, 1}, as);
    }

    /// Nothing: it is stored as it is.
    std::optional<std::span<const std::byte>> compressed(std::span<const std::byte> content) {
        if (job_.codec.codec == Codec::none) return std::nullopt;
        compressed_.resize(longest_kept(content.size()));
        const auto length = compressor_.compress(job_.codec.codec, content, compressed_, job_.codec.level);
        if (!length) return std::nullopt;
        return std::span<const std::byte>(compressed_).first(*length);
    }

    void end_chunk() {
        if (chunk_.empty()) return;
        const auto bytes = chunk_.finish(job_.plan.uuid, chunks_++, built_.bytes.size());
        for (const auto& entry : chunk_.table().entries)
            built_.places.push_back(place_of(chunk_.table(), entry, job_.number));
        built_.bytes.insert(built_.bytes.end(), bytes.begin(), bytes.end());
        chunk_.start(kMaxTableBytes + kMaxChunkData);
    }

    Origin& origin_;
    const ExtentJob& job_;
    Progress& progress_;
    ChunkWriter chunk_;
    std::uint32_t chunks_ = 0;
    std::vector<std::byte> buffer_;
    Compressor compressor_;
    std::vector<std::byte> compressed_;  ///< one file
    BuiltExtent built_;
};

}  // namespace

Result<BuiltExtent> build_extent(Origin& origin, const ExtentJob& job, Progress& progress,
                                 const std::function<bool()>& stopped) {
    return Builder(origin, job, progress).run(stopped);
}

std::optional<Places> find_extent(Origin& dest, const ExtentJob& job, std::uint64_t bytes) {
    const auto path = Extent{job.plan.uuid, bytes}.path();
    std::vector<std::byte> buffer(kMaxTableBytes);
    Places places;
    std::uint64_t at = 0;
    for (std::uint32_t chunk = 0; at < bytes; ++chunk) {
        const auto head = std::span(buffer).first(std::min<std::uint64_t>(kMaxTableBytes, bytes - at));
        if (!read_now(dest, path, at, head)) return std::nullopt;
        const auto table = parse_chunk_table(head, job.plan.uuid, at);
        if (!table || table->chunk != chunk) return std::nullopt;
        for (const auto& entry : table->entries) {
            if (places.size() == job.plan.files.size()) return std::nullopt;
            const Entry& file = job.entries[job.plan.files[places.size()]];
            if (entry.id != id_of(job, file) || entry.object_size != file.attributes.size ||
                !codec_of(entry.codec))
                return std::nullopt;
            places.push_back(place_of(*table, entry, job.number));
        }
        at = table->end();
    }
    if (at != bytes || places.size() != job.plan.files.size()) return std::nullopt;
    return places;
}

}  // namespace tierfs::pack
