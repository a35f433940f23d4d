#include "backends/dir/directory_writer.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <memory>

#include "backends/dir/beneath.hpp"
#include "backends/origin/upload_name.hpp"
#include "backends/origin/young_version.hpp"
#include "config/base/aligned_buffer.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/sync_point.hpp"
#include "config/base/time.hpp"
#include "config/base/units.hpp"

namespace tierfs {
namespace {

constexpr std::size_t kReadSize = 4U << 20;

int apply(int fd, const FileAttributes& attributes) {
    // Only root may give files away; who cannot keeps them.
    if (::fchown(fd, attributes.uid, attributes.gid) != 0 && errno != EPERM && errno != EINVAL) return errno;
    if (::fchmod(fd, attributes.mode & 07777U) != 0) return errno;
    const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, to_timespec(attributes.mtime_ns)};
    return ::futimens(fd, times.data()) == 0 ? 0 : errno;
}

bool fits_direct(std::uint64_t offset, std::span<const std::byte> bytes) {
    return offset % kDiskAlignment == 0 && bytes.size() % kDiskAlignment == 0 && is_aligned(bytes.data());
}

int write_all(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
        const ssize_t put = TIERFS_FAULT_CALL(
            "dir.write",
            ::pwrite(fd, bytes.data(), TIERFS_FAULT_SHORT(bytes.size()), static_cast<off_t>(offset)));
        if (put > 0) {
            bytes = bytes.subspan(static_cast<std::size_t>(put));
            offset += static_cast<std::uint64_t>(put);
            continue;
        }
        if (put == 0) return EIO;
        if (errno == EINTR) continue;
        const int flags = ::fcntl(fd, F_GETFL);
        const bool was_direct = flags >= 0 && (flags & O_DIRECT) != 0;
        // After a short direct write the rest may be unaligned.
        if (errno != EINVAL || !was_direct || ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0) return errno;
    }
    return 0;
}

int sync(int fd) {
    while (TIERFS_FAULT_CALL("dir.sync", ::fsync(fd)) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

/// MD5 of [offset, offset + size); the buffer is the caller's, at least `size`.
Result<std::string> md5_of(int fd, std::uint64_t offset, std::span<std::byte> buffer) {
    std::size_t done = 0;
    while (done < buffer.size()) {
        const auto size = std::min(buffer.size() - done, kReadSize);
        const ssize_t got = ::pread(fd, buffer.data() + done, size, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(system_error(errno, "read"));
        if (got == 0) return fail(EIO, "the file has become shorter");
        done += static_cast<std::size_t>(got);
    }
    return md5_hex(buffer);
}

/// Whether all of the range has been written to.
bool is_dense(int fd, std::uint64_t offset, std::uint64_t size) {
    const off_t hole = ::lseek(fd, static_cast<off_t>(offset), SEEK_HOLE);
    return hole < 0 || static_cast<std::uint64_t>(hole) >= offset + size;
}

}  // namespace

tl::unexpected<Error> DirectoryWriter::error(int code, const std::string& path, const char* what) const {
    return fail(system_error(code, shown_ + "/" + path + ": " + what));
}

UploadLimits DirectoryWriter::limits() const {
    constexpr auto kLargest = static_cast<std::uint64_t>(INT64_MAX) / 2;
    return {kDiskAlignment, 5120 * kMiB, kLargest, UINT_MAX};
}

Result<FileDescriptor> DirectoryWriter::make_directory(int above, const std::string& name,
                                                       const std::string& path) {
    if (TIERFS_FAULT_CALL("dir.mkdir", ::mkdirat(above, name.c_str(), 0777)) != 0 && errno != EEXIST)
        return error(errno, path, "mkdir");
    if (const int code = sync(above); code != 0) return error(code, path, "fsync of the directory above");
    return open_beneath(above, name, O_RDONLY | O_DIRECTORY);
}

Result<FileDescriptor> DirectoryWriter::parent_of(const std::string& path, bool make) {
    const auto directory = split_path(path).directory;
    auto opened = open_beneath(root_.get(), directory, O_RDONLY | O_DIRECTORY);
    if (opened || opened.error().code != ENOENT || !make) return opened;
    auto current = open_beneath(root_.get(), "", O_RDONLY | O_DIRECTORY);
    std::size_t from = 0;
    while (current && from < directory.size()) {
        const auto slash = std::min(directory.find('/', from), directory.size());
        current = make_directory(current->get(), directory.substr(from, slash - from), directory);
        from = slash + 1;
    }
    return current;
}

Result<Upload> DirectoryWriter::begin(const std::string& path, const PutOptions& options) {
    const auto directory = parent_of(path, true);
    if (!directory) return fail(directory.error());
    if (options.only_if_absent && stat_file(path)) return error(EEXIST, path, "write");
    const auto prefix = upload_prefix(path);
    if (!prefix) return fail(prefix.error());
    const auto name = new_upload_name(*prefix);
    const FileDescriptor file(TIERFS_FAULT_CALL(
        "dir.create",
        ::openat(directory->get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
    if (!file) return error(errno, path, "create a temporary file");
    return Upload{path, name};
}

Result<FileDescriptor> DirectoryWriter::open_upload(const Upload& upload, int flags) {
    const auto prefix = upload_prefix(upload.path);
    if (!prefix) return fail(prefix.error());
    if (!is_upload_name(upload.id, *prefix)) return error(ENOENT, upload.path, "no such upload");
    const auto directory = split_path(upload.path).directory;
    return open_beneath(root_.get(), directory.empty() ? upload.id : directory + "/" + upload.id,
                        flags | O_NOFOLLOW);
}

Result<UploadPart> DirectoryWriter::part(const Upload& upload, unsigned number, std::uint64_t offset,
                                         std::span<const std::byte> bytes, const std::string& checksum_md5) {
    auto checksum = checksum_md5.empty() ? md5_hex(bytes) : Result<std::string>(checksum_md5);
    if (!checksum) return fail(checksum.error());
    const int direct = fits_direct(offset, bytes) ? O_DIRECT : 0;
    auto file = open_upload(upload, O_WRONLY | direct);
    if (!file && file.error().code == EINVAL && direct != 0) file = open_upload(upload, O_WRONLY);
    if (!file) return fail(file.error());
    ++puts_;
    if (const int code = write_all(file->get(), bytes, offset); code != 0)
        return error(code, upload.path, "write");
    bytes_written_ += bytes.size();
    return UploadPart{number, bytes.size(), std::move(*checksum)};
}

Result<Written> DirectoryWriter::put(const std::string& path, std::span<const std::byte> bytes,
                                     const PutOptions& options, const std::string& checksum_md5) {
    const auto upload = begin(path, options);
    if (!upload) return fail(upload.error());
    const auto part = this->part(*upload, 1, 0, bytes, checksum_md5);
    Result<Written> written = part ? complete(*upload, std::span(&*part, 1), options) : fail(part.error());
    if (!written) {
        (void)abort(*upload);  // the first error is the one to tell
        return written;
    }
    written->checksum = part->checksum;
    return written;
}

Result<std::vector<UploadPart>> DirectoryWriter::parts(const Upload& upload, std::uint64_t part_size) {
    const auto file = open_upload(upload, O_RDONLY);
    if (!file) return fail(file.error());
    struct stat status {};
    if (::fstat(file->get(), &status) != 0) return error(errno, upload.path, "stat");
    std::vector<UploadPart> found;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (part_size == 0 || size == 0) return found;
    std::vector<std::byte> buffer(std::min(part_size, size));
    for (std::uint64_t offset = 0; offset < size; offset += part_size) {
        const auto length = std::min(part_size, size - offset);
        if (!is_dense(file->get(), offset, length)) continue;
        auto checksum = md5_of(file->get(), offset, std::span(buffer).first(length));
        if (!checksum) return fail(checksum.error().within(shown_ + "/" + upload.path));
        found.push_back({static_cast<unsigned>(offset / part_size + 1), length, std::move(*checksum)});
    }
    return found;
}

Result<void> DirectoryWriter::rename_into_place(int directory, const Upload& upload,
                                                const PutOptions& options) {
    const auto name = split_path(upload.path).name;
    if (!options.only_if_version.empty()) {
        const auto there = stat_file(upload.path);
        if (!there && there.error().code != ENOENT) return fail(there.error());
        if (!there || there->version != unmarked(options.only_if_version))
            return error(ESTALE, upload.path, "another version is there");
    }
    if (!options.only_if_absent) {
        if (TIERFS_FAULT_CALL("dir.rename",
                              ::renameat(directory, upload.id.c_str(), directory, name.c_str())) != 0)
            return error(errno, upload.path, "rename");
        return {};
    }
    if (::renameat2(directory, upload.id.c_str(), directory, name.c_str(), RENAME_NOREPLACE) == 0) return {};
    // NFS and others do not know the flag; link(2) is as exclusive.
    if (errno != EINVAL && errno != ENOSYS) return error(errno, upload.path, "rename");
    if (::linkat(directory, upload.id.c_str(), directory, name.c_str(), 0) != 0)
        return error(errno, upload.path, "link");
    ::unlinkat(directory, upload.id.c_str(), 0);
    return {};
}

Result<Written> DirectoryWriter::complete(const Upload& upload, std::span<const UploadPart> parts,
                                          const PutOptions& options) {
    const auto directory = parent_of(upload.path, false);
    if (!directory) return fail(directory.error());
    const auto file = open_upload(upload, O_WRONLY);
    if (!file) return fail(file.error());
    std::uint64_t size = 0;
    for (const auto& part : parts) size += part.size;
    struct stat status {};
    if (::fstat(file->get(), &status) != 0) return error(errno, upload.path, "stat");
    if (static_cast<std::uint64_t>(status.st_size) != size)
        return error(EIO, upload.path, "the temporary file has another size than its parts");
    const FileAttributes usual;
    const int code = options.attributes ? apply(file->get(), *options.attributes)
                                        : (::fchmod(file->get(), usual.mode) == 0 ? 0 : errno);
    if (code != 0) return error(code, upload.path, "set attributes");
    if (const int failed = sync(file->get()); failed != 0) return error(failed, upload.path, "fsync");
    TIERFS_SYNC_POINT("dir.put.written");
    if (auto renamed = rename_into_place(directory->get(), upload, options); !renamed)
        return fail(renamed.error());
    if (const int failed = sync(directory->get()); failed != 0)
        return error(failed, upload.path, "fsync of the directory");
    const auto there = stat_file(upload.path);
    if (!there) return fail(there.error());
    auto checksum = checksum_of_parts(parts);
    if (!checksum) return fail(checksum.error());
    return Written{there->version, std::move(*checksum), size};
}

Result<void> DirectoryWriter::abort(const Upload& upload) {
    const auto prefix = upload_prefix(upload.path);
    if (!prefix) return fail(prefix.error());
    if (!is_upload_name(upload.id, *prefix)) return {};
    const auto directory = parent_of(upload.path, false);
    if (!directory) return directory.error().code == ENOENT ? Result<void>{} : fail(directory.error());
    if (::unlinkat(directory->get(), upload.id.c_str(), 0) != 0 && errno != ENOENT)
        return error(errno, upload.path, "remove the temporary file");
    return {};
}

Result<std::vector<PendingUpload>> DirectoryWriter::pending(const std::string& path) {
    const auto prefix = upload_prefix(path);
    if (!prefix) return fail(prefix.error());
    std::vector<PendingUpload> found;
    auto directory = parent_of(path, false);
    if (!directory && directory.error().code == ENOENT) return found;
    if (!directory) return fail(directory.error());
    DIR* const raw = ::fdopendir(directory->get());
    if (raw == nullptr) return error(errno, path, "list the directory");
    directory->release();
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(raw, ::closedir);
    while (const struct dirent* entry = ::readdir(stream.get())) {
        const std::string name(static_cast<const char*>(entry->d_name));
        struct stat status {};
        if (!is_upload_name(name, *prefix) ||
            ::fstatat(::dirfd(stream.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        found.push_back({{path, name}, status.st_ctim.tv_sec});
    }
    return found;
}

Result<Attributes> DirectoryWriter::stat_file(const std::string& path) {
    const auto opened = open_beneath(root_.get(), path, O_PATH | O_NOFOLLOW);
    if (!opened) return fail(opened.error());
    struct stat status {};
    if (::fstat(opened->get(), &status) != 0) return error(errno, path, "stat");
    auto result = to_attributes(status);
    if (result.is_special || result.attributes.kind != ObjectKind::file)
        return error(result.attributes.kind == ObjectKind::directory ? EISDIR : EEXIST, path,
                     "is there, and is no file");
    return std::move(result.attributes);
}

Result<std::string> DirectoryWriter::checksum(const std::string& path, std::uint64_t part_size) {
    const auto file = open_beneath(root_.get(), path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!file) return fail(file.error());
    struct stat status {};
    if (::fstat(file->get(), &status) != 0) return error(errno, path, "stat");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    const auto step = part_size == 0 ? size : part_size;
    std::vector<std::byte> buffer(std::min(step, size));
    std::vector<UploadPart> parts;
    for (std::uint64_t offset = 0; offset < size || parts.empty(); offset += step) {
        const auto length = std::min(step, size - offset);
        auto digest = md5_of(file->get(), offset, std::span(buffer).first(length));
        if (!digest) return fail(digest.error().within(shown_ + "/" + path));
        if (part_size == 0) return digest;
        parts.push_back({static_cast<unsigned>(parts.size() + 1), length, std::move(*digest)});
    }
    return checksum_of_parts(parts);
}

Result<void> DirectoryWriter::remove(const std::string& path) {
    const auto directory = parent_of(path, false);
    if (!directory) return directory.error().code == ENOENT ? Result<void>{} : fail(directory.error());
    ++removes_;
    if (TIERFS_FAULT_CALL("dir.unlink", ::unlinkat(directory->get(), split_path(path).name.c_str(), 0)) !=
            0 &&
        errno != ENOENT)
        return error(errno, path, "remove");
    if (const int code = sync(directory->get()); code != 0)
        return error(code, path, "fsync of the directory");
    return {};
}

}  // namespace tierfs
