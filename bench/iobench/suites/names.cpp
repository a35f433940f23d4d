#include "bench/iobench/suites/names.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace tierfs::iobench {

Result<void> for_each_name(const std::string& directory, const NameSink& sink) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
    if (!open) return fail(system_error(errno, directory));
    for (;;) {
        errno = 0;  // the only way to tell an error from the end
        const dirent* entry = ::readdir(open.get());
        if (entry == nullptr && errno != 0) return fail(system_error(errno, directory + ": readdir"));
        if (entry == nullptr) return {};
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (auto taken = sink(::dirfd(open.get()), *entry); !taken) return taken;
    }
}

namespace {

/// DT_UNKNOWN is what some file systems answer for everything.
Result<unsigned char> type_of(int fd, const dirent& entry, const std::string& directory) {
    if (entry.d_type != DT_UNKNOWN) return entry.d_type;
    struct stat attributes {};
    if (::fstatat(fd, entry.d_name, &attributes, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(system_error(errno, directory + "/" + entry.d_name));
    return static_cast<unsigned char>(IFTODT(attributes.st_mode));
}

}  // namespace

Result<NameTree> find_names(const std::string& directory) {
    NameTree tree;
    tree.directories.push_back(directory);
    for (std::size_t at = 0; at < tree.directories.size(); ++at) {
        const std::string here = tree.directories[at];  // a copy: the vector grows below
        auto listed = for_each_name(here, [&](int fd, const dirent& entry) -> Result<void> {
            const auto type = type_of(fd, entry, here);
            if (!type) return fail(type.error());
            ++tree.names;
            if (*type == DT_DIR) tree.directories.push_back(here + "/" + entry.d_name);
            if (*type == DT_REG) tree.files.push_back(here + "/" + entry.d_name);
            return {};
        });
        if (!listed) return fail(listed.error());
    }
    std::sort(tree.files.begin(), tree.files.end());
    return tree;
}

Scratch::Scratch(std::string path) : path_(std::move(path)), owner_(::getpid()) {}

Result<std::unique_ptr<Scratch>> Scratch::reserve(const std::string& parent) {
    std::string path = parent + "/iobench-scratch-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
        if (errno == EROFS)
            return fail(EROFS, parent +
                                   ": is mounted read-only, and a directory is to be made there; mount it "
                                   "writable or choose another --path");
        return fail(system_error(errno, parent + ": no directory can be made in it"));
    }
    if (::rmdir(path.c_str()) != 0)
        return fail(system_error(errno, path + ": left behind, cannot be removed"));
    return std::unique_ptr<Scratch>(new Scratch(path));
}

Result<void> Scratch::make() {
    if (::mkdir(path_.c_str(), 0700) != 0) return fail(system_error(errno, path_));
    made_[0] = true;
    return {};
}

Scratch::~Scratch() {
    if (owner_ != ::getpid()) return;
    if (const auto removed = remove(); !removed)
        std::fprintf(stderr, "iobench: %s\n", removed.error().message.c_str());
}

Result<void> Scratch::remove() {
    if (!made_[0]) return {};
    std::error_code error;
    std::filesystem::remove_all(path_, error);  // follows no symbolic link
    if (error) return fail(error.value(), path_ + ": left behind, cannot be removed: " + error.message());
    made_[0] = false;
    return {};
}

}  // namespace tierfs::iobench
