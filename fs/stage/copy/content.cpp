#include "fs/stage/copy/content.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <new>

#include "config/base/aligned_buffer.hpp"
#include "config/base/crc32c.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs::stage {

namespace {

constexpr std::uint64_t kReadBytes = std::uint64_t{4} << 20;

}  // namespace

void ContentSums::Free::operator()(XXH3_state_s* state) const {
    ::XXH3_freeState(state);
}

ContentSums::ContentSums() : state_(::XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    ::XXH3_64bits_reset(state_.get());
}

std::uint32_t ContentSums::chunk_crc_with(std::span<const std::byte> data) const {
    return crc32c(bytes_ % kChunkBytes == 0 ? 0 : crc_, data);
}

void ContentSums::add(std::span<const std::byte> data) {
    crc_ = chunk_crc_with(data);
    ::XXH3_64bits_update(state_.get(), data.data(), data.size());
    bytes_ += data.size();
    if (bytes_ % kChunkBytes == 0 && !data.empty()) chunks_.push_back(crc_);
}

void ContentSums::end() {
    if (bytes_ % kChunkBytes != 0) chunks_.push_back(crc_);
}

std::uint64_t ContentSums::xxh3() const {
    return ::XXH3_64bits_digest(state_.get());
}

Result<FileDescriptor> open_direct(int folder, const std::string& name) {
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    FileDescriptor fd(::openat(folder, name.c_str(), kFlags | O_DIRECT));
    if (!fd && errno == EINVAL) fd.reset(::openat(folder, name.c_str(), kFlags));
    if (!fd) return fail(system_error(errno, name));
    return fd;
}

Result<std::string> compare_content(int fd, const ManifestRecord& record,
                                    const std::function<bool()>& stopped,
                                    const std::function<void(std::uint64_t)>& progress) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) return fail(system_error(errno, "fstat"));
    if (!S_ISREG(status.st_mode)) return "it is no regular file";
    if (static_cast<std::uint64_t>(status.st_size) != record.size)
        return "its size is " + std::to_string(status.st_size) + ", not " + std::to_string(record.size);
    AlignedBuffer buffer(std::min(kReadBytes, std::max<std::uint64_t>(record.size, 1)));
    ContentSums sums;
    while (sums.bytes() < record.size) {
        if (stopped()) return fail(ECANCELED, "stopped");
        const std::uint64_t wanted = std::min<std::uint64_t>(record.size - sums.bytes(), buffer.size());
        const ssize_t got = TIERFS_FAULT_CALL(
            "stage.read", ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(sums.bytes())));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return "it cannot be read: " + system_error(errno, "read").message;
        if (static_cast<std::uint64_t>(got) < wanted) return "it became shorter";
        sums.add(buffer.span().first(wanted));
        const std::size_t chunk = (sums.bytes() - 1) / kChunkBytes;
        const bool whole = sums.bytes() % kChunkBytes == 0 || sums.bytes() == record.size;
        if (whole && (chunk >= record.crc32c.size() || sums.chunk_crc() != record.crc32c[chunk]))
            return "its bytes from " + std::to_string(chunk * kChunkBytes) + " on are not what was staged";
        if (progress) progress(wanted);
    }
    sums.end();
    if (sums.xxh3() != record.xxh3) return "its bytes are not what was staged (XXH3)";
    return std::string();
}

}  // namespace tierfs::stage
