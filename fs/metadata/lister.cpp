#include "fs/metadata/lister.hpp"

#include <algorithm>

namespace tierfs {
namespace {

constexpr const char* kBeside = "file beside a directory of the same name";
constexpr const char* kInvalid = "invalid name";
/// Names changed in one commit at the end of a listing.
constexpr std::size_t kNamesPerCommit = 1000;
constexpr std::size_t kMostDeferred = 10000;
constexpr unsigned kMostWithoutNews = 1000;  // pages in a row; a bucket of many deleted keys may have some

bool is_valid_name(const std::string& name) {
    return !name.empty() && name.size() <= kLongestName && name != "." && name != ".." &&
           name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

}  // namespace

Lister::ListingPtr Lister::join(NodeId directory, bool& is_new) {
    ListingPtr& listing = listings_[directory];
    is_new = !listing;
    if (is_new) {
        listing = std::make_shared<Listing>();
        listing->directory = directory;
    }
    return listing;
}

void Lister::list(NodeId directory, Done done) {
    bool is_new = false;
    ListingPtr listing;
    {
        MutexLock lock(mutex_);
        listing = join(directory, is_new);
        listing->waiting.push_back(std::move(done));
    }
    if (is_new) post(listing);
}

void Lister::list_first_page(NodeId directory, FirstPage done) {
    bool is_new = false;
    bool is_late = false;
    ListingPtr listing;
    {
        MutexLock lock(mutex_);
        listing = join(directory, is_new);
        is_late = listing->past_first_page;
        if (!is_late) listing->hurrying.push_back(done);
    }
    if (is_late) done(false);
    if (is_new) post(listing);
}

void Lister::post(const ListingPtr& listing) {
    workers_.post([this, listing, asked = patience_.now()](bool canceled) {
        if (canceled) return finish(*listing, fail(ECANCELED, "the mount is being stopped"));
        if (patience_.is_over(asked)) return finish(*listing, fail(Patience::error()));
        const auto begun = begin(*listing);
        if (!begun) return finish(*listing, fail(begun.error()));
        if (!*begun) return finish(*listing, {});
        arrived(listing, ask_origin(listing->path, {}));
    });
}

Result<bool> Lister::begin(Listing& listing) {
    listing.started = freshness_.now();
    const auto listed = table_.listed(listing.directory, listing.started);
    if (!listed) return fail(listed.error());
    if (validity_.listing_left(listing.directory, *listed)) return false;
    auto path = table_.path(listing.directory);
    if (!path) return fail(std::move(path.error()));
    listing.path = std::move(*path);
    return true;
}

void Lister::ask(const ListingPtr& listing) {
    // Patience counts from page to page: a listing that goes on may take as long as it takes.
    workers_.post([this, listing, token = listing->token, asked = patience_.now()](bool canceled) {
        if (canceled) return arrived(listing, {fail(ECANCELED, "the mount is being stopped")});
        if (patience_.is_over(asked)) return arrived(listing, {fail(Patience::error())});
        arrived(listing, ask_origin(listing->path, token));
    });
}

Lister::Page Lister::ask_origin(const std::string& path, const std::string& token) {
    using Clock = std::chrono::steady_clock;
    const auto asked = freshness_.now();
    const auto since = Clock::now();
    Page page{origin_.list(path, token), asked};
    if (!token.empty()) return page;  // it may have been there already
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - since).count();
    const auto usual = usual_us_.load(std::memory_order_relaxed);
    usual_us_.store(usual == 0 ? took : usual + (took - usual) / 8, std::memory_order_relaxed);
    return page;
}

void Lister::arrived(const ListingPtr& listing, Page page) {
    {
        MutexLock lock(mutex_);
        if (listing->taking_in) {
            listing->page = std::move(page);
            return;
        }
        listing->taking_in = true;
    }
    advance(listing, page);
}

/// Called by one thread at a time, which has set `taking_in`. Once it has finished the listing, that stays
/// set, and a page that comes still is left alone.
void Lister::advance(const ListingPtr& listing, const Page& arrived) {
    const auto& page = arrived.page;
    if (!page) {
        if (page.error().code == ENOENT || page.error().code == ENOTDIR) gone_(listing->directory);
        return finish(*listing, fail(page.error()));
    }
    if (!page->next.empty() && page->next == listing->token) {
        return finish(*listing, fail(EIO, "listing of \"" + listing->path +
                                              "\": the origin gives the same page again"));
    }
    listing->token = page->next;
    const bool last = page->next.empty();
    if (!last) ask(listing);
    const auto known = listing->entries + listing->deferred.size();
    const auto as_of = std::max(listing->started, arrived.asked - page->age.count());
    if (auto done = take_in(*listing, *page, as_of); !done) return finish(*listing, done);
    if (last) return finish(*listing, complete(*listing));
    const bool has_news = listing->entries + listing->deferred.size() != known;
    listing->without_news = has_news ? 0 : listing->without_news + 1;
    if (listing->without_news == kMostWithoutNews) {
        return finish(*listing, fail(EIO, "listing of \"" + listing->path +
                                              "\": the origin gives pages without a new name, and no end"));
    }
    passed_first_page(*listing);
    advance_further(listing);
}

void Lister::advance_further(const ListingPtr& listing) {
    {
        MutexLock lock(mutex_);
        if (!listing->page) {
            listing->taking_in = false;
            return;
        }
    }
    workers_.post([this, listing](bool canceled) {
        std::optional<Page> page;
        {
            MutexLock lock(mutex_);
            page.swap(listing->page);
        }
        if (canceled) page = Page{fail(ECANCELED, "the mount is being stopped")};
        advance(listing, *page);
    });
}

Result<void> Lister::take_in(Listing& listing, const ListPage& page, std::int64_t as_of) {
    for (const auto& [reason, count] : page.hidden) listing.hidden[reason] += count;
    // Each name once a commit: of two in a page the directory wins.
    Names names;
    for (const DirectoryEntry& entry : page.entries) {
        if (!is_valid_name(entry.name)) {
            ++listing.hidden[kInvalid];
            continue;
        }
        const auto [place, is_new] = names.try_emplace(entry.name, &entry.attributes);
        if (is_new) continue;
        const bool was_directory = place->second->kind == ObjectKind::directory;
        if (was_directory != (entry.attributes.kind == ObjectKind::directory)) ++listing.hidden[kBeside];
        if (!was_directory) place->second = &entry.attributes;
    }
    Changes changes(table_.index());
    {
        const Turns::Turn turn(turns_, listing.directory);
        const auto looked_up = look_up(listing, names);
        if (!looked_up) return fail(looked_up.error());
        for (const auto& [name, attributes] : names) {
            Result<std::optional<Known>> existing;
            if (!*looked_up) {
                existing = table_.name(listing.directory, name);
            } else if (const auto found = (*looked_up)->find(name); found != (*looked_up)->end()) {
                existing = table_.leading_to(found->second, listing.directory, name);
            }
            if (!existing) return fail(existing.error());
            auto done = take_in_entry(listing, changes, name, *attributes, as_of, *existing);
            if (!done) return done;
        }
        if (auto done = table_.commit(changes); !done) return done;
    }
    table_.announce(changes);
    return listing.deferred.size() > kMostDeferred ? take_in_deferred(listing) : Result<void>();
}

/// One pass over the index instead of a search for each name: a directory that is listed for the first time has
/// none there. Where many vanished, or pages come in no order, it is not worth it.
Result<std::optional<std::unordered_map<std::string, NodeId>>> Lister::look_up(Listing& listing,
                                                                               const Names& names) {
    std::unordered_map<std::string, NodeId> found;
    if (names.empty()) return std::optional(std::move(found));
    const std::string& last = names.rbegin()->first;
    if (names.begin()->first <= listing.looked_up && !listing.looked_up.empty()) return std::nullopt;
    const std::size_t most = 4 * names.size();
    std::size_t passed = 0;
    auto scanned = table_.index().for_each_name(listing.directory, listing.looked_up,
                                                [&](std::string_view name, const NameRecord& leads_to) {
                                                    if (name > last) return false;
                                                    found.emplace(name, leads_to.node);
                                                    return ++passed < most;
                                                });
    if (!scanned) return fail(scanned.error());
    listing.looked_up = last;
    if (passed == most) return std::nullopt;
    return std::optional(std::move(found));
}

Result<void> Lister::take_in_entry(Listing& listing, Changes& changes, const std::string& name,
                                   const Attributes& attributes, std::int64_t as_of,
                                   const std::optional<Known>& existing) {
    if (existing) {
        const Known& known = *existing;
        const bool was_directory = known.record->attributes.kind == ObjectKind::directory;
        const bool is_directory = attributes.kind == ObjectKind::directory;
        if (was_directory && !is_directory) {
            listing.deferred[name] = attributes;
            return {};
        }
        if (!was_directory && is_directory && listing.seen.contains(known.node)) {
            ++listing.hidden[kBeside];
            --listing.entries;
        }
        // Confirmed by the listing as a whole: no need to write each record again, unless the listing takes so
        // long that its later pages are much younger than its beginning, from which it counts.
        if (!freshness_.differs(listing.started, as_of) && known.record->checked_ns != kDistrusted &&
            known.record->checked_ns <= listing.started &&
            Merger::is_same(known.record->attributes, attributes)) {
            listing.entries += listing.seen.contains(known.node) ? 0 : 1;
            listing.seen.insert(known.node);
            return {};
        }
    }
    const std::string path = listing.path.empty() ? name : listing.path + "/" + name;
    const auto known = merger_.found(changes, listing.directory, path, name, attributes, as_of, existing);
    if (!known) return fail(known.error());
    listing.entries += listing.seen.contains(known->node) ? 0 : 1;
    listing.seen.insert(known->node);
    return {};
}

Result<void> Lister::take_in_deferred(Listing& listing) {
    Changes changes(table_.index());
    {
        const Turns::Turn turn(turns_, listing.directory);
        for (const auto& [name, attributes] : listing.deferred) {
            const auto existing = table_.name(listing.directory, name);
            if (!existing) return fail(existing.error());
            if (*existing && listing.seen.contains((*existing)->node)) {
                ++listing.hidden[kBeside];
                continue;
            }
            const std::string path = listing.path.empty() ? name : listing.path + "/" + name;
            const auto known =
                merger_.found(changes, listing.directory, path, name, attributes, listing.started, *existing);
            if (!known) return fail(known.error());
            listing.seen.insert(known->node);
            ++listing.entries;
        }
        if (auto done = table_.commit(changes); !done) return done;
    }
    listing.deferred.clear();
    table_.announce(changes);
    return {};
}

Result<void> Lister::erase_vanished(Listing& listing) {
    std::string after;
    for (;;) {
        std::vector<std::string> names;
        bool more = false;
        auto scanned = table_.index().for_each_name(listing.directory, after,
                                                    [&](std::string_view name, const NameRecord& record) {
                                                        after = name;
                                                        if (!listing.seen.contains(record.node))
                                                            names.emplace_back(name);
                                                        more = names.size() >= kNamesPerCommit;
                                                        return !more;
                                                    });
        if (!scanned) return scanned;
        if (auto done = erase_names(listing, names); !done) return done;
        if (!more) return {};
    }
}

Result<void> Lister::erase_names(Listing& listing, const std::vector<std::string>& names) {
    if (names.empty()) return {};
    Changes changes(table_.index());
    {
        const Turns::Turn turn(turns_, listing.directory);
        for (const std::string& name : names) {
            const auto known = table_.name(listing.directory, name);
            if (!known) return fail(known.error());
            if (!*known) {
                changes.erase_name(listing.directory, name);
                continue;
            }
            // Seen, or made by a stat that was asked after this listing began.
            if (listing.seen.contains((*known)->node) ||
                merger_.is_newer(*(*known)->record, listing.started)) {
                continue;
            }
            if (auto done = merger_.vanished(changes, **known); !done) return done;
        }
        if (auto done = table_.commit(changes); !done) return done;
    }
    table_.announce(changes);
    return {};
}

Result<void> Lister::complete(Listing& listing) {
    if (!listing.deferred.empty()) {
        if (auto done = take_in_deferred(listing); !done) return done;
    }
    if (auto done = erase_vanished(listing); !done) return done;
    const auto old = table_.index().find_listing(listing.directory);
    if (!old) return fail(old.error());
    auto batch = table_.index().batch();
    batch->put_listing(listing.directory, {listing.started, listing.entries, listing.hidden});
    if (auto done = table_.index().commit(std::move(batch)); !done) return done;
    if (*old) hidden_.subtract((*old)->hidden);
    hidden_.add(listing.hidden);
    return {};
}

void Lister::passed_first_page(Listing& listing) {
    std::vector<FirstPage> hurrying;
    {
        MutexLock lock(mutex_);
        listing.past_first_page = true;
        hurrying.swap(listing.hurrying);
    }
    for (const FirstPage& done : hurrying) done(false);
}

void Lister::finish(Listing& listing, const Result<void>& result) {
    std::vector<Done> waiting;
    std::vector<FirstPage> hurrying;
    {
        MutexLock lock(mutex_);
        listings_.erase(listing.directory);
        waiting.swap(listing.waiting);
        hurrying.swap(listing.hurrying);
    }
    for (const FirstPage& done : hurrying) done(result.map([] { return true; }));
    for (const Done& done : waiting) done(result);
}

}  // namespace tierfs
