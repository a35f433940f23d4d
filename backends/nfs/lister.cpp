#include "backends/nfs/lister.hpp"

#include <algorithm>

#include "backends/nfs/waiting.hpp"
#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr std::size_t kNamesPerPage = 4096;
constexpr std::uint32_t kReplyBytes = 256 << 10, kNameBytes = 64 << 10;
constexpr unsigned kMostListings = 3;
/// More than any directory has: a server that gives one name after the other for ever is left.
constexpr std::uint64_t kMostNames = std::uint64_t{1} << 28;
/// LOOKUPs at a time for the names of one directory.
constexpr std::size_t kLookUps = 256;

/// "." and "..", and what no name can be.
bool is_left_out(const std::string& name) {
    return name.empty() || name == "." || name == ".." || name.size() > 255 ||
           name.find_first_of(std::string_view("/\0", 2)) != std::string::npos;
}

DirectoryEntry to_entry(std::string name, FileAttributes3 file) {
    if (file.attributes.kind != ObjectKind::directory) file.attributes.version = shown_version_of(file);
    return DirectoryEntry{std::move(name), std::move(file.attributes)};
}

}  // namespace

std::optional<Lister::Listing> Lister::take(const std::string& path, const std::string& token) {
    const MutexLock lock(mutex_);
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
        if (it->path != path || it->token != token) continue;
        Listing found = std::move(*it);
        kept_.erase(it);
        return found;
    }
    return std::nullopt;
}

void Lister::keep(Listing listing) {
    const MutexLock lock(mutex_);
    kept_.push_front(std::move(listing));
    std::size_t bytes = 0;
    for (auto it = kept_.begin(); it != kept_.end();) {
        bytes += it->stretch.bytes;
        it = bytes > most_bytes_ && it != kept_.begin() ? kept_.erase(it) : std::next(it);
    }
}

Result<ListPage> Lister::list(const std::string& path, const std::string& token) {
    std::optional<Listing> listing;
    if (!token.empty()) listing = take(path, token);
    if (!listing) {
        auto made = read(path, token);
        if (!made) return fail(made.error());
        listing = std::move(*made);
    }
    ListPage page;
    auto& names = listing->stretch.names;
    const auto end = std::min(names.size(), listing->position + kNamesPerPage);
    page.entries.reserve(end - listing->position);
    for (; listing->position < end; ++listing->position) {
        auto& name = names[listing->position];
        page.next = name.name;
        page.entries.push_back(to_entry(std::move(name.name), std::move(name.file)));
    }
    page.age = Clock::now() - listing->asked;
    page.hidden = std::move(listing->hidden);
    listing->hidden.clear();
    if (end == names.size()) {
        if (listing->stretch.is_last) page.next.clear();
    } else {
        listing->token = page.next;
        keep(std::move(*listing));
    }
    return page;
}

Result<Lister::Listing> Lister::read(const std::string& path, const std::string& after) {
    for (unsigned attempt = 1;; ++attempt) {
        const Answer<Found> answer;
        const auto until = deadline();
        resolver_.directory(path, {until, Priority::demand},
                            [answer](Result<Found> found) { answer.give(std::move(found)); });
        const auto found = answer.wait(until);
        if (!found) return fail(found.error());
        auto listing = read_once(path, found->handle, after);
        if (listing || listing.error().code != ESTALE) return listing;
        resolver_.distrust(path, found->handle);
        // The directory has changed so much that the server lost its place, or it is another one now.
        if (attempt == kMostListings) return fail(EIO, listing.error().message);
    }
}

Result<Lister::Listing> Lister::read_once(const std::string& path, const Handle& directory,
                                          const std::string& after) {
    const auto asked = Clock::now();
    Reading reading{path, {after, most_bytes_}, {}};
    std::string verifier(8, '\0');
    std::uint64_t cookie = 0, count = 0;
    for (bool at_end = false; !at_end;) {
        auto page = read_page(path, directory, cookie, verifier);
        if (!page) return fail(page.error());
        at_end = page->at_end;
        if (!at_end && (page->entries.empty() || page->entries.back().cookie == cookie))
            return fail(EIO, "directory '" + path + "': the server sends a page that leads no further");
        count += page->entries.size();
        if (count > kMostNames)
            return fail(EFBIG, "directory '" + path + "': the server sends names without end");
        verifier = page->verifier;
        if (!page->entries.empty()) cookie = page->entries.back().cookie;
        if (auto added = add_all(reading, std::move(page->entries)); !added) return fail(added.error());
    }
    Listing listing;
    listing.path = path;
    listing.asked = asked;
    listing.stretch = reading.names.take();
    // Of all names that were read: told once.
    if (after.empty()) listing.hidden = std::move(reading.hidden);
    return listing;
}

Result<ReaddirplusReply> Lister::read_page(const std::string& path, const Handle& directory,
                                           std::uint64_t cookie, const std::string& verifier) {
    const bool alone = names_alone_;
    Call call;
    call.procedure = alone ? kReaddir : kReaddirplus;
    call.arguments = alone ? readdir_arguments(directory, cookie, verifier, kNameBytes)
                           : readdirplus_arguments(directory, cookie, verifier, kNameBytes, kReplyBytes);
    call.deadline = deadline();
    const std::string what = std::string(alone ? "READDIR" : "READDIRPLUS") + " of '" + path + "'";
    auto page = ask(client_, std::move(call), what, alone ? read_readdir : read_readdirplus);
    if (!page || page->status == kOk) return page;
    if (page->status == kNotSupported && !alone) {
        if (!names_alone_.exchange(true)) {
            log::info("nfs: the server has no READDIRPLUS: names come by READDIR, with a LOOKUP for each");
        }
        return read_page(path, directory, cookie, verifier);
    }
    const auto problem = what + ": " + status_name(page->status);
    if (page->status == kBadCookie || page->status == kNotSync) return fail(ESTALE, problem);
    return fail(to_errno(page->status), problem);
}

bool Lister::must_be_asked(const Reading& reading, const DirectoryEntry3& entry) {
    return !entry.status && !is_left_out(entry.name) && reading.names.wants(entry.name);
}

std::vector<Result<Found>> Lister::look_up(const Reading& reading, std::span<const DirectoryEntry3> entries) {
    std::vector<Answer<Found>> answers(entries.size());
    const auto until = deadline();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!must_be_asked(reading, entries[i])) continue;
        const auto path = reading.path.empty() ? entries[i].name : reading.path + "/" + entries[i].name;
        resolver_.look_up(path, {until, Priority::demand},
                          [answer = answers[i]](Result<Found> found) { answer.give(std::move(found)); });
    }
    std::vector<Result<Found>> found;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const bool is_asked = must_be_asked(reading, entries[i]);
        found.push_back(is_asked ? answers[i].wait(until) : Result<Found>(Found{}));
    }
    return found;
}

Result<void> Lister::add_all(Reading& reading, std::vector<DirectoryEntry3> entries) {
    for (std::size_t begin = 0; begin < entries.size(); begin += kLookUps) {
        const auto some = std::span(entries).subspan(begin, std::min(kLookUps, entries.size() - begin));
        const auto found = look_up(reading, some);
        for (std::size_t i = 0; i < some.size(); ++i) {
            if (auto added = add(reading, std::move(some[i]), found[i]); !added) return added;
        }
    }
    return {};
}

Result<void> Lister::add(Reading& reading, DirectoryEntry3 entry, const Result<Found>& found) {
    if (entry.name == "." || entry.name == "..") return {};
    if (is_left_out(entry.name)) {
        ++reading.hidden["impossible name"];
        return {};
    }
    if (!entry.status && !reading.names.wants(entry.name)) return {};
    const auto path = reading.path.empty() ? entry.name : reading.path + "/" + entry.name;
    if (!found) return found.error().code == ENOENT ? Result<void>() : fail(found.error());
    std::optional<FileAttributes3> file = entry.status ? to_attributes(*entry.status) : found->attributes;
    if (!file) return fail(EIO, "the server tells no attributes of '" + path + "'");
    if (!entry.handle.empty()) handles_.put(path, entry.handle);
    if (file->is_special) {
        ++reading.hidden["socket, pipe or device"];
        return {};
    }
    const auto bytes = 2 * sizeof(Name) + entry.name.size();
    reading.names.add(Name{std::move(entry.name), std::move(*file)}, bytes);
    return {};
}

}  // namespace tierfs::nfs
