#include "fs/stage/copy/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "config/base/units.hpp"

namespace tierfs::stage {

namespace {

constexpr std::chrono::milliseconds kTryAgain{200};
constexpr unsigned kMostShards = 100000;

constexpr int kLock = O_RDWR | O_CREAT;

std::string holder_of(int fd) {
    std::array<char, 32> text{};
    const ssize_t length = ::pread(fd, text.data(), text.size() - 1, 0);
    const std::string_view digits(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const auto end = digits.find_first_not_of("0123456789");
    const auto pid = digits.substr(0, end);
    return pid.empty() ? std::string() : " (process " + std::string(pid) + ")";
}

Result<void> hold(int fd, int how, const BookFolder& books, bool wait, const StopFlag& stop) {
    while (::flock(fd, how | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return fail(system_error(errno, books.path()));
        if (!wait) {
            return fail(EWOULDBLOCK, "another tierfs-stage" + holder_of(fd) + " works in " +
                                         std::filesystem::path(books.path()).parent_path().string() +
                                         ": try again when it is done, or give --wait");
        }
        if (stop.requested()) return fail(ECANCELED, "stopped while waiting for another tierfs-stage");
        std::this_thread::sleep_for(kTryAgain);
    }
    return {};
}

void sign(int fd) {
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd, 0) == 0) static_cast<void>(!::pwrite(fd, pid.data(), pid.size(), 0));
}

/// Shards of another number would divide the files differently.
Result<void> expect_no_other_count(const BookFolder& books, const Shard& shard) {
    const std::string end = "-of-" + std::to_string(shard.count);
    for (const auto& name : books.names()) {
        if (!name.starts_with("lock-") || name.ends_with(end)) continue;
        const auto other = books.book(name, kLock);
        if (!other) continue;
        if (::flock(other->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return fail(EWOULDBLOCK,
                        "shards of another number are at work in " + books.path() + " (" + name + ")");
    }
    return {};
}

}  // namespace

std::string Shard::suffix() const {
    return is_whole() ? "" : "-" + std::to_string(number) + "-of-" + std::to_string(count);
}

Result<Shard> parse_shard(const std::string& text) {
    const auto share = parse_share(text);
    if (!share) return fail(share.error());
    if (share->count > kMostShards)
        return fail(EINVAL, "found '" + text + "'; at most " + std::to_string(kMostShards) + " shards");
    return Shard{static_cast<unsigned>(share->index) + 1, static_cast<unsigned>(share->count)};
}

Result<FolderLock> FolderLock::take(const BookFolder& books, const Shard& shard, bool wait,
                                    const StopFlag& stop) {
    FolderLock lock;
    auto whole = books.book("lock", kLock);
    if (!whole) return fail(whole.error());
    lock.whole_ = std::move(*whole);
    const int how = shard.is_whole() ? LOCK_EX : LOCK_SH;
    if (auto held = hold(lock.whole_.get(), how, books, wait, stop); !held) return fail(held.error());
    struct stat locked {};
    const auto there = books.status("lock");
    if (::fstat(lock.whole_.get(), &locked) != 0 || !there || locked.st_ino != there->st_ino)
        return fail(EAGAIN, books.path() + " was evicted meanwhile: try again");
    if (shard.is_whole()) {
        sign(lock.whole_.get());
        return lock;
    }
    auto own = books.book("lock" + shard.suffix(), kLock);
    if (!own) return fail(own.error());
    lock.shard_ = std::move(*own);
    if (auto held = hold(lock.shard_.get(), LOCK_EX, books, wait, stop); !held) return fail(held.error());
    sign(lock.shard_.get());
    if (auto alone = expect_no_other_count(books, shard); !alone) return fail(alone.error());
    return lock;
}

}  // namespace tierfs::stage
