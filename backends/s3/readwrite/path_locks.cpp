#include "backends/s3/readwrite/path_locks.hpp"

#include <algorithm>
#include <utility>

namespace tierfs::s3 {

namespace {

bool is_below(const std::string& path, const std::string& tree) {
    return tree.empty() || (path.size() > tree.size() && path.starts_with(tree) && path[tree.size()] == '/');
}

}  // namespace

bool PathLocks::collide(const Path& one, const Path& other) {
    return one.path == other.path || (one.is_tree && is_below(other.path, one.path)) ||
           (other.is_tree && is_below(one.path, other.path));
}

bool PathLocks::is_free(const std::vector<Path>& paths) const {
    return std::none_of(held_.begin(), held_.end(), [&](const std::vector<Path>* others) {
        return std::any_of(others->begin(), others->end(), [&](const Path& other) {
            return std::any_of(paths.begin(), paths.end(),
                               [&](const Path& path) { return collide(path, other); });
        });
    });
}

PathLocks::Held::Held(PathLocks& locks, std::vector<Path> paths) : locks_(locks), paths_(std::move(paths)) {
    MutexLock lock(locks_.mutex_);
    while (!locks_.is_free(paths_)) lock.wait(locks_.freed_);
    locks_.held_.push_back(&paths_);
}

PathLocks::Held::Held(PathLocks& locks, std::vector<Path> paths, bool& is_held)
    : locks_(locks), paths_(std::move(paths)) {
    const MutexLock lock(locks_.mutex_);
    is_held = locks_.is_free(paths_);
    if (is_held) locks_.held_.push_back(&paths_);
}

PathLocks::Held::~Held() {
    const MutexLock lock(locks_.mutex_);
    std::erase(locks_.held_, &paths_);
    locks_.freed_.notify_all();
}

}  // namespace tierfs::s3
