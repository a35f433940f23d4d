#include "fs/stage/copy/book_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "config/base/json_text.hpp"
#include "fs/stage/copy/held_folder.hpp"

namespace tierfs::stage {

namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

}  // namespace

Result<BookFolder> BookFolder::open(int above, const std::string& above_path, const std::string& name,
                                    mode_t make) {
    const auto path = above_path + "/" + name;
    if (make != 0 && ::mkdirat(above, name.c_str(), make) != 0 && errno != EEXIST)
        return fail(system_error(errno, printable(path)));
    FileDescriptor fd(::openat(above, name.c_str(), kFolder));
    if (!fd && (errno == ENOTDIR || errno == ELOOP))
        return fail(ENOTDIR, printable(path) + ": it is in the way: not a folder");
    if (!fd) return fail(system_error(errno, printable(path)));
    return BookFolder(std::move(fd), path);
}

Result<BookFolder> BookFolder::at(const std::string& path, mode_t make) {
    auto held = HeldFolder::open(path);
    if (held) return BookFolder(std::move(held->fd), held->path);
    if (held.error().code != ENOENT || make == 0) return fail(held.error());
    auto whole = std::filesystem::path(path);
    if (!whole.has_filename()) whole = whole.parent_path();  // "folder/"
    const auto above = whole.parent_path().string();
    held = HeldFolder::open(above.empty() ? "." : above);
    if (!held) return fail(held.error());
    return open(held->fd.get(), held->path == "/" ? "" : held->path, whole.filename().string(), make);
}

Result<FileDescriptor> BookFolder::book(const std::string& name, int flags, mode_t mode) const {
    // Cut only when it is known for a book.
    constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    FileDescriptor fd(::openat(fd_.get(), name.c_str(), (flags & ~O_TRUNC) | kAlways, mode));
    const auto refuse = [&](int code, const char* why) {
        return fail(code, printable(path(name)) + ": " + why + ", so no record of tierfs-stage: remove it");
    };
    if (!fd && errno == ELOOP) return refuse(ELOOP, "it is a symbolic link");
    if (!fd && errno == ENXIO) return refuse(EINVAL, "it is no regular file");
    if (!fd) return fail(system_error(errno, printable(path(name))));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return fail(system_error(errno, printable(path(name))));
    if (S_ISDIR(status.st_mode)) return refuse(EISDIR, "it is a directory");
    if (!S_ISREG(status.st_mode)) return refuse(EINVAL, "it is no regular file");
    if (status.st_nlink > 1 && (flags & O_ACCMODE) != O_RDONLY)
        return refuse(EMLINK, "it is a file that has another name too");
    if ((flags & O_TRUNC) != 0 && ::ftruncate(fd.get(), 0) != 0)
        return fail(system_error(errno, printable(path(name))));
    return fd;
}

Result<std::ifstream> BookFolder::read(const std::string& name) const {
    const auto fd = book(name, O_RDONLY);
    if (!fd) return fail(fd.error());
    std::ifstream stream("/proc/self/fd/" + std::to_string(fd->get()), std::ios::binary);
    if (!stream) return fail(system_error(errno != 0 ? errno : EIO, printable(path(name))));
    return stream;
}

Result<void> BookFolder::make(const std::string& name, const std::string& text) const {
    const auto beside = name + ".new" + std::to_string(::getpid());
    if (auto gone = remove(beside); !gone) return gone;
    {
        const auto fd = book(beside, O_WRONLY | O_CREAT | O_EXCL);
        if (!fd) return fail(fd.error());
        if (auto written = write_all(fd->get(), text); !written)
            return fail(written.error().within(path(beside)));
        if (::fsync(fd->get()) != 0) return fail(system_error(errno, printable(path(beside))));
    }
    if (auto renamed = rename(beside, name, RENAME_NOREPLACE); !renamed) {
        (void)remove(beside);
        return renamed;
    }
    return sync();
}

Result<struct stat> BookFolder::status(const std::string& name) const {
    struct stat status {};
    if (::fstatat(fd_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(system_error(errno, printable(path(name))));
    return status;
}

Result<void> BookFolder::remove(const std::string& name) const {
    if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
        return fail(system_error(errno, printable(path(name))));
    return {};
}

Result<void> BookFolder::rename(const std::string& from, const std::string& to, unsigned flags) const {
    if (::renameat2(fd_.get(), from.c_str(), fd_.get(), to.c_str(), flags) != 0)
        return fail(system_error(errno, printable(path(to))));
    return {};
}

Result<void> BookFolder::sync() const {
    if (::fsync(fd_.get()) != 0) return fail(system_error(errno, printable(path_)));
    return {};
}

std::vector<std::string> BookFolder::names() const {
    return names_below(fd_.get());
}

std::vector<std::string> names_below(int folder) {
    std::vector<std::string> names;
    FileDescriptor fd(::openat(folder, ".", kFolder));  // with a place of its own
    const std::unique_ptr<DIR, int (*)(DIR*)> open(fd ? ::fdopendir(fd.get()) : nullptr, ::closedir);
    if (!open) return names;
    (void)fd.release();
    while (const dirent* entry = ::readdir(open.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    return names;
}

Result<void> remove_all_of(int above, const std::string& name) {
    if (::unlinkat(above, name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR) return fail(system_error(errno, printable(name)));
    FileDescriptor folder(::openat(above, name.c_str(), kFolder));
    if (!folder) return fail(system_error(errno, printable(name)));
    for (const auto& inner : names_below(folder.get()))
        if (auto removed = remove_all_of(folder.get(), inner); !removed)
            return fail(removed.error().within(name));
    if (::unlinkat(above, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
        return fail(system_error(errno, printable(name)));
    return {};
}

}  // namespace tierfs::stage
