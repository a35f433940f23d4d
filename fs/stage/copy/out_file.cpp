#include "fs/stage/copy/out_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "backends/dir/beneath.hpp"
#include "config/base/crc32c.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::stage {
namespace {

bool stop_direct(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0 && ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/// The text of open_beneath speaks of the directory, which the caller names already.
Error about(const std::string& path, const Error& error) {
    return system_error(error.code, "'" + printable(path) + "'");
}

}  // namespace

Result<OutSource> OutSource::open(int root, const std::string& path) {
    constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
    auto opened = open_beneath(root, path, kFlags | O_DIRECT);
    if (!opened && opened.error().code == EINVAL) opened = open_beneath(root, path, kFlags);
    if (!opened) return fail(about(path, opened.error()));
    OutSource source;
    source.path_ = path;
    source.fd_ = std::move(*opened);
    struct stat status {};
    if (::fstat(source.fd_.get(), &status) != 0)
        return fail(system_error(errno, "'" + printable(path) + "'"));
    auto found = to_attributes(status);
    if (found.is_special || found.attributes.kind != ObjectKind::file)
        return fail(EINVAL, "'" + printable(path) + "': no file any more");
    source.attributes_ = std::move(found.attributes);
    return source;
}

Result<void> OutSource::read(AlignedBuffer& buffer, std::uint64_t offset, std::size_t size) const {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t got = TIERFS_FAULT_CALL(
            "stage.out.read", ::pread(fd_.get(), buffer.data() + done,
                                      TIERFS_FAULT_SHORT(static_cast<std::size_t>(align_up(size)) - done),
                                      static_cast<off_t>(offset + done)));
        if (got > 0) {
            done += static_cast<std::size_t>(got);
            continue;
        }
        if (got == 0) return fail(ESTALE, "'" + printable(path_) + "' became shorter while it was read");
        if (errno == EINTR) continue;
        // An odd rest after a short read, or memory that the device does not take.
        if (errno == EINVAL && stop_direct(fd_.get())) continue;
        return fail(system_error(errno, "'" + printable(path_) + "': read"));
    }
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    if (flags >= 0 && (flags & O_DIRECT) == 0)
        ::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_DONTNEED);
    return {};
}

Result<void> OutSource::expect_unchanged(int root) const {
    const auto changed = [&] {
        return fail(ESTALE, "'" + printable(path_) + "' changed while it was read: run the command again");
    };
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) return fail(system_error(errno, "'" + printable(path_) + "'"));
    if (to_attributes(status).attributes.version != attributes_.version) return changed();
    const auto named = open_beneath(root, path_, O_PATH | O_NOFOLLOW);
    if (!named) return named.error().code == ENOENT ? changed() : fail(about(path_, named.error()));
    struct stat now {};
    if (::fstat(named->get(), &now) != 0) return fail(system_error(errno, "'" + printable(path_) + "'"));
    if (now.st_ino != status.st_ino || now.st_dev != status.st_dev) return changed();
    return {};
}

struct OutSums::State {
    struct Free {
        void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    std::unique_ptr<XXH3_state_t, Free> hash{XXH3_createState()};
};

OutSums::OutSums() : state_(std::make_unique<State>()) {
    if (!state_->hash) throw std::bad_alloc();
    XXH3_64bits_reset(state_->hash.get());
}

OutSums::~OutSums() = default;

bool OutSums::add(unsigned number, std::span<const std::byte> bytes) {
    std::vector<std::uint32_t> crcs;
    for (auto rest = bytes; !rest.empty();) {
        const auto chunk = rest.first(std::min<std::size_t>(rest.size(), kChunkBytes));
        crcs.push_back(tierfs::crc32c(0, chunk));
        rest = rest.subspan(chunk.size());
    }
    {
        MutexLock lock(mutex_);
        while (next_ != number && !given_up_) lock.wait(turn_);
        if (given_up_) return false;
    }
    XXH3_64bits_update(state_->hash.get(), bytes.data(), bytes.size());
    const MutexLock lock(mutex_);
    crc32c_.insert(crc32c_.end(), crcs.begin(), crcs.end());
    ++next_;
    turn_.notify_all();
    return true;
}

void OutSums::give_up() {
    const MutexLock lock(mutex_);
    given_up_ = true;
    turn_.notify_all();
}

std::uint64_t OutSums::xxh3() {
    const MutexLock lock(mutex_);
    return XXH3_64bits_digest(state_->hash.get());
}

std::vector<std::uint32_t> OutSums::crc32c() {
    const MutexLock lock(mutex_);
    return crc32c_;
}

}  // namespace tierfs::stage
