#include "fs/readonly/direct_reads.hpp"

#include "config/base/log.hpp"

namespace tierfs {

// 4 KiB: what all devices take.
void DirectReads::note(std::uint64_t offset, std::uint64_t length) {
    constexpr std::uint64_t kAlignment = 4096;
    if (!watches_ || (offset | length) % kAlignment == 0 || !may_pass_.exchange(false)) return;
    if (record_ != nullptr) record_->set_reads_unaligned();
    log::info(
        "somebody reads with O_DIRECT what is not aligned to 4 KiB: files that are opened so are read by the daemon "
        "from now on (direct.passthrough)");
}

}  // namespace tierfs
