#include "fs/stage/copy/direct_writer.hpp"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "config/base/fault_point.hpp"

namespace tierfs::stage {

namespace {

constexpr unsigned kEntries = 256;
constexpr std::size_t kMostRegistered = 16384;        // of the kernel
constexpr std::uint64_t kWakeToken = UINT64_MAX - 1;  // UINT64_MAX is liburing's own

}  // namespace

void DirectWriter::CloseRing::operator()(io_uring* ring) const {
    ::io_uring_queue_exit(ring);
    delete ring;
}

DirectWriter::DirectWriter(std::size_t most_slabs, bool use_ring)
    : wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wakes_) throw std::system_error(errno, std::generic_category(), "eventfd");
    if (use_ring) start_ring(most_slabs);
}

DirectWriter::~DirectWriter() = default;

void DirectWriter::start_ring(std::size_t most_slabs) {
    auto ring = std::make_unique<io_uring>();
    if (::io_uring_queue_init(kEntries, ring.get(), 0) != 0) return;
    ring_.reset(ring.release());
    most_slabs_ = std::min(most_slabs, kMostRegistered);
    may_register_ = ::io_uring_register_buffers_sparse(ring_.get(), static_cast<unsigned>(most_slabs_)) == 0;
    watch_wakes();
}

void DirectWriter::add_memory(std::span<std::byte> slab) {
    if (!may_register_ || slabs_.size() == most_slabs_) return;
    const iovec whole{slab.data(), slab.size()};
    const __u64 no_tag = 0;
    const auto number = static_cast<unsigned>(slabs_.size());
    may_register_ = ::io_uring_register_buffers_update_tag(ring_.get(), number, &whole, &no_tag, 1) == 1;
    if (may_register_) slabs_.push_back(slab);
}

int DirectWriter::slab_of(std::span<const std::byte> data) const {
    for (std::size_t i = 0; i < slabs_.size(); ++i)
        if (data.data() >= slabs_[i].data() &&
            data.data() + data.size() <= slabs_[i].data() + slabs_[i].size())
            return static_cast<int>(i);
    return -1;
}

/// A poll rather than a read: the counter is read by us, so that no wake is lost between two watches.
void DirectWriter::watch_wakes() {
    io_uring_sqe* const entry = ::io_uring_get_sqe(ring_.get());
    if (entry == nullptr) return;
    ::io_uring_prep_poll_add(entry, wakes_.get(), POLLIN);
    ::io_uring_sqe_set_data64(entry, kWakeToken);
    watched_ = true;
}

void DirectWriter::wake() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wakes_.get(), &one, sizeof one));
}

void DirectWriter::write(int fd, std::span<const std::byte> data, std::uint64_t offset, std::uint64_t token) {
    const Write one{fd, data, offset};
    writes_.emplace(token, one);
    if (const int code = TIERFS_FAULT("stage.write"); code != 0) return end(token, code);
    if (ring_) return prepare(token, one);
    std::span<const std::byte> rest = data;
    while (!rest.empty()) {
        const ssize_t done = ::pwrite(fd, rest.data(), rest.size(), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return end(token, done < 0 ? errno : EIO);
        rest = rest.subspan(static_cast<std::size_t>(done));
        offset += static_cast<std::uint64_t>(done);
    }
    end(token, 0);
}

void DirectWriter::prepare(std::uint64_t token, const Write& one) {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    if (entry == nullptr) {
        ::io_uring_submit(ring_.get());
        entry = ::io_uring_get_sqe(ring_.get());
    }
    if (entry == nullptr) return end(token, EBUSY);
    const auto length = static_cast<unsigned>(one.rest.size());
    if (const int slab = slab_of(one.rest); slab >= 0) {
        ::io_uring_prep_write_fixed(entry, one.fd, one.rest.data(), length, one.offset, slab);
    } else {
        ::io_uring_prep_write(entry, one.fd, one.rest.data(), length, one.offset);
    }
    ::io_uring_sqe_set_data64(entry, token);
}

void DirectWriter::end(std::uint64_t token, int code) {
    writes_.erase(token);
    done_.push_back({token, code});
}

void DirectWriter::take_completion(std::uint64_t token, int result) {
    if (token == kWakeToken) {
        watched_ = false;
        static_cast<void>(!::read(wakes_.get(), &wake_count_, sizeof wake_count_));
        return;
    }
    const auto found = writes_.find(token);
    if (found == writes_.end()) return;
    Write& one = found->second;
    if (result == -EINTR || result == -EAGAIN) return prepare(token, one);
    if (result <= 0) return end(token, result < 0 ? -result : EIO);
    const auto written = static_cast<std::size_t>(result);
    if (written >= one.rest.size()) return end(token, 0);
    one.rest = one.rest.subspan(written);
    one.offset += written;
    prepare(token, one);
}

std::vector<WriteDone> DirectWriter::wait(std::chrono::milliseconds patience) {
    constexpr long kPerSecond = 1000;
    constexpr long kNsPerMs = 1000000;
    if (!ring_) {
        if (done_.empty()) {
            pollfd entry{wakes_.get(), POLLIN, 0};
            ::poll(&entry, 1, static_cast<int>(patience.count()));
        }
        static_cast<void>(!::read(wakes_.get(), &wake_count_, sizeof wake_count_));
        return std::exchange(done_, {});
    }
    if (!watched_) watch_wakes();
    __kernel_timespec limit{patience.count() / kPerSecond, patience.count() % kPerSecond * kNsPerMs};
    io_uring_cqe* first = nullptr;
    if (patience.count() == 0 || !done_.empty()) {
        ::io_uring_submit(ring_.get());
    } else {
        static_cast<void>(::io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &limit, nullptr));
    }
    while (::io_uring_peek_cqe(ring_.get(), &first) == 0 && first != nullptr) {
        const std::uint64_t token = ::io_uring_cqe_get_data64(first);
        const int result = first->res;
        ::io_uring_cqe_seen(ring_.get(), first);
        take_completion(token, result);
        first = nullptr;
    }
    ::io_uring_submit(ring_.get());  // the rest of short writes
    return std::exchange(done_, {});
}

}  // namespace tierfs::stage
