#include "bench/iobench/suites/sample_list.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace tierfs::iobench {

namespace {

bool stays_below(const std::filesystem::path& path) {
    return path.is_relative() && !path.empty() && std::find(path.begin(), path.end(), "..") == path.end();
}

/// A line of a list: "PATH", whose size is then asked for, or "PATH<tab>SIZE".
Result<FoundFile> look_at(const std::string& directory, const std::string& line) {
    const std::size_t tab = line.rfind('\t');
    const std::string name = line.substr(0, tab);
    if (!stays_below(name)) return fail(EINVAL, name + ": is not below the directory");
    if (tab != std::string::npos) {
        std::uint64_t size = 0;
        const char* end = line.data() + line.size();
        const auto [stopped, code] = std::from_chars(line.data() + tab + 1, end, size);
        if (code != std::errc{} || stopped != end) return fail(EINVAL, name + ": has no size behind its tab");
        return FoundFile{name, size};
    }
    const std::string path = directory + "/" + name;
    struct stat attributes {};
    if (::lstat(path.c_str(), &attributes) != 0) return fail(system_error(errno, path));
    if (!S_ISREG(attributes.st_mode)) return fail(EINVAL, path + ": is not a regular file");
    return FoundFile{name, static_cast<std::uint64_t>(attributes.st_size)};
}

}  // namespace

Result<std::vector<FoundFile>> listed_files(const std::string& list, const std::string& directory) {
    std::ifstream file(list);
    if (!file) return fail(system_error(errno, list));
    std::vector<FoundFile> found;
    for (std::string line; std::getline(file, line);) {
        if (line.empty()) continue;
        auto one = look_at(directory, line);
        if (!one) return fail(one.error().within(list));
        found.push_back(std::move(*one));
    }
    if (file.bad()) return fail(EIO, list + ": cannot be read");
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    const auto twice = std::adjacent_find(found.begin(), found.end(),
                                          [](const auto& a, const auto& b) { return a.path == b.path; });
    if (twice != found.end()) return fail(EINVAL, list + ": names " + twice->path + " twice");
    return found;
}

}  // namespace tierfs::iobench
