#include "tiering/index/place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "config/base/fault_point.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {
namespace fs = std::filesystem;
namespace {

/// The number of "NAME.damaged-<n>"; 0 for any other name.
std::uint64_t damaged_number(const std::string& name, const std::string& prefix) {
    if (!name.starts_with(prefix)) return 0;
    std::uint64_t number = 0;
    const char* end = name.data() + name.size();
    const auto [rest, problem] = std::from_chars(name.data() + prefix.size(), end, number);
    return problem == std::errc() && rest == end ? number : 0;
}

}  // namespace

Result<void> make_private_directory(const fs::path& directory) {
    std::error_code problem;
    if (fs::is_directory(directory, problem)) return {};
    if (directory.has_parent_path()) fs::create_directories(directory.parent_path(), problem);
    if (TIERFS_FAULT_CALL("index.folder", ::mkdir(directory.c_str(), 0700)) != 0 && errno != EEXIST) {
        return fail(system_error(errno, "index " + directory.string() + ": cannot make the directory"));
    }
    return {};
}

Result<fs::path> put_aside(const fs::path& directory) {
    const std::string prefix = directory.filename().string() + ".damaged-";
    std::vector<fs::path> older;
    std::uint64_t highest = 0;
    std::error_code problem;
    for (fs::directory_iterator it(directory.parent_path(), problem), end; !problem && it != end;
         it.increment(problem)) {
        const std::uint64_t number = damaged_number(it->path().filename().string(), prefix);
        if (number == 0) continue;
        highest = std::max(highest, number);
        older.push_back(it->path());
    }
    // Removed first: a damaged index is worth nothing but a look, and the disk may be full.
    for (const fs::path& path : older) fs::remove_all(path, problem);
    const fs::path aside = directory.parent_path() / (prefix + std::to_string(highest + 1));
    if (!TIERFS_FAULT_CODE("index.aside", problem)) fs::rename(directory, aside, problem);
    if (problem) {
        return fail(system_error(problem.value(), "index " + directory.string() + ": cannot put aside"));
    }
    return aside;
}

void mark_damaged(const fs::path& directory) noexcept {
    try {
        const int mark = TIERFS_FAULT_CALL(
            "index.mark", ::open((directory / kDamagedMark).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (mark >= 0) ::close(mark);
    } catch (...) {  // out of memory while reporting damage
    }
}

// What its log holds is written again as a table, and becomes another log.
Result<IndexRoom> room_for_index(const std::filesystem::path& directory) {
    constexpr std::uint64_t kLeast = 4 << 20;
    struct statvfs space {};
    if (TIERFS_FAULT_CALL("index.space", ::statvfs(directory.parent_path().c_str(), &space)) != 0)
        return fail(system_error(errno, directory.parent_path().string()));
    IndexRoom room{kLeast, std::uint64_t{space.f_bavail} * space.f_frsize};
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        std::error_code gone;
        const auto size = entry.path().extension() == ".log" ? entry.file_size(gone) : 0;
        if (!gone) room.needed += size / 2;  // a table is compressed
    }
    return room;
}

}  // namespace tierfs
