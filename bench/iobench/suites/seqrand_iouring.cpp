// io_uring(7): a fixed number of reads in flight; each batch of completions is replaced by one submission.
#include <liburing.h>

#include <fstream>
#include <numeric>

#include "bench/iobench/run/workers.hpp"
#include "bench/iobench/suites/seqrand_reader.hpp"

namespace tierfs::iobench {

namespace {

int disabled_sysctl() {
    std::ifstream file("/proc/sys/kernel/io_uring_disabled");
    int value = -1;
    return file >> value ? value : -1;
}

/// Owns a ring. The kernel's memory of it goes with it.
class Ring {
  public:
    /// 0 or an errno. Kernels before 6.0 do not know the flags, which save interrupts of the process.
    int open(unsigned entries) {
        int code =
            io_uring_queue_init(entries, &ring_, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER);
        if (code == -EINVAL) code = io_uring_queue_init(entries, &ring_, 0);
        open_ = code == 0;
        return -code;
    }
    Ring() = default;
    ~Ring() {
        if (open_) io_uring_queue_exit(&ring_);
    }
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    [[nodiscard]] io_uring* get() { return &ring_; }

  private:
    io_uring ring_{};
    bool open_ = false;
};

class IoUringReader : public Reader {
  public:
    IoUringReader(const ReadPlan& plan, std::vector<Fd> fds) : plan_(plan), fds_(std::move(fds)) {
        slots_.reserve(plan.one.depth);
        for (unsigned i = 0; i < plan.one.depth; ++i) slots_.emplace_back(plan.one.block);
    }

    Result<void> open() {
        if (const int code = ring_.open(plan_.one.depth); code != 0)
            return fail(iouring_error(code, disabled_sysctl()));
        // Both spare the kernel work at each read. They may fail, for want of lockable memory
        // (RLIMIT_MEMLOCK) or of room in the tables: then it is done at each read.
        std::vector<iovec> vectors;
        for (const Slot& slot : slots_) vectors.push_back({slot.buffer.data(), plan_.one.block});
        fixed_buffers_ = io_uring_register_buffers(ring_.get(), vectors.data(),
                                                   static_cast<unsigned>(vectors.size())) == 0;
        std::vector<int> numbers;
        for (const Fd& fd : fds_) numbers.push_back(fd.get());
        fixed_files_ =
            io_uring_register_files(ring_.get(), numbers.data(), static_cast<unsigned>(numbers.size())) == 0;
        return {};
    }

    Result<void> read(Feed& feed, Tally& tally) override {
        std::uint64_t now = tally.started = now_ns();
        feed.start(now);
        for (std::size_t i = 0; i < slots_.size(); ++i) refill(i, feed, now);
        std::vector<io_uring_cqe*> done(slots_.size());
        while (flying_ != 0) {
            const int submitted = io_uring_submit_and_wait(ring_.get(), 1);
            if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY)
                return fail(system_error(-submitted, "io_uring_enter"));
            const unsigned count =
                io_uring_peek_batch_cqe(ring_.get(), done.data(), static_cast<unsigned>(done.size()));
            for (unsigned i = 0; i < count; ++i) {
                now = now_ns();
                const auto index = static_cast<std::size_t>(io_uring_cqe_get_data64(done[i]));
                auto whole = complete(slots_[index], index, done[i]->res);
                if (!whole) return fail(whole.error());
                if (!*whole) continue;
                --flying_;
                tally.add(now - slots_[index].before, slots_[index].block.length);
                if (auto right = check_block(plan_, slots_[index].block, slots_[index].buffer); !right)
                    return right;
                refill(index, feed, now);
            }
            io_uring_cq_advance(ring_.get(), count);
        }
        tally.ended = now_ns();
        return {};
    }

  private:
    struct Slot {
        explicit Slot(std::uint64_t size) : buffer(size) {}
        ReadBuffer buffer;
        Block block;
        std::uint64_t done = 0, before = 0;
    };

    void refill(std::size_t index, Feed& feed, std::uint64_t now) {
        const auto block = feed.next(now);
        if (!block) return;
        Slot& slot = slots_[index];
        slot.block = *block;
        slot.done = 0;
        slot.before = now_ns();
        ask(slot, index);
        ++flying_;
    }

    /// Prepares the read of what is missing. There is room: the ring has an entry for each slot.
    void ask(Slot& slot, std::size_t index) {
        const std::uint64_t wanted = plan_.one.mode == Mode::direct ? plan_.one.block : slot.block.length;
        io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
        const int file = fixed_files_ ? static_cast<int>(slot.block.file) : fds_[slot.block.file].get();
        std::byte* to = slot.buffer.data() + slot.done;
        const auto length = static_cast<unsigned>(wanted - slot.done);
        const std::uint64_t offset = slot.block.offset + slot.done;
        if (fixed_buffers_)
            io_uring_prep_read_fixed(entry, file, to, length, offset, static_cast<int>(index));
        else
            io_uring_prep_read(entry, file, to, length, offset);
        if (fixed_files_) entry->flags |= IOSQE_FIXED_FILE;
        io_uring_sqe_set_data64(entry, index);
    }

    /// Whether the slot's block is there; a part of it that is missing is asked for again.
    Result<bool> complete(Slot& slot, std::size_t index, int result) {
        const bool again = result == -EINTR || result == -EAGAIN;
        if (result < 0 && !again) return fail(failed_read(plan_, slot.block, -result));
        if (result == 0) return fail(short_read(plan_, slot.block, slot.done));
        if (!again) slot.done += static_cast<std::uint64_t>(result);
        if (slot.done >= slot.block.length) return true;
        ask(slot, index);
        return false;
    }

    const ReadPlan plan_;
    const std::vector<Fd> fds_;
    std::vector<Slot> slots_;
    Ring ring_;  // goes before the buffers that it reads into
    bool fixed_buffers_ = false, fixed_files_ = false;
    std::size_t flying_ = 0;
};

}  // namespace

Result<std::unique_ptr<Reader>> make_iouring_reader(const ReadPlan& plan, std::vector<Fd> fds) {
    auto reader = std::make_unique<IoUringReader>(plan, std::move(fds));
    if (auto opened = reader->open(); !opened) return fail(opened.error());
    return reader;
}

Error iouring_error(int code, int disabled) {
    const std::string instead = "; choose --engines pread";
    if (code == ENOSYS) return {code, "io_uring: this kernel has none (it came with Linux 5.1)" + instead};
    if (code == EPERM && disabled > 0)
        return {code, "io_uring: forbidden by the sysctl kernel.io_uring_disabled = " +
                          std::to_string(disabled) + instead};
    if (code == EPERM || code == EACCES)
        return {code, "io_uring: forbidden, as containers' seccomp profiles do" + instead};
    if (code == ENOMEM)
        return {code,
                "io_uring: no memory for a ring of this depth (RLIMIT_MEMLOCK, ulimit -l); choose a smaller "
                "one of --depths"};
    return system_error(code, "io_uring_setup");
}

Result<void> check_iouring() {
    Ring ring;
    if (const int code = ring.open(2); code != 0) return fail(iouring_error(code, disabled_sysctl()));
    return {};
}

}  // namespace tierfs::iobench
