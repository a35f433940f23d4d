#include "backends/pack/index.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "backends/pack/block.hpp"
#include "backends/pack/numbers.hpp"

namespace tierfs::pack {

namespace {

constexpr std::size_t kKeptBlocks = 64;

}  // namespace

tl::unexpected<Error> PackIndex::damaged(const char* what) const {
    return fail(EIO, path_ + ": the index of the pack is damaged: " + what);
}

Result<std::unique_ptr<PackIndex>> PackIndex::open(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail(system_error(errno, path));
    std::unique_ptr<PackIndex> index(new PackIndex(std::move(file), path));
    if (auto loaded = index->load(); !loaded) return fail(loaded.error());
    return index;
}

Result<std::string> PackIndex::read(std::uint64_t offset, std::uint64_t bytes) const {
    std::string out(bytes, '\0');
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t got =
            ::pread(file_.get(), out.data() + done, bytes - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(system_error(errno, path_));
        if (got == 0) return damaged("it is too short");
        done += static_cast<std::size_t>(got);
    }
    return out;
}

Result<void> PackIndex::load() {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) return fail(system_error(errno, path_));
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size < kHeaderBytes + kFooterBytes) return damaged("it is too short");
    const auto header = read(0, kHeaderBytes);
    const auto footer = read(size - kFooterBytes, kFooterBytes);
    if (!header) return fail(header.error());
    if (!footer) return fail(footer.error());
    Cursor in(*footer);
    const auto offset = in.fixed<std::uint64_t>();
    const auto bytes = in.fixed<std::uint64_t>();
    const auto hash = in.fixed<std::uint64_t>();
    count_ = in.fixed<std::uint64_t>();
    in.take(sizeof(std::uint64_t));
    const auto hash_of_footer = in.fixed<std::uint64_t>();
    const auto version = in.fixed<std::uint32_t>();
    in.take(sizeof(std::uint32_t));
    if (in.take(kIndexEnd.size()) != kIndexEnd || !header->starts_with(kIndexMagic))
        return damaged("it does not begin and end as an index does");
    if (version != kVersion)
        return fail(EPROTONOSUPPORT, path_ + ": the pack is of version " + std::to_string(version) +
                                         ", this tierfs knows version " + std::to_string(kVersion));
    if (hash_of_footer != hash64(std::string_view(*footer).substr(0, 40))) return damaged("its footer");
    const auto end = size - kFooterBytes;
    if (offset < kHeaderBytes || offset > end || bytes != end - offset || bytes > kMostTailBytes)
        return damaged("its footer");
    const auto tail = read(offset, bytes);
    if (!tail) return fail(tail.error());
    if (hash64(*tail) != hash || !take_tail(*tail, offset)) return damaged("its tail");
    return {};
}

bool PackIndex::take_tail(std::string_view tail, std::uint64_t offset) {
    Cursor in(tail);
    const auto extents = in.varint();
    for (std::uint64_t i = 0; i < extents && in.good(); ++i) {
        Extent extent;
        extent.uuid.high = in.fixed<std::uint64_t>();
        extent.uuid.low = in.fixed<std::uint64_t>();
        extent.bytes = in.varint();
        extents_.push_back(extent);
    }
    const auto blocks = in.varint();
    std::uint64_t at = kHeaderBytes, entries = 0;
    for (std::uint64_t i = 0; i < blocks && in.good(); ++i) {
        const auto bytes = in.varint();
        const auto count = in.varint();
        const auto hash = in.fixed<std::uint64_t>();
        const auto shared = in.varint();
        const auto rest = in.text();
        const std::string before = blocks_.empty() ? std::string() : blocks_.back().first;
        if (bytes == 0 || bytes > kMostBlockBytes || bytes > offset - at || count == 0 ||
            count > kBlockEntries || shared > before.size()) {
            return false;
        }
        auto first = before.substr(0, shared).append(rest);
        if (!blocks_.empty() && first <= before) return false;
        blocks_.push_back({at, hash, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(count),
                           std::move(first)});
        at += bytes;
        entries += count;
    }
    return in.at_end() && at == offset && entries == count_;
}

Result<PackIndex::Entries> PackIndex::read_block(const Block& block) const {
    const auto bytes = read(block.offset, block.bytes);
    if (!bytes) return fail(bytes.error());
    if (hash64(*bytes) != block.hash) return damaged("a block's checksum");
    auto entries = decode_block(*bytes, extents_.size());
    if (!entries || entries->size() != block.entries || key_of(entries->front()) != block.first)
        return damaged("a block");
    return std::make_shared<const std::vector<Entry>>(std::move(*entries));
}

Result<PackIndex::Entries> PackIndex::block(std::size_t number) {
    {
        const MutexLock lock(mutex_);
        if (const auto kept = kept_.find(number); kept != kept_.end()) {
            used_.splice(used_.begin(), used_, kept->second);
            return kept->second->second;
        }
    }
    auto entries = read_block(blocks_[number]);
    if (!entries) return entries;
    const MutexLock lock(mutex_);
    if (kept_.contains(number)) return entries;
    used_.emplace_front(number, *entries);
    kept_[number] = used_.begin();
    if (used_.size() > kKeptBlocks) {
        kept_.erase(used_.back().first);
        used_.pop_back();
    }
    return entries;
}

std::size_t PackIndex::block_of(const std::string& key) const {
    const auto above =
        std::upper_bound(blocks_.begin(), blocks_.end(), key,
                         [](const std::string& wanted, const Block& block) { return wanted < block.first; });
    return above == blocks_.begin() ? 0 : static_cast<std::size_t>(above - blocks_.begin()) - 1;
}

std::uint64_t PackIndex::about_in(const std::string& directory) const {
    const auto first = block_of(key_of(directory, "")), last = block_of(directory + '\x01');
    return (last - first) * kBlockEntries;
}

Result<void> PackIndex::walk(const std::string& key, const std::function<bool(const Entry&)>& each) {
    for (std::size_t number = block_of(key); number < blocks_.size(); ++number) {
        const auto entries = block(number);
        if (!entries) return fail(entries.error());
        // Blocks behind the first have nothing before it.
        const auto from = std::partition_point((*entries)->begin(), (*entries)->end(),
                                               [&](const Entry& entry) { return key_of(entry) < key; });
        for (auto entry = from; entry != (*entries)->end(); ++entry)
            if (!each(*entry)) return {};
    }
    return {};
}

Result<Entry> PackIndex::find(const std::string& path) {
    const auto key = key_of_path(path);
    std::optional<Entry> found;
    auto walked = walk(key, [&](const Entry& entry) {
        if (key_of(entry) == key) found = entry;
        return false;
    });
    if (!walked) return fail(walked.error());
    if (!found) return fail(ENOENT, "'" + path + "' is not in the pack");
    return std::move(*found);
}

Result<void> PackIndex::list(const std::string& directory, const std::string& after,
                             const std::function<bool(const Entry&)>& each) {
    const auto self = find(directory);
    if (!self) return fail(self.error());
    if (self->attributes.kind != ObjectKind::directory)
        return fail(ENOTDIR, "'" + directory + "' is no directory");
    return walk(key_of(directory, after), [&](const Entry& entry) {
        if (entry.directory != directory) return false;
        return entry.name == after || each(entry);
    });
}

Result<void> PackIndex::for_each(const std::function<bool(const Entry&)>& each) {
    return walk({}, each);
}

}  // namespace tierfs::pack
