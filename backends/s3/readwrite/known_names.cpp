#include "backends/s3/readwrite/known_names.hpp"

#include <algorithm>
#include <utility>

#include "backends/s3/client/xml.hpp"
#include "config/base/time.hpp"
#include "config/settings.hpp"

namespace tierfs::s3 {

bool Facts::may_be_begun() const {
    constexpr std::int64_t kMinute_ns = 60'000'000'000;
    if (kind != Kind::file || size != 0) return false;
    const std::int64_t now = wall_clock_ns();
    return metadata.mtime_ns > now - kMinute_ns && metadata.mtime_ns < now + kMinute_ns;
}

std::optional<Facts> KnownNames::get(Place place, Clock::time_point now) {
    const MutexLock lock(mutex_);
    const auto found = by_place_.find(place);
    if (found == by_place_.end() || found->second->until <= now || found->second->is_doubtful)
        return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->facts;
}

std::optional<Facts> KnownNames::get_younger(Place place, std::chrono::milliseconds age,
                                             Clock::time_point now) {
    const MutexLock lock(mutex_);
    const auto found = by_place_.find(place);
    if (found == by_place_.end() || found->second->since + age < now || found->second->is_doubtful)
        return std::nullopt;
    return found->second->facts;
}

void KnownNames::put_locked(Place place, Facts facts, Clock::time_point now, bool is_own) {
    const auto ttl = !is_own && facts.may_be_begun() ? std::chrono::milliseconds(0)
                     : facts.is_there()              ? ttl_
                                                     : std::min(ttl_, kLongestAbsent);
    const auto until = ttl == kForever ? Clock::time_point::max() : now + ttl;
    const auto found = by_place_.find(place);
    if (found != by_place_.end()) {
        *found->second = {place, std::move(facts), now, until};
        entries_.splice(entries_.begin(), entries_, found->second);
        return;
    }
    make_room();
    entries_.push_front({place, std::move(facts), now, until});
    by_place_.emplace(place, entries_.begin());
}

/// A listing that was begun before a name was put does not know it, and nobody would any more.
void KnownNames::make_room() {
    if (entries_.size() < kMost) return;
    const auto& oldest = entries_.back();
    listings_.remove_if([&](const Listing& listing) { return listing.listed.since < oldest.since; });
    by_place_.erase(oldest.place);
    entries_.pop_back();
}

void KnownNames::put(Place place, Facts facts, Clock::time_point now) {
    const MutexLock lock(mutex_);
    ++changes_of(place);
    put_locked(place, std::move(facts), now, true);
}

void KnownNames::put(std::uint64_t directory, const std::string& name, Facts facts) {
    const MutexLock lock(mutex_);
    std::optional<ListedNames::Shown> shown;
    if (facts.is_there())
        shown = facts.kind == Facts::Kind::directory ? ListedNames::Shown::prefix : ListedNames::Shown::key;
    own_.push_back({directory, name, shown, Clock::now()});
    if (auto* const listing = listing_of(directory)) note(listing->listed, own_.back());
    if (own_.size() > kMostOwn) {
        own_since_ = own_.front().at;
        own_.pop_front();
    }
    const auto place = place_of(directory, name);
    ++changes_of(place);
    put_locked(place, std::move(facts), Clock::now(), true);
}

void KnownNames::note(ListedNames& listed, const Own& own) {
    if (own.shown) listed.names[own.name] = *own.shown;
    if (!own.shown) listed.names.erase(own.name);
    listed.is_whole = listed.is_whole && listed.names.size() <= kMostListed;
    if (!listed.is_whole) listed.names.clear();
}

KnownNames::Moment KnownNames::moment(Place place) {
    const MutexLock lock(mutex_);
    return {changes_of(place), Clock::now()};
}

void KnownNames::put_answer(Place place, Facts facts, const Moment& asked) {
    const MutexLock lock(mutex_);
    const auto found = by_place_.find(place);
    if (found != by_place_.end() && found->second->since > asked.at) return;
    if (changes_of(place) != asked.changes) {
        ++changes_of(place);
        if (found != by_place_.end()) found->second->is_doubtful = true;
        return;
    }
    put_locked(place, std::move(facts), asked.at, false);
}

void KnownNames::forget_locked(Place place) {
    ++changes_of(place);
    const auto found = by_place_.find(place);
    if (found == by_place_.end()) return;
    entries_.erase(found->second);
    by_place_.erase(found);
}

void KnownNames::forget(Place place) {
    const MutexLock lock(mutex_);
    forget_locked(place);
}

void KnownNames::drop(Place place) {
    const MutexLock lock(mutex_);
    ++drops_;
    listings_.clear();
    forget_locked(place);
}

void KnownNames::clear() {
    const MutexLock lock(mutex_);
    for (auto& changes : changes_) ++changes;
    ++drops_;
    listings_.clear();
    entries_.clear();
    by_place_.clear();
}

std::uint64_t KnownNames::drops() {
    const MutexLock lock(mutex_);
    return drops_;
}

void KnownNames::put_listing(std::uint64_t directory, ListedNames listed) {
    const MutexLock lock(mutex_);
    if (listed.drops != drops_ || listed.since <= own_since_) return;
    for (const auto& own : own_) {
        if (own.directory == directory && own.at >= listed.since) note(listed, own);
    }
    listings_.remove_if([&](const Listing& listing) { return listing.directory == directory; });
    std::uint64_t bytes = 0;
    for (const auto& [name, shown] : listed.names) bytes += ListedNames::memory_of(name);
    listings_.push_front({directory, std::move(listed), bytes});
    std::uint64_t sum = 0;
    std::size_t count = 0;
    const auto first_out = std::find_if(listings_.begin(), listings_.end(), [&](const Listing& listing) {
        sum += listing.bytes;
        return ++count > kMostListings || (count > 1 && sum > kMostBytesListed);
    });
    listings_.erase(first_out, listings_.end());
}

std::uint64_t ListedNames::add(const Listing& page, const std::string& prefix) {
    std::uint64_t bytes = 0;
    const auto add_name = [&](std::string name, Shown shown) {
        if (name.empty()) return;
        const auto memory = memory_of(name);
        const auto [at, is_new] = names.try_emplace(std::move(name), shown);
        if (shown == Shown::prefix) at->second = shown;
        if (is_new) bytes += memory;
    };
    for (const auto& object : page.objects)
        add_name(object.key.substr(std::min(prefix.size(), object.key.size())), Shown::key);
    for (const auto& below : page.prefixes) {
        if (below.size() > prefix.size())
            add_name(below.substr(prefix.size(), below.size() - prefix.size() - 1), Shown::prefix);
    }
    return bytes;
}

KnownNames::Listing* KnownNames::listing_of(std::uint64_t directory) {
    const auto found = std::find_if(listings_.begin(), listings_.end(),
                                    [&](const Listing& listing) { return listing.directory == directory; });
    if (found == listings_.end() || !found->listed.is_whole) return nullptr;
    listings_.splice(listings_.begin(), listings_, found);
    return &*found;
}

std::optional<std::unordered_map<std::string, ListedNames::Shown>> KnownNames::names_last(
    std::uint64_t directory) {
    const MutexLock lock(mutex_);
    const auto* const found = listing_of(directory);
    return found != nullptr ? std::optional(found->listed.names) : std::nullopt;
}

std::optional<KnownNames::Showing> KnownNames::showing(std::uint64_t directory, const std::string& name) {
    const auto* const found = listing_of(directory);
    if (found == nullptr) return std::nullopt;
    // What was put since then is known better, even where it is not believed for so long.
    const auto put = by_place_.find(place_of(directory, name));
    if (put != by_place_.end() && put->second->since > found->listed.since) return std::nullopt;
    const auto entry = found->listed.names.find(name);
    return Showing{entry == found->listed.names.end() ? ListedNames::Shown::absent : entry->second,
                   found->listed.since};
}

std::optional<ListedNames::Shown> KnownNames::shown(std::uint64_t directory, const std::string& name,
                                                    Clock::time_point now) {
    const MutexLock lock(mutex_);
    const auto found = showing(directory, name);
    if (!found) return std::nullopt;
    const auto ttl = found->shown == ListedNames::Shown::absent ? std::min(ttl_, kLongestAbsent) : ttl_;
    if (ttl != kForever && now >= found->since + ttl) return std::nullopt;
    return found->shown;
}

std::optional<ListedNames::Shown> KnownNames::shown_last(std::uint64_t directory, const std::string& name) {
    const MutexLock lock(mutex_);
    const auto found = showing(directory, name);
    return found ? std::optional(found->shown) : std::nullopt;
}

std::optional<Facts> KnownNames::last(Place place) {
    const MutexLock lock(mutex_);
    const auto found = by_place_.find(place);
    if (found == by_place_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->facts;
}

bool KnownNames::was_directory(Place place) {
    const MutexLock lock(mutex_);
    const auto found = by_place_.find(place);
    return found != by_place_.end() && found->second->facts.kind == Facts::Kind::directory;
}

void KnownNames::set_marker(Place place) {
    const MutexLock lock(mutex_);
    const auto found = by_place_.find(place);
    if (found != by_place_.end()) found->second->facts.has_marker = true;
}

}  // namespace tierfs::s3
