#include "tiering/nvme/backing_file.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "backends/extent/format.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs {
namespace {

constexpr std::uint64_t kMagic = 0x31534D5553534654U;  // "TFSSUMS1"
constexpr std::size_t kHeaderBytes = 4096;
constexpr std::uint64_t kUnitsPerBlock = kBlockSize / kSidecarUnit;
/// Checksums looked at in one go, on the stack: those of 1 MiB.
constexpr std::size_t kBatch = 256;

std::uint64_t sum_offset(std::uint64_t unit) {
    return kHeaderBytes + unit * sizeof(std::uint32_t);
}

std::array<std::byte, kHeaderBytes> make_header(const ContentId& id, std::uint64_t size) {
    std::array<std::byte, kHeaderBytes> header{};
    put_field(std::span<std::byte>(header), 0, kMagic);
    put_field(std::span<std::byte>(header), 8, std::uint32_t{1});
    put_field(std::span<std::byte>(header), 12, kSidecarUnit);
    put_field(std::span<std::byte>(header), 16, id.high);
    put_field(std::span<std::byte>(header), 24, id.low);
    put_field(std::span<std::byte>(header), 32, size);
    put_field(std::span<std::byte>(header), 40, std::uint64_t{XXH3_64bits(header.data(), 40)});
    return header;
}

/// Reads checksums; those behind the end of the sidecar are 0 (absent).
Result<void> read_sums(const DiskFile& file, std::uint64_t first, std::span<std::uint32_t> sums) {
    std::fill(sums.begin(), sums.end(), 0U);
    return file.read(std::as_writable_bytes(sums), sum_offset(first)).map([](std::size_t) {});
}

}  // namespace

BackingFile::Paths BackingFile::paths(const std::filesystem::path& files, const ContentId& id) {
    const std::string name = to_string(id);
    const std::filesystem::path folder = files / name.substr(0, 2);
    return {folder / (name + ".data"), folder / (name + ".sums")};
}

std::optional<ContentId> BackingFile::parse_name(std::string_view stem) {
    const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (stem.size() != 32 || !std::all_of(stem.begin(), stem.end(), digit)) return std::nullopt;
    ContentId id;
    std::from_chars(stem.data(), stem.data() + 16, id.high, 16);
    std::from_chars(stem.data() + 16, stem.data() + 32, id.low, 16);
    return id;
}

Result<BackingFile> BackingFile::create(const std::filesystem::path& files, const ContentId& id,
                                        std::uint64_t size) {
    const Paths where = paths(files, id);
    const auto folder = where.data.parent_path();
    std::error_code error;
    if (!TIERFS_FAULT_CODE("nvme.data.folder", error)) std::filesystem::create_directory(folder, error);
    if (error) return fail(system_error(error.value(), folder.native()));
    // Unlinked, not emptied: someone may still read the old ones.
    std::error_code ignored;  // opening says what is wrong
    std::filesystem::remove(where.sums, ignored);
    std::filesystem::remove(where.data, ignored);
    auto data =
        DiskFile::open(where.data, {.write = true, .create = true, .truncate = true, .use = DiskUse::data});
    if (!data) return fail(data.error());
    auto sums = DiskFile::open(
        where.sums,
        {.write = true, .create = true, .truncate = true, .direct = false, .use = DiskUse::sidecar});
    if (!sums) return fail(sums.error());
    if (auto done = data->truncate(size); !done) return fail(done.error());
    if (auto done = sums->write(make_header(id, size), 0); !done) return fail(done.error());
    if (auto done = sums->truncate(sum_offset(unit_count(size, kSidecarUnit))); !done) {
        return fail(done.error());
    }
    return BackingFile(id, size, std::move(*data), std::move(*sums));
}

Result<BackingFile> BackingFile::open(const std::filesystem::path& files, const ContentId& id) {
    const Paths where = paths(files, id);
    auto data = DiskFile::open(where.data, {.write = true, .use = DiskUse::data});
    // A file system that went read-only can still be read.
    const bool writable = data || data.error().code != EROFS;
    if (!writable) data = DiskFile::open(where.data, {.use = DiskUse::data});
    if (!data) return fail(data.error());
    auto sums = DiskFile::open(where.sums, {.write = writable, .direct = false, .use = DiskUse::sidecar});
    if (!sums) return fail(sums.error());
    const auto sizes = data->sizes();
    if (!sizes) return fail(sizes.error());
    std::array<std::byte, kHeaderBytes> header{};
    const auto got = sums->read(header, 0);
    if (!got) return fail(got.error());
    const auto size = get_field<std::uint64_t>(header, 32);
    // Direct I/O writes whole sectors: killed before it was cut, the file is as long as its last one.
    const bool uncut = sizes->size > size && sizes->size == align_up(size);
    if (*got != header.size() || size == 0 || (size != sizes->size && !uncut) ||
        header != make_header(id, size)) {
        return fail(EBADMSG, where.sums.native() + ": damaged sidecar");
    }
    if (uncut && writable) {
        if (auto done = data->truncate(size); !done) return fail(done.error());
    }
    return BackingFile(id, size, std::move(*data), std::move(*sums));
}

Result<void> BackingFile::remove(const std::filesystem::path& files, const ContentId& id) {
    const Paths where = paths(files, id);
    std::error_code data_error;
    std::error_code sums_error;
    if (!TIERFS_FAULT_CODE("nvme.data.unlink", data_error)) std::filesystem::remove(where.data, data_error);
    if (!TIERFS_FAULT_CODE("nvme.sidecar.unlink", sums_error))
        std::filesystem::remove(where.sums, sums_error);
    if (data_error) return fail(system_error(data_error.value(), where.data.native()));
    if (sums_error) return fail(system_error(sums_error.value(), where.sums.native()));
    return {};
}

ReadOutcome BackingFile::read(std::uint64_t offset, std::span<std::byte> out) const {
    if (offset % kSidecarUnit != 0 || offset + out.size() > size_) return ReadOutcome::absent;
    while (!out.empty()) {
        const auto part = out.first(std::min<std::size_t>(out.size(), kBatch * kSidecarUnit));
        const ReadOutcome outcome = read_part(offset, part);
        if (outcome != ReadOutcome::hit) return outcome;
        offset += part.size();
        out = out.subspan(part.size());
    }
    return ReadOutcome::hit;
}

ReadOutcome BackingFile::read_part(std::uint64_t offset, std::span<std::byte> out) const {
    const std::uint64_t first = offset / kSidecarUnit;
    std::array<std::uint32_t, kBatch> memory;
    const auto sums = std::span(memory).first(unit_count(out.size(), kSidecarUnit));
    if (!read_sums(sums_, first, sums)) return ReadOutcome::failed;
    if (std::find(sums.begin(), sums.end(), 0U) != sums.end()) return ReadOutcome::absent;
    // Direct I/O reads whole sectors; the caller's memory reaches up to the next one.
    const auto got = data_.read(std::span(out.data(), align_up(out.size())), offset);
    if (!got) return ReadOutcome::failed;
    if (*got < out.size()) return ReadOutcome::corrupt;
    for (std::size_t unit = 0; unit < sums.size(); ++unit) {
        const std::size_t from = unit * kSidecarUnit;
        const auto bytes = out.subspan(from, std::min<std::size_t>(kSidecarUnit, out.size() - from));
        if (unit_checksum(id_, first + unit, kSidecarUnit, bytes) != sums[unit]) return ReadOutcome::corrupt;
    }
    return ReadOutcome::hit;
}

Result<bool> BackingFile::present(std::uint64_t block) const {
    const std::uint64_t first = block * kUnitsPerBlock;
    const std::uint64_t all = unit_count(size_, kSidecarUnit);
    if (first >= all) return false;
    std::array<std::uint32_t, kUnitsPerBlock> memory;
    const auto sums = std::span(memory).first(std::min(kUnitsPerBlock, all - first));
    if (auto got = read_sums(sums_, first, sums); !got) return fail(std::move(got.error()));
    return std::find(sums.begin(), sums.end(), 0U) == sums.end();
}

Result<std::uint64_t> BackingFile::count_present() const {
    const std::uint64_t all = unit_count(size_, kSidecarUnit);
    std::uint64_t present = 0;
    std::array<std::uint32_t, kBatch> memory;
    // The sidecar of a large object that has just begun to come is a hole but for some pages.
    std::uint64_t data_end = 0;  // bytes of the sidecar
    for (std::uint64_t first = 0; first < all; first += kBatch) {
        if (sum_offset(first) >= data_end) {
            const auto data = sums_.next_data(sum_offset(first));
            if (!data) break;
            data_end = data->end;
            if (data->begin > sum_offset(first))
                first += (data->begin - sum_offset(first)) / sizeof(std::uint32_t) / kBatch * kBatch;
        }
        const auto sums = std::span(memory).first(std::min<std::uint64_t>(kBatch, all - first));
        if (auto got = read_sums(sums_, first, sums); !got) return fail(std::move(got.error()));
        for (std::size_t at = 0; at < sums.size(); at += kUnitsPerBlock) {
            const auto block = sums.subspan(at, std::min<std::size_t>(kUnitsPerBlock, sums.size() - at));
            if (std::find(block.begin(), block.end(), 0U) == block.end()) ++present;
        }
    }
    return present;
}

Result<void> BackingFile::write_data(std::uint64_t offset, std::span<const std::span<const std::byte>> pieces,
                                     std::uint64_t total) const {
    // Whole sectors go straight from the caller's memory; what direct I/O cannot take (the object's last
    // bytes, odd pieces) is gathered in a bounce buffer, zero-padded, and the file cut to its size again.
    std::uint64_t done = 0;
    for (const auto piece : pieces) {
        if (!is_aligned(piece.data()) || done % kDiskAlignment != 0) break;
        const auto whole = piece.first(align_down(piece.size()));
        if (auto result = data_.write(whole, offset + done); !result) return result;
        done += whole.size();
        if (whole.size() != piece.size()) break;
    }
    if (done == total) return {};
    AlignedBuffer bounce(total - done);
    std::fill(bounce.span().begin(), bounce.span().end(), std::byte{0});
    std::uint64_t at = 0;  // in the pieces
    for (const auto piece : pieces) {
        if (at + piece.size() > done) {
            const std::uint64_t skip = done > at ? done - at : 0;
            std::memcpy(bounce.data() + (at + skip - done), piece.data() + skip, piece.size() - skip);
        }
        at += piece.size();
    }
    if (auto result = data_.write(bounce.span(), offset + done); !result) return result;
    return align_up(offset + total) > size_ ? data_.truncate(size_) : Result<void>{};
}

Result<void> BackingFile::write(std::uint64_t offset,
                                std::span<const std::span<const std::byte>> pieces) const {
    std::uint64_t total = 0;
    for (const auto piece : pieces) total += piece.size();
    if (offset % kBlockSize != 0 || total == 0 || offset + total > size_ ||
        ((offset + total) % kBlockSize != 0 && offset + total != size_)) {
        return fail(EINVAL, data_.path() + ": a piece that is not whole blocks");
    }
    // Checksums cover whole units: pieces that end inside one are put together first.
    for (std::size_t index = 0; index + 1 < pieces.size(); ++index) {
        if (pieces[index].size() % kSidecarUnit == 0) continue;
        AlignedBuffer joined(total);
        std::size_t at = 0;
        for (const auto piece : pieces) {
            std::copy(piece.begin(), piece.end(), joined.data() + at);
            at += piece.size();
        }
        const std::span<const std::byte> one = std::span<const std::byte>(joined.span()).first(total);
        return write(offset, std::span(&one, 1));
    }
    if (auto result = write_data(offset, pieces, total); !result) return result;

    std::vector<std::uint32_t> sums;
    sums.reserve(unit_count(total, kSidecarUnit));
    std::uint64_t unit = offset / kSidecarUnit;
    for (const auto piece : pieces) {
        for (std::size_t from = 0; from < piece.size(); from += kSidecarUnit) {
            const auto bytes = piece.subspan(from, std::min<std::size_t>(kSidecarUnit, piece.size() - from));
            sums.push_back(unit_checksum(id_, unit++, kSidecarUnit, bytes));
        }
    }
    return sums_.write(std::as_bytes(std::span(sums)), sum_offset(offset / kSidecarUnit));
}

Result<void> BackingFile::clear(std::uint64_t first, std::uint64_t count) const {
    const std::uint64_t all = unit_count(size_, kSidecarUnit);
    const std::uint64_t from = std::min(first * kUnitsPerBlock, all);
    const std::uint64_t to = std::min((first + count) * kUnitsPerBlock, all);
    const std::vector<std::uint32_t> zeros(to - from);
    return sums_.write(std::as_bytes(std::span(zeros)), sum_offset(from));
}

Result<std::uint64_t> BackingFile::allocated() const {
    const auto data = data_.sizes();
    const auto sums = sums_.sizes();
    if (!data) return fail(data.error());
    if (!sums) return fail(sums.error());
    return data->allocated + sums->allocated;
}

}  // namespace tierfs
