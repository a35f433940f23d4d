#include "fs/stage/copy/destination.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <filesystem>

#include "backends/dir/beneath.hpp"
#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"
#include "config/base/time.hpp"
#include "fs/stage/copy/held_folder.hpp"

namespace tierfs::stage {

namespace {

constexpr std::string_view kPartFolders = "0123456789abcdef";

}  // namespace

std::string part_name(const std::string& path, const std::string& source, const std::string& version) {
    std::string text = path;
    text.append(1, '\0').append(source).append(1, '\0').append(version);
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    const std::string hex = to_hex(hash.high64, 16) + to_hex(hash.low64, 16);
    return hex.substr(0, 1) + "/" + hex + ".part";
}

std::string name_in_parent(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

Result<FileDescriptor> open_parent(int root, const std::string& path, bool create, bool& made) {
    constexpr int kFlags = O_RDONLY | O_DIRECTORY;
    const auto slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
    auto opened = open_beneath(root, parent, kFlags);
    if (opened || !create || opened.error().code != ENOENT || parent.empty()) return opened;
    auto above = open_parent(root, parent, true, made);
    if (!above) return above;
    if (::mkdirat(above->get(), name_in_parent(parent).c_str(), 0755) == 0) {
        made = true;
    } else if (errno != EEXIST) {
        return fail(system_error(errno, "folder '" + printable(parent) + "'"));
    }
    opened = open_beneath(root, parent, kFlags);
    if (!opened && opened.error().code == ENOENT)
        return fail(ENOTDIR, "'" + printable(parent) + "' is in the way: it is a symbolic link");
    return opened;
}

Result<void> remove_below(int root, const std::string& path) {
    bool made = false;
    std::string name = path;
    for (bool first = true; !name.empty(); first = false) {
        const auto parent = open_parent(root, name, false, made);
        if (!parent) return first ? fail(parent.error()) : Result<void>();
        if (::unlinkat(parent->get(), name_in_parent(name).c_str(), first ? 0 : AT_REMOVEDIR) != 0)
            return first && errno != ENOENT ? fail(system_error(errno, printable(name))) : Result<void>();
        const auto slash = name.rfind('/');
        name = slash == std::string::npos ? "" : name.substr(0, slash);
    }
    return {};
}

Result<Destination> Destination::open(const std::string& path, const Options& options, const StopFlag& stop) {
    Destination destination;
    auto held = HeldFolder::open(path, options.create);
    if (!held && options.peek && held.error().code == ENOENT) {
        // For the room that there is, the next folder above.
        std::error_code error;
        destination.exists_ = false;
        destination.path_ = std::filesystem::absolute(path, error).lexically_normal().string();
        auto above = std::filesystem::path(destination.path_);
        while (!held && held.error().code == ENOENT && above.has_relative_path()) {
            above = above.parent_path();
            held = HeldFolder::open(above.string());
        }
    } else if (held) {
        destination.path_ = held->path;
    }
    if (!held) return fail(held.error());
    destination.shard_ = options.shard;
    destination.root_ = std::move(held->fd);
    auto facts = file_system_of(destination.root_.get());
    if (!facts) return fail(facts.error().within(path));
    destination.facts_ = std::move(*facts);
    if (!destination.exists_) {
        destination.manifest_.header.source = options.source;
        return destination;
    }
    if (auto opened = destination.open_books(options, stop); !opened) return fail(opened.error());
    if (auto loaded = destination.load(options); !loaded) return fail(loaded.error());
    return destination;
}

Result<void> Destination::open_books(const Options& options, const StopFlag& stop) {
    auto books = BookFolder::open(root_.get(), path_, kBooks, options.create ? 0755 : 0);
    if (!books && books.error().code != ENOENT) return fail(books.error());
    if (books) books_ = std::move(*books);
    if (!options.create && !options.peek) {
        if (!books_) return fail(ENOENT, path_ + ": nothing is staged here");
        if (const auto there = books_->status(kManifest); !there) {
            return there.error().code == ENOENT ? fail(ENOENT, path_ + ": nothing is staged here")
                                                : fail(there.error());
        }
    }
    if (options.lock) {
        auto lock = FolderLock::take(*books_, options.shard, options.wait, stop);
        if (!lock) return fail(lock.error());
        lock_ = std::move(*lock);
    }
    return books_ ? open_parts(options.create) : Result<void>();
}

Result<void> Destination::open_parts(bool make) {
    const mode_t mode = make ? 0755 : 0;
    const auto parts = BookFolder::open(books_->fd(), books_->path(), "parts", mode);
    if (!parts) return make ? fail(parts.error()) : Result<void>();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        auto folder = BookFolder::open(parts->fd(), parts->path(), std::string(1, kPartFolders[i]), mode);
        if (!folder && make) return fail(folder.error());
        if (folder) parts_[i].reset(folder->release());
    }
    return {};
}

PartPlace Destination::place_of(const std::string& part) const {
    const auto number = part.size() > 2 && part[1] == '/' ? kPartFolders.find(part[0]) : std::string::npos;
    if (number == std::string::npos || part.find('/', 2) != std::string::npos) return {};
    return {parts_.at(number).get(), part.substr(2)};
}

Result<void> Destination::load(const Options& options) {
    manifest_.header.source = options.source;
    if (!books_) return {};
    auto manifest = Manifest::load(*books_, kManifest);
    if (manifest) {
        manifest_ = std::move(*manifest);
    } else if (manifest.error().code != ENOENT) {
        return fail(manifest.error().code,
                    manifest.error().message +
                        " (move the manifest away to begin anew: --overwrite then replaces what is there)");
    }
    // A whole run takes up what shards left.
    for (const auto& name : journals()) {
        if (auto loaded = found_.load(*books_, name); !loaded) {
            return fail(loaded.error().code, "the journal cannot be read: " + loaded.error().message +
                                                 " (remove it: unfinished files are then copied anew)");
        }
    }
    return {};
}

std::string Destination::journal_name() const {
    return "journal" + shard_.suffix() + ".jsonl";
}

std::vector<std::string> Destination::journals() const {
    auto names = books_->names();
    std::erase_if(names, [&](const std::string& name) {
        const bool is_one = name.starts_with("journal") && name.ends_with(".jsonl");
        return !(shard_.is_whole() ? is_one : name == journal_name());
    });
    return names;
}

const ManifestRecord* Destination::record_of(const std::string& path) const {
    const auto found = manifest_.records.find(path);
    return found == manifest_.records.end() ? nullptr : &found->second;
}

FinalState Destination::state_of(const std::string& path) const {
    return state_of(path, record_of(path));
}

FinalState Destination::state_of(const std::string& path, const ManifestRecord* record) const {
    if (!exists_) return FinalState::absent;
    bool made = false;
    const auto parent = open_parent(root_.get(), path, false, made);
    if (!parent) {
        // A file or a link where a folder should be is somebody's; the absence of a folder is not.
        std::string above = path;
        for (auto slash = above.rfind('/'); slash != std::string::npos; slash = above.rfind('/')) {
            above.resize(slash);
            struct stat status {};
            if (::fstatat(root_.get(), above.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
                return S_ISDIR(status.st_mode) ? FinalState::absent : FinalState::foreign;
        }
        return FinalState::absent;
    }
    struct stat status {};
    const std::string name = name_in_parent(path);
    if (::fstatat(parent->get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? FinalState::absent : FinalState::foreign;
    if (record == nullptr) return FinalState::foreign;
    if (!record->link.empty()) {
        std::array<char, 4097> target{};
        const ssize_t length = ::readlinkat(parent->get(), name.c_str(), target.data(), target.size() - 1);
        return length >= 0 && record->link == target.data() ? FinalState::staged : FinalState::changed;
    }
    const bool same = S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) == record->size &&
                      to_ns(status.st_mtim) == record->mtime_ns;
    return same ? FinalState::staged : FinalState::changed;
}

void Destination::remove_strange_parts() const {
    if (!shard_.is_whole()) return;  // they may be another shard's
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        for (const auto& name : names_below(parts_[i].get())) {
            const auto part = std::string(1, kPartFolders[i]) + "/" + name;
            if (!found_.parts.contains(part) && !found_.whole.contains(part)) remove_part(part);
        }
    }
}

void Destination::remove_part(const std::string& part) const {
    const auto [folder, name] = place_of(part);
    static_cast<void>(::unlinkat(folder, name.c_str(), 0));
}

void Destination::remove_journals() const {
    for (const auto& name : journals()) static_cast<void>(books_->remove(name));
}

void Destination::note_use(const std::string& last_run) const {
    if (const auto used = books_->book("last-used", O_WRONLY | O_CREAT))
        static_cast<void>(::futimens(used->get(), nullptr));
    if (last_run.empty()) return;
    if (const auto figures = books_->book("last-run.json", O_WRONLY | O_CREAT | O_TRUNC))
        static_cast<void>(write_all(figures->get(), last_run + "\n"));
}

}  // namespace tierfs::stage
