#include "bench/iobench/suites/seqrand_reader.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "bench/iobench/run/place.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::size_t kAlignment = 4096;  // enough for every block device

std::string fs_name(const std::string& path) {
    return describe("", path).target.fs_type;
}

Error no_direct(const std::string& path) {
    return {EINVAL, path + ": this file system (" + fs_name(path) +
                        ") has no O_DIRECT for this file; leave direct out of --modes"};
}

Result<Fd> open_direct(const std::string& path) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECT));
    if (file.get() >= 0) return file;
    return fail(errno == EINVAL ? no_direct(path) : system_error(errno, path));
}

/// A mapping of a whole file, read only.
class Mapping {
  public:
    static Result<Mapping> of(const Fd& fd, const ReadFile& file) {
        void* memory = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, fd.get(), 0);
        if (memory == MAP_FAILED) return fail(system_error(errno, file.path + ": mmap"));
        return Mapping(memory, file.size);
    }
    ~Mapping() {
        if (memory_ != nullptr) munmap(memory_, size_);
    }
    Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), size_(other.size_) {}
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    Mapping& operator=(Mapping&&) = delete;

    [[nodiscard]] const std::byte* at(std::uint64_t offset) const {
        return static_cast<const std::byte*>(memory_) + offset;
    }
    void advise(int advice) const { madvise(memory_, size_, advice); }

  private:
    Mapping(void* memory, std::uint64_t size) : memory_(memory), size_(size) {}
    void* memory_;
    std::uint64_t size_;
};

/// Reads one block after another, each by Derived::fetch(block, buffer).
template <typename Derived>
class Synchronous : public Reader {
  public:
    Result<void> read(Feed& feed, Tally& tally) override {
        std::uint64_t now = tally.started = now_ns();
        feed.start(now);
        while (const auto block = feed.next(now)) {
            const std::uint64_t before = now_ns();
            if (auto done = static_cast<Derived*>(this)->fetch(*block, buffer_); !done) return done;
            now = now_ns();
            tally.add(now - before, block->length);
            if (auto right = check_block(plan_, *block, buffer_); !right) return right;
        }
        tally.ended = now_ns();
        return {};
    }

  private:
    friend Derived;
    explicit Synchronous(const ReadPlan& plan) : plan_(plan), buffer_(plan.one.block) {}
    const ReadPlan plan_;
    const ReadBuffer buffer_;
};

class PreadReader : public Synchronous<PreadReader> {
  public:
    PreadReader(const ReadPlan& plan, std::vector<Fd> fds) : Synchronous(plan), fds_(std::move(fds)) {}

    Result<void> fetch(const Block& block, const ReadBuffer& buffer) {
        // O_DIRECT wants whole blocks, at the end of the file too
        const std::uint64_t wanted = plan_.one.mode == Mode::direct ? plan_.one.block : block.length;
        std::uint64_t done = 0;
        while (done < block.length) {
            const ssize_t n = ::pread(fds_[block.file].get(), buffer.data() + done, wanted - done,
                                      static_cast<off_t>(block.offset + done));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail(failed_read(plan_, block, errno));
            if (n == 0) return fail(short_read(plan_, block, done));
            done += static_cast<std::uint64_t>(n);
        }
        return {};
    }

  private:
    const std::vector<Fd> fds_;
};

class MmapReader : public Synchronous<MmapReader> {
  public:
    MmapReader(const ReadPlan& plan, std::vector<Mapping> mappings)
        : Synchronous(plan), mappings_(std::move(mappings)) {}

    Result<void> fetch(const Block& block, const ReadBuffer& buffer) {
        std::memcpy(buffer.data(), mappings_[block.file].at(block.offset), block.length);
        return {};
    }

  private:
    const std::vector<Mapping> mappings_;
};

Result<std::unique_ptr<Reader>> make_mmap_reader(const ReadPlan& plan, const std::vector<Fd>& fds) {
    std::vector<Mapping> mappings;
    for (std::size_t i = 0; i < fds.size(); ++i) {
        auto mapping = Mapping::of(fds[i], plan.files[i]);
        if (!mapping) return fail(mapping.error());
        if (plan.advise) mapping->advise(plan.one.order == Order::random ? MADV_RANDOM : MADV_SEQUENTIAL);
        mappings.push_back(std::move(*mapping));
    }
    return std::make_unique<MmapReader>(plan, std::move(mappings));
}

}  // namespace

ReadBuffer::ReadBuffer(std::uint64_t size) {
    const std::uint64_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0xa5,
                rounded);  // page faults now, not in the first reads; and not a hole's zeros
}

Result<std::unique_ptr<Reader>> make_reader(const ReadPlan& plan) {
    std::vector<Fd> fds;
    for (const auto& file : plan.files) {
        auto fd = plan.one.mode == Mode::direct ? open_direct(file.path) : open_for_reading(file.path);
        if (!fd) return fail(fd.error());
        struct stat attributes {};
        if (::fstat(fd->get(), &attributes) != 0) return fail(system_error(errno, file.path + ": fstat"));
        if (static_cast<std::uint64_t>(attributes.st_size) < file.size)  // SIGBUS, where it is mapped
            return fail(EIO, file.path + ": has become shorter");
        if (plan.advise)
            posix_fadvise(fd->get(), 0, 0,
                          plan.one.order == Order::random ? POSIX_FADV_RANDOM : POSIX_FADV_SEQUENTIAL);
        fds.push_back(std::move(*fd));
    }
    if (plan.one.mode == Mode::mmap) return make_mmap_reader(plan, fds);
    if (plan.one.engine == Engine::iouring) return make_iouring_reader(plan, std::move(fds));
    return std::make_unique<PreadReader>(plan, std::move(fds));
}

Result<void> check_direct(const ReadFile& file, std::uint64_t block) {
    const auto opened = open_direct(file.path);
    if (!opened) return fail(opened.error());
#ifdef STATX_DIOALIGN
    struct statx attributes {};
    const bool told = ::statx(opened->get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &attributes) == 0 &&
                      (attributes.stx_mask & STATX_DIOALIGN) != 0;
    if (told && attributes.stx_dio_offset_align == 0) return fail(no_direct(file.path));
    if (told && block % attributes.stx_dio_offset_align != 0)
        return fail(EINVAL, file.path + ": O_DIRECT on this file system (" + fs_name(file.path) +
                                ") needs multiples of " + std::to_string(attributes.stx_dio_offset_align) +
                                " bytes; " + std::to_string(block) + " of --block-sizes is none");
#else
    static_cast<void>(block);
#endif
    return {};
}

Error short_read(const ReadPlan& plan, const Block& block, std::uint64_t got) {
    return {EIO, plan.files[block.file].path + ": ends before its size, at byte " +
                     std::to_string(block.offset + got)};
}

Error failed_read(const ReadPlan& plan, const Block& block, int code) {
    const ReadFile& file = plan.files[block.file];
    std::string what = file.path + ": read of " + std::to_string(plan.one.block) + " bytes at byte " +
                       std::to_string(block.offset);
    if (plan.one.mode == Mode::direct && code == EINVAL)
        what += " with O_DIRECT (this file system, " + fs_name(file.path) +
                ", may need larger --block-sizes, or have no O_DIRECT)";
    return system_error(code, what);
}

Result<void> check_block(const ReadPlan& plan, const Block& block, const ReadBuffer& buffer) {
    if (plan.contents.empty()) return {};
    return plan.contents[block.file].check(plan.files[block.file], block.offset, buffer.first(block.length));
}

}  // namespace tierfs::iobench
