// What makes, removes and renames.
#include <fcntl.h>
#include <stdio.h>

#include <random>

#include "backends/nfs/posix_export.hpp"
#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

std::string random_bytes(std::size_t size) {
    std::random_device device;
    std::string bytes;
    while (bytes.size() < size) bytes += static_cast<char>(device());
    return bytes;
}

std::string hidden_name() {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string name = ".nfs-tierfs-";
    for (const char byte : random_bytes(12)) {
        name += kDigits[static_cast<unsigned char>(byte) >> 4U];
        name += kDigits[static_cast<unsigned char>(byte) & 15U];
    }
    return name;
}

bool is_refusal(std::uint32_t status) {
    return status == kNoAccess || status == kNotOwner;
}

/// Nobody knows whether it was done.
bool is_no_answer(const Error& error) {
    return error.code == ETIMEDOUT || error.code == EIO;
}

tl::unexpected<Error> refused(const char* what, std::uint32_t status) {
    return fail(to_posix_errno(status), std::string(what) + ": " + status_name(status));
}

}  // namespace

Result<PosixExport::Made> PosixExport::make(Call call, const char* what, const Handle& directory,
                                            const std::string& name, const Caller& caller) {
    Made made;
    // Whoever is asked as somebody else than root is to make everything.
    const bool as_caller = uid_ == 0 && caller.uid != 0;
    if (as_caller) made.credential = auth_sys("tierfs", caller.uid, caller.gid, {});
    call.credential = made.credential;
    auto asked = ask(call, what, read_made);
    if (as_caller && asked && is_refusal(asked->reply.status)) {
        made = {{}, true, {}};
        call.credential.clear();
        asked = ask(call, what, read_made);
    }
    if (as_caller && asked && is_refusal(asked->reply.status)) {
        // Root is taken for nobody. The directory's group may be one of the caller's, as the kernel has it.
        const auto parent = attributes_of(directory);
        if (!parent) return fail(parent.error());
        made.is_given_away = false;
        made.credential = auth_sys("tierfs", caller.uid, caller.gid, {parent->status.st_gid});
        call.credential = made.credential;
        asked = ask(std::move(call), what, read_made);
    }
    if (!asked) return fail(asked.error());
    const auto status = asked->reply.status;
    if (status != kOk && !(status == kExists && asked->sent > 1)) return refused(what, status);
    made.handle = std::move(asked->reply.handle);
    if (made.handle.empty()) {
        auto found = find(directory, name);
        if (!found) return fail(found.error());
        made.handle = std::move(found->handle);
    }
    if (!made.credential.empty()) client_.squash().remember(made.handle, made.credential);
    return made;
}

Result<void> PosixExport::take_name(Call call, const char* what, const Handle& directory,
                                    const std::string& name) {
    const auto done = ask_of_name(std::move(call), what, directory, name);
    if (!done) return fail(done.error());
    if (done->reply == kOk) return {};
    return refused(what, done->reply);
}

Result<PosixExport::Asked<std::uint32_t>> PosixExport::ask_of_name(Call call, const char* what,
                                                                   const Handle& directory,
                                                                   const std::string& name) {
    auto asked = ask(call, what, read_status);
    if (uid_ != 0 || !asked || !is_refusal(asked->reply)) return asked;
    const auto file = find(directory, name);
    if (!file) return asked;
    call.owned_by = {file->handle};
    return ask(std::move(call), what, read_status);
}

Result<SetAttributes> PosixExport::owner(const Handle& directory, const Caller& caller) {
    const auto parent = attributes_of(directory);
    if (!parent) return fail(parent.error());
    SetAttributes owner;
    owner.uid = caller.uid;
    if ((parent->status.st_mode & S_ISGID) == 0) owner.gid = caller.gid;
    return owner;
}

Result<PosixCreated> PosixExport::create(const PosixNode& directory, const std::string& name, int flags,
                                         mode_t mode, const Caller& caller) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    HalfMade::File half{*parent, name, random_bytes(8), {}, {}};
    half.wanted.mode = mode & ~caller.umask & 07777U;
    // The server may have put the verifier there.
    half.wanted.access = half.wanted.modification = timespec{0, UTIME_NOW};
    if (uid_ == 0 && caller.uid != 0) half.credential = auth_sys("tierfs", caller.uid, caller.gid, {});
    auto made = make(call(kCreate, exclusive_create_arguments(*parent, name, half.verifier)), "CREATE",
                     *parent, name, caller);
    if (!made) {
        if (is_no_answer(made.error())) half_made_.finish(std::move(half));
        // Nobody has checked whether the caller may open what is there: the kernel is to look again.
        if (made.error().code == EEXIST && (flags & O_EXCL) == 0) made.error().code = ESTALE;
        return fail(std::move(made.error()));
    }
    half.credential = made->credential;
    if (made->is_given_away) {
        auto given = owner(*parent, caller);
        if (!given) {
            if (is_no_answer(given.error())) half_made_.finish(std::move(half));
            return fail(given.error());
        }
        half.wanted.uid = given->uid;
        half.wanted.gid = given->gid;
    }
    auto set = call(kSetattr, setattr_arguments(made->handle, half.wanted));
    set.credential = made->credential;
    if (auto done = act(std::move(set), "SETATTR"); !done) {
        if (is_no_answer(done.error())) half_made_.finish(std::move(half));
        return fail(std::move(done.error()));
    }
    auto attributes = attributes_of(made->handle);
    if (!attributes) return fail(std::move(attributes.error()));
    auto file = make_file(made->handle, flags);
    open_files_.note_mode(made->handle, attributes->status.st_mode);
    return PosixCreated{std::move(file), std::move(*attributes), node_of(made->handle)};
}

Result<PosixCreated> PosixExport::make_nameless(const PosixNode& directory, int flags, mode_t mode,
                                                const Caller& caller) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    const Place place{*parent, hidden_name()};
    auto made = create(directory, place.name, flags | O_EXCL, mode, caller);
    if (!made) return made;
    const auto handle = handle_of(*made->node);
    if (!handle) {
        (void)remove(directory, place.name, false);
        return fail(handle.error());
    }
    open_files_.hide(*handle, place);
    if (made->attributes.status.st_nlink > 0) --made->attributes.status.st_nlink;
    return made;
}

Result<void> PosixExport::make_and_give(Call call, const char* what, const PosixNode& directory,
                                        const std::string& name, mode_t mode, const Caller& caller) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    const auto made = make(std::move(call), what, *parent, name, caller);
    if (!made) return fail(made.error());
    if (!made->is_given_away) return {};
    auto wanted = owner(*parent, caller);
    if (!wanted) return fail(wanted.error());
    if (!S_ISLNK(mode)) wanted->mode = mode & ~caller.umask & 07777U;  // changing the owner takes bits away
    return set_attributes(made->handle, *wanted);
}

Result<void> PosixExport::make_directory(const PosixNode& directory, const std::string& name, mode_t mode,
                                         const Caller& caller) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    return make_and_give(
        call(kMkdir, mkdir_arguments(*parent, name, {.mode = mode & ~caller.umask & 07777U})), "MKDIR",
        directory, name, mode, caller);
}

Result<void> PosixExport::make_node(const PosixNode& directory, const std::string& name, mode_t mode,
                                    dev_t device, const Caller& caller) {
    if (S_ISREG(mode)) {
        auto made = create(directory, name, O_EXCL | O_RDONLY, mode, caller);
        if (!made) return fail(std::move(made.error()));
        return {};
    }
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    const SetAttributes attributes{.mode = mode & ~caller.umask & 07777U};
    return make_and_give(call(kMknod, mknod_arguments(*parent, name, mode, device, attributes)), "MKNOD",
                         directory, name, mode, caller);
}

Result<void> PosixExport::make_link(const PosixNode& directory, const std::string& name,
                                    const std::string& target, const Caller& caller) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    return make_and_give(call(kSymlink, symlink_arguments(*parent, name, {.mode = 0777}, target)), "SYMLINK",
                         directory, name, S_IFLNK, caller);
}

Call PosixExport::link(const Handle& file, const Handle& directory, const std::string& name) const {
    auto made = call(kLink, link_arguments(file, directory, name));
    made.owned_by = {directory, file};
    return made;
}

Result<void> PosixExport::add_name(const PosixNode& node, const PosixNode& directory,
                                   const std::string& name) {
    const auto handle = handle_of(node), parent = handle_of(directory);
    if (!handle || !parent) return fail((handle ? parent : handle).error());
    const auto linked = ask(link(*handle, *parent, name), "LINK", read_status);
    if (!linked) return fail(linked.error());
    if (linked->reply == kOk) return {};
    if (linked->reply == kExists && linked->sent > 1) {
        const auto there = find(*parent, name);
        if (there && there->handle == *handle) return {};
    }
    return refused("LINK", linked->reply);
}

Result<bool> PosixExport::keep_if_open(const Handle& directory, const std::string& name,
                                       const StatReply& file, bool by_link) {
    const bool may_go =
        file.attributes && (file.attributes->st_nlink > 1 || !S_ISREG(file.attributes->st_mode));
    if (may_go || !open_files_.is_open(file.handle) || open_files_.is_hidden(file.handle)) return false;
    const Place place{directory, hidden_name()};
    auto kept =
        by_link ? act(link(file.handle, directory, place.name), "LINK") : Result<void>(fail(EOPNOTSUPP, ""));
    // Without links there is a moment in which the name is free.
    if (!kept && (kept.error().code == EOPNOTSUPP || kept.error().code == EPERM))
        kept = take_name(call(kRename, rename_arguments(directory, name, directory, place.name)), "RENAME",
                         directory, name);
    if (!kept) return fail(std::move(kept.error()));
    // RENAME takes what has the name by then: perhaps a file of another host.
    const auto hidden = by_link ? Result<StatReply>(file) : find(directory, place.name);
    if (!hidden) return true;
    open_files_.hide(hidden->handle, place);
    if (!open_files_.is_open(hidden->handle))  // closed meanwhile, or never open
        (void)take_name(call(kRemove, name_arguments(directory, place.name)), "REMOVE", directory,
                        place.name);
    return true;
}

Result<void> PosixExport::remove(const PosixNode& directory, const std::string& name, bool is_directory) {
    const auto parent = handle_of(directory);
    if (!parent) return fail(parent.error());
    std::optional<OpenFiles::Leaving> leaving;
    EntryMemory::Marks changed;
    if (!is_directory) {
        const auto file = find(*parent, name);
        if (!file) return fail(file.error());
        leaving.emplace(open_files_, file->handle);
        const auto kept = keep_if_open(*parent, name, *file, false);
        if (!kept) return fail(kept.error());
        if (*kept) return {};
        changed.push_back(EntryMemory::mark_of(file->handle));  // other names of it
    }
    const auto* const what = is_directory ? "RMDIR" : "REMOVE";
    const auto removed = ask_of_name(call(is_directory ? kRmdir : kRemove, name_arguments(*parent, name)),
                                     what, *parent, name);
    entries_.note(changed);
    if (!removed) return fail(removed.error());
    if (removed->reply == kOk || (removed->reply == kNoEntry && removed->sent > 1)) return {};
    return refused(what, removed->reply);
}

/// RENAME_NOREPLACE: LINK does not replace, and directories are replaced only while they are empty.
Result<void> PosixExport::rename_new(const Handle& from, const std::string& name, const StatReply& file,
                                     const Handle& to, const std::string& new_name) {
    if (find(to, new_name)) return fail(EEXIST, "RENAME");
    const bool is_directory = file.attributes && S_ISDIR(file.attributes->st_mode);
    if (!is_directory) {
        auto linked = act(link(file.handle, to, new_name), "LINK");
        if (linked) return take_name(call(kRemove, name_arguments(from, name)), "REMOVE", from, name);
        if (linked.error().code != EOPNOTSUPP) return linked;
    }
    return take_name(call(kRename, rename_arguments(from, name, to, new_name)), "RENAME", from, name);
}

// Another host may give the name away between each two requests: then there is nothing to keep of what was
// found, but perhaps of what is there now.
Result<void> PosixExport::keep_replaced(const Handle& source, const std::string& name, const Handle& target,
                                        const std::string& new_name,
                                        std::optional<OpenFiles::Leaving>& leaving,
                                        EntryMemory::Marks& changed) {
    constexpr int kAttempts = 8;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const auto replaced = find(target, new_name);
        if (!replaced) return {};
        const auto moved = find(source, name);
        if (!moved || moved->handle == replaced->handle) return {};
        leaving.emplace(open_files_, replaced->handle);
        changed.push_back(EntryMemory::mark_of(replaced->handle));
        auto kept = keep_if_open(target, new_name, *replaced, true);
        if (kept) return {};
        if (kept.error().code != ENOENT && kept.error().code != ESTALE) return fail(std::move(kept.error()));
    }
    return {};
}

Result<void> PosixExport::rename(const PosixNode& from, const std::string& name, const PosixNode& to,
                                 const std::string& new_name, unsigned flags) {
    const auto source = handle_of(from), target = handle_of(to);
    if (!source || !target) return fail((source ? target : source).error());
    if ((flags & ~static_cast<unsigned>(RENAME_NOREPLACE)) != 0)
        return fail(EINVAL, "NFSv3 cannot exchange names");
    if ((flags & RENAME_NOREPLACE) != 0) {
        const auto file = find(*source, name);
        if (!file) return fail(file.error());
        return rename_new(*source, name, *file, *target, new_name);
    }
    std::optional<OpenFiles::Leaving> leaving;
    EntryMemory::Marks changed;
    if (auto kept = keep_replaced(*source, name, *target, new_name, leaving, changed); !kept)
        return fail(std::move(kept.error()));
    const auto renamed = ask_of_name(call(kRename, rename_arguments(*source, name, *target, new_name)),
                                     "RENAME", *source, name);
    entries_.note(changed);
    if (!renamed) return fail(renamed.error());
    if (renamed->reply == kOk) return {};
    if (renamed->reply == kNoEntry && renamed->sent > 1 && !find(*source, name) && find(*target, new_name))
        return {};
    return refused("RENAME", renamed->reply);
}

}  // namespace tierfs::nfs
