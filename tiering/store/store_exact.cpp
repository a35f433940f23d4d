// TieredStore: small random reads of large objects, past the RAM tier.
#include "config/base/aligned_buffer.hpp"
#include "tiering/store/store_impl.hpp"

namespace tierfs {

namespace {

/// Up to here, reading the whole block for the reader would cost the device several times its bytes.
constexpr std::uint64_t kLargestExact = kBlockSize / 4;

}  // namespace

/// What the backing file's checksums allow, 4 KiB at least, and no more. The first read of a block is such a
/// one; the second soon after brings the block into RAM.
bool TieredStore::read_exactly(const ObjectRef& object, std::uint64_t begin, std::uint64_t end,
                               ReadReply& reply) {
    const std::uint64_t block = begin / kBlockSize;
    if (nvme_ == nullptr || end - begin > kLargestExact || (end - 1) / kBlockSize != block) return false;
    if (plan_.ram_tier != 0 && touched_.touch(object.content, block)) return false;
    const std::uint64_t from = align_down(begin);
    const std::uint64_t to = std::min(align_up(end), object.size);
    auto buffer = arena_->allocate(to - from);
    if (!buffer) return false;
    const auto since = std::chrono::steady_clock::now();
    if (!nvme_->read(object.content, object.size, from, buffer->writable().first(to - from))) {
        buffer->quiet = true;
        return false;
    }
    latencies_.nvme.add(std::chrono::steady_clock::now() - since);
    buffer->source = ArenaBuffer::Source::nvme;
    buffer->object_offset = from;
    buffer->set_size(to - from);
    reply.pieces.assign(1, buffer->bytes().subspan(begin - from, end - begin));
    reply.owners.assign(1, std::move(buffer));
    return true;
}

}  // namespace tierfs
