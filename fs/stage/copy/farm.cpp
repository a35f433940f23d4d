#include "fs/stage/copy/farm.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "config/base/json_text.hpp"
#include "fs/stage/copy/destination.hpp"
#include "fs/stage/copy/held_folder.hpp"

namespace tierfs::stage {

namespace {

/// The target of a link; empty: it is none.
std::string target_of(int folder, const std::string& name) {
    std::array<char, 4097> target{};
    const ssize_t length = ::readlinkat(folder, name.c_str(), target.data(), target.size() - 1);
    return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

Result<void> link_into_farm(const std::string& farm, const std::string& path,
                            const std::string& destination) {
    const auto root = HeldFolder::open(farm, true);
    if (!root) return fail(root.error());
    bool made = false;
    const auto parent = open_parent(root->fd.get(), path, true, made);
    if (!parent) return fail(parent.error());
    const std::string name = name_in_parent(path);
    const std::string target = destination + "/" + path;
    if (::symlinkat(target.c_str(), parent->get(), name.c_str()) == 0) return {};
    if (errno != EEXIST) return fail(system_error(errno, farm + "/" + printable(path)));
    const std::string old = target_of(parent->get(), name);
    if (old == target) return {};
    if (!old.ends_with("/" + path))
        return fail(EEXIST, farm + "/" + printable(path) + " is in the way: no link of a farm");
    const std::string beside = "." + name.substr(0, 200) + ".tierfs-stage-link";
    static_cast<void>(::unlinkat(parent->get(), beside.c_str(), 0));
    if (::symlinkat(target.c_str(), parent->get(), beside.c_str()) != 0 ||
        ::renameat(parent->get(), beside.c_str(), parent->get(), name.c_str()) != 0)
        return fail(system_error(errno, farm + "/" + printable(path)));
    return {};
}

Result<void> unlink_from_farm(const std::string& farm, const std::string& path) {
    const auto root = HeldFolder::open(farm, true);
    if (!root) return fail(root.error());
    bool made = false;
    const auto parent = open_parent(root->fd.get(), path, false, made);
    if (!parent) return {};
    if (!target_of(parent->get(), name_in_parent(path)).ends_with("/" + path)) return {};
    return remove_below(root->fd.get(), path);
}

}  // namespace tierfs::stage
