// Files and directories of this machine that are open; see posix_directory.hpp.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/dir/caller_scope.hpp"
#include "backends/dir/posix_directory.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

namespace {

class OpenFile final : public PosixFile {
  public:
    OpenFile(FileDescriptor file, std::shared_ptr<PosixCounters> counters, bool is_nameless)
        : file_(std::move(file)),
          counters_(std::move(counters)),
          group_(group_of(file_.get())),
          is_nameless_(is_nameless) {}

    Result<std::size_t> read(std::span<std::byte> destination, std::uint64_t offset) override {
        ++counters_->reads;
        std::size_t got = 0;
        while (got < destination.size()) {
            const auto rest = destination.subspan(got);
            const ssize_t now = TIERFS_FAULT_CALL(
                "posix.read", ::pread(file_.get(), rest.data(), TIERFS_FAULT_SHORT(rest.size()),
                                      static_cast<off_t>(offset + got)));
            if (now < 0 && errno == EINTR) continue;
            if (now < 0) return failed("read");
            if (now == 0) break;
            got += static_cast<std::size_t>(now);
        }
        counters_->bytes_read += got;
        return got;
    }

    Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset) override {
        ++counters_->writes;
        const ActorScope acting(ActorScope::Changes::contents, true, group_);
        while (!bytes.empty()) {
            const ssize_t now = TIERFS_FAULT_CALL(
                "posix.write", ::pwrite(file_.get(), bytes.data(), TIERFS_FAULT_SHORT(bytes.size()),
                                        static_cast<off_t>(offset)));
            if (now < 0 && errno == EINTR) continue;
            if (now < 0) return failed("write");
            counters_->bytes_written += static_cast<std::uint64_t>(now);
            offset += static_cast<std::uint64_t>(now);
            bytes = bytes.subspan(static_cast<std::size_t>(now));
        }
        return {};
    }

    Result<void> resize(std::uint64_t size) override {
        ++counters_->others;
        const ActorScope acting(ActorScope::Changes::contents, true, group_);
        return check(TIERFS_FAULT_CALL("posix.ftruncate", ::ftruncate(file_.get(), static_cast<off_t>(size))),
                     "truncate");
    }

    Result<void> allocate(int mode, std::uint64_t offset, std::uint64_t length) override {
        ++counters_->others;
        const ActorScope acting(ActorScope::Changes::contents, true, group_);
        return check(
            TIERFS_FAULT_CALL("posix.fallocate", ::fallocate(file_.get(), mode, static_cast<off_t>(offset),
                                                             static_cast<off_t>(length))),
            "fallocate");
    }

    Result<std::uint64_t> seek(std::uint64_t offset, int whence) override {
        ++counters_->others;
        const off_t found =
            TIERFS_FAULT_CALL("posix.lseek", ::lseek(file_.get(), static_cast<off_t>(offset), whence));
        if (found < 0) return failed("lseek");
        return static_cast<std::uint64_t>(found);
    }

    Result<std::uint64_t> copy(std::uint64_t offset, PosixFile& to, std::uint64_t to_offset,
                               std::uint64_t length) override {
        ++counters_->writes;
        auto& other = static_cast<OpenFile&>(to);  // NOLINT(*-static-cast-downcast): of the same origin
        const ActorScope acting(ActorScope::Changes::contents, true, other.group_);
        auto from = static_cast<off_t>(offset);
        auto into = static_cast<off_t>(to_offset);
        const ssize_t copied =
            TIERFS_FAULT_CALL("posix.copy", ::copy_file_range(file_.get(), &from, other.file_.get(), &into,
                                                              static_cast<std::size_t>(length), 0));
        if (copied < 0) return failed("copy_file_range");
        counters_->bytes_written += static_cast<std::uint64_t>(copied);
        return static_cast<std::uint64_t>(copied);
    }

    Result<void> sync(bool data_only) override {
        ++counters_->others;
        return check(
            TIERFS_FAULT_CALL("posix.fsync", data_only ? ::fdatasync(file_.get()) : ::fsync(file_.get())),
            "fsync");
    }

    // A network file system says at close(2) what became of earlier writes.
    Result<void> flush() override {
        ++counters_->others;
        const int copy = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
        if (copy < 0) return failed("dup");
        return check(TIERFS_FAULT_CALL("posix.close", ::close(copy)), "close");
    }

    Result<PosixAttributes> attributes() override {
        ++counters_->lookups;
        return is_nameless_ ? attributes_of_nameless(file_.get()) : posix_attributes(file_.get(), {});
    }

    Result<PosixLocksPtr> open_locks(bool for_writing) override {
        return open_posix_locks(file_.get(), for_writing, counters_);
    }

    [[nodiscard]] int descriptor() const override { return file_.get(); }

  private:
    tl::unexpected<Error> failed(const char* what) {
        const int code = errno;
        ++counters_->errors;
        return fail(system_error(code, what));
    }
    Result<void> check(int result, const char* what) {
        if (result != 0) return failed(what);
        return {};
    }

    static gid_t group_of(int file) {
        struct stat found {};
        return ::fstat(file, &found) == 0 ? found.st_gid : static_cast<gid_t>(-1);
    }

    const FileDescriptor file_;
    const std::shared_ptr<PosixCounters> counters_;
    const gid_t group_;  ///< when it was opened
    const bool is_nameless_;
};

class OpenDirectory final : public PosixDirectory {
  public:
    OpenDirectory(DIR* stream, std::shared_ptr<PosixCounters> counters)
        : stream_(stream, ::closedir), counters_(std::move(counters)) {}

    Result<std::optional<PosixEntry>> read(std::int64_t after) override {
        const MutexLock lock(mutex_);
        if (after != place_) {
            ::seekdir(stream_.get(), after);
            place_ = after;
        }
        errno = TIERFS_FAULT("posix.readdir");
        const struct dirent* found = errno != 0 ? nullptr : ::readdir(stream_.get());
        if (found == nullptr) {
            if (errno == 0) return std::optional<PosixEntry>();
            ++counters_->errors;
            return fail(system_error(errno, "readdir"));
        }
        place_ = found->d_off;
        return std::optional<PosixEntry>(PosixEntry{static_cast<const char*>(found->d_name), found->d_ino,
                                                    found->d_type, found->d_off, std::nullopt});
    }

    Result<void> sync(bool data_only) override {
        ++counters_->others;
        const int file = ::dirfd(stream_.get());
        if (TIERFS_FAULT_CALL("posix.fsyncdir", data_only ? ::fdatasync(file) : ::fsync(file)) != 0)
            return fail(system_error(errno, "fsync of a directory"));
        return {};
    }

  private:
    const std::unique_ptr<DIR, int (*)(DIR*)> stream_;
    const std::shared_ptr<PosixCounters> counters_;
    Mutex mutex_;  ///< of the stream's place, which two callers must not move at the same time
    std::int64_t place_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace

PosixFilePtr make_posix_file(FileDescriptor file, std::shared_ptr<PosixCounters> counters, bool is_nameless) {
    return std::make_shared<OpenFile>(std::move(file), std::move(counters), is_nameless);
}

Result<PosixDirectoryPtr> make_posix_directory(FileDescriptor directory,
                                               std::shared_ptr<PosixCounters> counters) {
    DIR* const stream = ::fdopendir(directory.get());
    if (stream == nullptr) return fail(system_error(errno, "opendir"));
    directory.release();  // closedir closes it
    return std::make_shared<OpenDirectory>(stream, std::move(counters));
}

}  // namespace tierfs
