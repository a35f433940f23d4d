#include "backends/pack/index_writer.hpp"

#include <algorithm>

#include "backends/pack/block.hpp"
#include "backends/pack/numbers.hpp"

namespace tierfs::pack {

IndexWriter::IndexWriter() {
    out_.append(kIndexMagic);
    put_fixed(out_, kVersion);
    put_fixed(out_, std::uint32_t{0});
}

Result<void> IndexWriter::add(Entry entry) {
    auto key = key_of(entry);
    const bool clean = entry.is_root() ? entry.directory.empty()
                                       : is_clean_directory(entry.directory) && is_clean_name(entry.name);
    if (!clean) return fail(EINVAL, "'" + entry.path() + "' is no name for a file");
    if (count_ != 0 && key <= last_key_) return fail(EINVAL, "'" + entry.path() + "' is out of order");
    last_key_ = std::move(key);
    ++count_;
    weight_ += weight_of(entry);
    waiting_.push_back(std::move(entry));
    if (waiting_.size() == kBlockEntries || weight_ >= kBlockTarget) end_block();
    return {};
}

void IndexWriter::end_block() {
    if (waiting_.empty()) return;
    const auto block = encode_block(waiting_);
    put_varint(blocks_, block.size());
    put_varint(blocks_, waiting_.size());
    put_fixed(blocks_, hash64(block));
    auto first = key_of(waiting_.front());
    const auto [mine, other] =
        std::mismatch(first.begin(), first.end(), first_before_.begin(), first_before_.end());
    const auto shared = static_cast<std::size_t>(mine - first.begin());
    put_varint(blocks_, shared);
    put_varint(blocks_, first.size() - shared);
    blocks_.append(first, shared);
    first_before_ = std::move(first);
    out_.append(block);
    ++block_count_;
    waiting_.clear();
    weight_ = 0;
}

std::string IndexWriter::finish(const std::vector<Extent>& extents) {
    end_block();
    std::string tail;
    put_varint(tail, extents.size());
    for (const auto& extent : extents) {
        put_fixed(tail, extent.uuid.high);
        put_fixed(tail, extent.uuid.low);
        put_varint(tail, extent.bytes);
    }
    put_varint(tail, block_count_);
    tail.append(blocks_);
    std::string footer;
    put_fixed(footer, std::uint64_t{out_.size()});
    put_fixed(footer, std::uint64_t{tail.size()});
    put_fixed(footer, hash64(tail));
    put_fixed(footer, count_);
    put_fixed(footer, std::uint64_t{0});
    put_fixed(footer, hash64(footer));
    put_fixed(footer, kVersion);
    put_fixed(footer, std::uint32_t{0});
    footer.append(kIndexEnd);
    out_.append(tail).append(footer);
    return std::move(out_);
}

}  // namespace tierfs::pack
