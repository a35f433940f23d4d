#include "backends/nfs/lister.hpp"

#include <algorithm>

#include "backends/nfs/waiting.hpp"
#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr std::size_t kNamesPerPage = 4096, kKeptListings = 8;
constexpr std::uint32_t kReplyBytes = 256 << 10, kNameBytes = 64 << 10;
constexpr unsigned kMostListings = 3;
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
    std::size_t bytes = 0, count = 0;
    for (auto it = kept_.begin(); it != kept_.end();) {
        bytes += it->bytes;
        it = ++count > kKeptListings || bytes > most_bytes_ ? kept_.erase(it) : std::next(it);
    }
}

Result<ListPage> Lister::list(const std::string& path, const std::string& token) {
    std::optional<Listing> listing;
    if (!token.empty()) listing = take(path, token);
    if (!listing) {
        auto made = read(path);
        if (!made) return fail(made.error());
        listing = std::move(*made);
        const auto from =
            std::upper_bound(listing->names.begin(), listing->names.end(), token,
                             [](const auto& text, const Name& name) { return text < name.name; });
        listing->position = token.empty() ? 0 : static_cast<std::size_t>(from - listing->names.begin());
    }
    ListPage page;
    const auto end = std::min(listing->names.size(), listing->position + kNamesPerPage);
    page.entries.reserve(end - listing->position);
    for (; listing->position < end; ++listing->position) {
        auto& name = listing->names[listing->position];
        page.next = name.name;
        page.entries.push_back(to_entry(std::move(name.name), std::move(name.file)));
    }
    page.hidden = std::move(listing->hidden);
    listing->hidden.clear();
    if (end == listing->names.size()) {
        page.next.clear();
    } else {
        listing->token = page.next;
        keep(std::move(*listing));
    }
    return page;
}

Result<Lister::Listing> Lister::read(const std::string& path) {
    for (unsigned attempt = 1;; ++attempt) {
        const Answer<Found> answer;
        const auto until = deadline();
        resolver_.directory(path, {until, Priority::demand},
                            [answer](Result<Found> found) { answer.give(std::move(found)); });
        const auto found = answer.wait(until);
        if (!found) return fail(found.error());
        auto listing = read_once(path, found->handle);
        if (listing || listing.error().code != ESTALE) return listing;
        resolver_.distrust(path, found->handle);
        // The directory has changed so much that the server lost its place, or it is another one now.
        if (attempt == kMostListings) return fail(EIO, listing.error().message);
    }
}

Result<Lister::Listing> Lister::read_once(const std::string& path, const Handle& directory) {
    Listing listing;
    listing.path = path;
    std::string verifier(8, '\0');
    std::uint64_t cookie = 0;
    for (bool at_end = false; !at_end;) {
        auto page = read_page(path, directory, cookie, verifier);
        if (!page) return fail(page.error());
        at_end = page->at_end;
        if (!at_end && (page->entries.empty() || page->entries.back().cookie == cookie))
            return fail(EIO, "directory '" + path + "': the server sends a page that leads no further");
        verifier = page->verifier;
        if (!page->entries.empty()) cookie = page->entries.back().cookie;
        if (auto added = add_all(listing, std::move(page->entries)); !added) return fail(added.error());
    }
    std::sort(listing.names.begin(), listing.names.end(),
              [](const Name& a, const Name& b) { return a.name < b.name; });
    // Names that come and go while a server is asked page by page may come twice.
    const auto last = std::unique(listing.names.begin(), listing.names.end(),
                                  [](const Name& a, const Name& b) { return a.name == b.name; });
    listing.names.erase(last, listing.names.end());
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

std::vector<Result<Found>> Lister::look_up(const Listing& listing, std::span<const DirectoryEntry3> entries) {
    std::vector<Answer<Found>> answers(entries.size());
    const auto until = deadline();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].status || is_left_out(entries[i].name)) continue;
        const auto path = listing.path.empty() ? entries[i].name : listing.path + "/" + entries[i].name;
        resolver_.look_up(path, {until, Priority::demand},
                          [answer = answers[i]](Result<Found> found) { answer.give(std::move(found)); });
    }
    std::vector<Result<Found>> found;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const bool is_asked = !entries[i].status && !is_left_out(entries[i].name);
        found.push_back(is_asked ? answers[i].wait(until) : Result<Found>(Found{}));
    }
    return found;
}

Result<void> Lister::add_all(Listing& listing, std::vector<DirectoryEntry3> entries) {
    for (std::size_t begin = 0; begin < entries.size(); begin += kLookUps) {
        const auto some = std::span(entries).subspan(begin, std::min(kLookUps, entries.size() - begin));
        const auto found = look_up(listing, some);
        for (std::size_t i = 0; i < some.size(); ++i) {
            if (auto added = add(listing, std::move(some[i]), found[i]); !added) return added;
        }
    }
    return {};
}

Result<void> Lister::add(Listing& listing, DirectoryEntry3 entry, const Result<Found>& found) {
    // Those that are left out count, too: else a server might go on for ever.
    listing.bytes += sizeof(Name) + entry.name.size();
    if (listing.bytes > most_bytes_)
        return fail(EFBIG, "directory '" + listing.path + "' has too many names for memory.limit; raise it");
    if (entry.name == "." || entry.name == "..") return {};
    if (is_left_out(entry.name)) {
        ++listing.hidden["impossible name"];
        return {};
    }
    const auto path = listing.path.empty() ? entry.name : listing.path + "/" + entry.name;
    if (!found) return found.error().code == ENOENT ? Result<void>() : fail(found.error());
    std::optional<FileAttributes3> file = entry.status ? to_attributes(*entry.status) : found->attributes;
    if (!file) return fail(EIO, "the server tells no attributes of '" + path + "'");
    if (!entry.handle.empty()) handles_.put(path, entry.handle);
    if (file->is_special) {
        ++listing.hidden["socket, pipe or device"];
        return {};
    }
    listing.names.push_back(Name{std::move(entry.name), std::move(*file)});
    return {};
}

}  // namespace tierfs::nfs
