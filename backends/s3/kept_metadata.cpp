#include "backends/s3/kept_metadata.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace tierfs::s3 {

namespace {

constexpr std::size_t kSample = 3;   // objects of the root that are asked for a sign
constexpr std::size_t kAtOnce = 64;  // HEADs
constexpr std::size_t kMostAsked = 1U << 16;

std::string below(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "/" + name;
}

}  // namespace

Attributes KeptMetadata::attributes_of(const Facts& facts) {
    Attributes attributes;
    const auto mode = facts.metadata.mode;
    attributes.kind = S_ISDIR(mode)   ? ObjectKind::directory
                      : S_ISLNK(mode) ? ObjectKind::symlink
                                      : ObjectKind::file;
    attributes.mode = mode & 07777U;
    attributes.uid = facts.metadata.uid;
    attributes.gid = facts.metadata.gid;
    attributes.mtime_ns = facts.metadata.mtime_ns;
    attributes.ctime_ns = facts.metadata.ctime_ns;
    if (attributes.kind == ObjectKind::directory) return attributes;
    attributes.size = facts.size;
    attributes.archived = facts.archived;
    attributes.version = facts.version;
    return attributes;
}

Attributes KeptMetadata::of_directory(const std::string& path) {
    const auto marker = calls_.head(marker_of(path));
    return marker ? attributes_of(*marker) : directory_attributes(calls_.ownership());
}

bool KeptMetadata::has_sign(const std::string& path, const Listing& listing, const ListPage& page) {
    if (!path.empty() || calls_.has_prefix()) {
        const auto marker = marker_of(path);
        const bool is_there =
            std::any_of(listing.objects.begin(), listing.objects.end(),
                        [&](const auto& object) { return object.key == calls_.key(marker); });
        const auto own = is_there ? calls_.head(marker) : Result<Facts>(Facts());
        if (!path.empty() || (own && own->keeps_mode)) return own && own->keeps_mode;
    }
    // A root, which nobody has made: a prefix need not have an object of its own.
    std::size_t asked = 0;
    for (const auto& entry : page.entries) {
        if (asked++ == kSample) break;
        const bool is_directory = entry.attributes.kind == ObjectKind::directory;
        const auto found = calls_.head(is_directory ? marker_of(entry.name) : entry.name);
        if (found && found->keeps_mode) return true;
    }
    return false;
}

bool KeptMetadata::wants(const std::string& path, const std::string& token, const Listing& listing,
                         const ListPage& page) {
    if (when_ == "always") return true;
    bool found = false;
    if (token.empty()) {
        found = has_sign(path, listing, page);
    } else {
        const MutexLock lock(mutex_);
        found = asked_.contains(path);
    }
    const MutexLock lock(mutex_);
    if (listing.next_token.empty() || !found) {
        asked_.erase(path);
    } else {
        if (asked_.size() >= kMostAsked) asked_.clear();
        asked_.insert(path);
    }
    return found;
}

void KeptMetadata::add(const std::string& path, const std::string& token, const Listing& listing,
                       ListPage& page) {
    if (!is_shown() || !wants(path, token, listing, page)) return;
    Together together(kAtOnce);
    for (auto& entry : page.entries) {
        if (!together.begin()) break;
        const auto name = below(path, entry.name);
        const bool is_directory = entry.attributes.kind == ObjectKind::directory;
        calls_.head(is_directory ? marker_of(name) : name, [&together, &entry](Result<Facts> found) {
            if (found) entry.attributes = attributes_of(*found);
            together.end({});
        });
    }
    (void)together.wait();
}

Result<std::string> KeptMetadata::read_link(const std::string& path) {
    const auto found = calls_.head(path);
    if (!found) return fail(found.error());
    if (!S_ISLNK(found->metadata.mode) || found->size == 0 || found->size >= PATH_MAX)
        return fail(EINVAL, path + ": no symbolic link");
    std::string target(found->size, '\0');
    auto read = calls_.read(path, found->version, 0, std::as_writable_bytes(std::span(target)));
    if (!read) return fail(std::move(read.error()));
    return target;
}

}  // namespace tierfs::s3
