#include "bench/iobench/data/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace tierfs::iobench {

namespace fs = std::filesystem;

Fd::~Fd() {
    if (fd_ >= 0) ::close(fd_);
}

int Fd::close() {
    return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
}

Result<Fd> open_for_reading(const std::string& path) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));  // a pipe would block
    if (file.get() < 0) return fail(system_error(errno, path));
    struct stat attributes {};
    if (::fstat(file.get(), &attributes) != 0) return fail(system_error(errno, path));
    if (!S_ISREG(attributes.st_mode)) return fail(EINVAL, path + ": is not a regular file");
    return file;
}

Result<std::size_t> read_at(const Fd& file, std::span<std::byte> out, std::uint64_t offset,
                            const std::string& path) {
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t n =
            ::pread(file.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(system_error(errno, path + ": read at byte " + std::to_string(offset + done)));
        if (n == 0) break;
        done += static_cast<std::size_t>(n);
    }
    return done;
}

namespace {

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(system_error(errno, path + ": write"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

Result<void> fill(Fd& file, const std::string& path, bool durable,
                  const std::function<Result<void>(const Sink&)>& produce) {
    const Sink sink = [&](std::span<const std::byte> bytes) { return write_all(file.get(), bytes, path); };
    if (auto produced = produce(sink); !produced) return produced;
    if (durable && ::fsync(file.get()) != 0) return fail(system_error(errno, path + ": fsync"));
    if (const int code = file.close(); code != 0) return fail(system_error(code, path + ": close"));
    return {};
}

}  // namespace

Result<void> write_atomically(const std::string& path, bool durable,
                              const std::function<Result<void>(const Sink&)>& produce) {
    const fs::path target(path);
    std::string temporary = (target.parent_path() / ".").string();
    temporary.append(target.filename().string()).append(".iobench-tmp");
    Fd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (file.get() < 0) return fail(system_error(errno, temporary));
    auto result = fill(file, temporary, durable, produce);
    if (result && ::rename(temporary.c_str(), path.c_str()) != 0)
        result = fail(system_error(errno, path + ": rename"));
    if (!result) ::unlink(temporary.c_str());
    return result;
}

Result<std::vector<FoundFile>> walk(const std::string& directory) {
    std::vector<FoundFile> found;
    std::error_code error;
    fs::recursive_directory_iterator at(directory, error);
    for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
        const bool wanted = !at->is_symlink(error) && at->is_regular_file(error);
        const std::uint64_t size = wanted ? at->file_size(error) : 0;
        if (error) return fail(error.value(), at->path().string() + ": " + error.message());
        if (wanted) found.push_back({at->path().lexically_relative(directory).string(), size});
    }
    if (error) return fail(error.value(), directory + ": cannot be listed: " + error.message());
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    return found;
}

}  // namespace tierfs::iobench
