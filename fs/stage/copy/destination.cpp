#include "fs/stage/copy/destination.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "backends/dir/beneath.hpp"
#include "config/base/hex.hpp"
#include "config/base/json_text.hpp"
#include "config/base/time.hpp"

namespace tierfs::stage {

namespace {

constexpr std::string_view kPartFolders = "0123456789abcdef";

Result<void> make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
    return fail(system_error(errno, path));
}

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
    std::error_code error;
    if (options.create) std::filesystem::create_directories(path, error);
    if (error) return fail(error.value(), path + ": " + error.message());
    auto real = std::filesystem::canonical(path, error);
    if (error && options.peek) {
        destination.exists_ = false;
        destination.path_ = std::filesystem::absolute(path).lexically_normal().string();
        real = destination.path_;
        while (::access(real.c_str(), F_OK) != 0 && real.has_relative_path()) real = real.parent_path();
        error.clear();
    } else {
        destination.path_ = real.string();
    }
    if (error) return fail(error.value(), path + ": " + error.message());
    destination.shard_ = options.shard;
    destination.root_.reset(::open(real.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!destination.root_) return fail(system_error(errno, path));
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
    struct stat status {};
    if (::lstat(books().c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
        return fail(ENOTDIR, books() + ": it is in the way: not a folder");
    if (options.create) {
        if (auto made = make_folder(books()); !made) return made;
        if (auto made = make_folder(books() + "/parts"); !made) return made;
        for (const char name : kPartFolders)
            if (auto made = make_folder(books() + "/parts/" + name); !made) return made;
    } else if (!options.peek && ::access(manifest_path().c_str(), F_OK) != 0) {
        return errno == ENOENT ? fail(ENOENT, path_ + ": nothing is staged here")
                               : fail(system_error(errno, manifest_path()));
    }
    if (options.lock) {
        auto lock = FolderLock::take(books(), options.shard, options.wait, stop);
        if (!lock) return fail(lock.error());
        lock_ = std::move(*lock);
    }
    parts_.reset(::open((books() + "/parts").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    return {};
}

Result<void> Destination::load(const Options& options) {
    auto manifest = Manifest::load(manifest_path());
    if (manifest) {
        manifest_ = std::move(*manifest);
    } else if (manifest.error().code == ENOENT) {
        manifest_.header.source = options.source;
    } else {
        return fail(manifest.error().code,
                    manifest.error().message +
                        " (move the manifest away to begin anew: --overwrite then replaces what is there)");
    }
    // A whole run takes up what shards left.
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(books(), error)) {
        const std::string name = entry.path().filename().string();
        const bool own = options.shard.is_whole() ? name.starts_with("journal") && name.ends_with(".jsonl")
                                                  : books() + "/" + name == journal_path();
        if (!own) continue;
        if (auto loaded = found_.load(entry.path().string()); !loaded) {
            return fail(loaded.error().code, "the journal cannot be read: " + loaded.error().message +
                                                 " (remove it: unfinished files are then copied anew)");
        }
    }
    return {};
}

std::string Destination::journal_path() const {
    return books() + "/journal" + shard_.suffix() + ".jsonl";
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
    std::error_code error;
    for (const char folder : kPartFolders) {
        for (const auto& entry : std::filesystem::directory_iterator(books() + "/parts/" + folder, error)) {
            const std::string name = std::string(1, folder) + "/" + entry.path().filename().string();
            if (!found_.parts.contains(name) && !found_.whole.contains(name))
                static_cast<void>(::unlinkat(parts_.get(), name.c_str(), 0));
        }
    }
}

void Destination::remove_journals() const {
    std::error_code error;
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(books(), error)) {
        std::string name = entry.path().filename().string();
        if (name.starts_with("journal") && name.ends_with(".jsonl")) names.push_back(std::move(name));
    }
    for (const auto& name : names)
        if (shard_.is_whole() || books() + "/" + name == journal_path())
            static_cast<void>(::unlink((books() + "/" + name).c_str()));
}

void Destination::note_use(const std::string& last_run) const {
    const FileDescriptor used(
        ::open((books() + "/last-used").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (used) static_cast<void>(::futimens(used.get(), nullptr));
    if (last_run.empty()) return;
    std::ofstream(books() + "/last-run.json", std::ios::trunc) << last_run << "\n";
}

}  // namespace tierfs::stage
