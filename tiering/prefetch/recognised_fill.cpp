// DatasetFill, Scope::recognised: what readers seem to mean.
#include <algorithm>
#include <map>
#include <utility>

#include "config/base/log.hpp"
#include "tiering/prefetch/dataset_fill.hpp"

namespace tierfs {
namespace {

/// Reads of several readers who go through one order together arrive some places apart.
constexpr std::size_t kBehind = 8;
constexpr std::size_t kMostNotes = 8192;
constexpr std::size_t kNotesToWake = 16;
constexpr std::size_t kMostUnread = 8192;
constexpr std::size_t kOffersBetweenLooks = 64;
constexpr std::chrono::milliseconds kTick{10};
constexpr unsigned kTicksUntilSettled = 100;
constexpr std::chrono::milliseconds kLongTick{1000};

std::uint64_t key_of(std::string_view path) {
    return std::hash<std::string_view>{}(path);
}

bool in_sample(std::uint64_t key, unsigned bits) {
    return bits == 0 || (key * 0x9E3779B97F4A7C15U) >> (64U - bits) == 0;
}

bool is_scattered(const std::vector<std::string>& recent) {
    std::size_t ordered = 0;
    for (std::size_t i = kBehind; i < recent.size(); ++i) ordered += recent[i - kBehind] < recent[i] ? 1 : 0;
    return ordered * 4 < (recent.size() - kBehind) * 3;
}

/// The deepest folder that nine in ten of the paths lie in.
std::string folder_of_most(const std::vector<std::string>& paths) {
    std::string folder;
    for (;;) {
        std::map<std::string_view, std::size_t> below;
        const std::size_t skip = folder.empty() ? 0 : folder.size() + 1;
        for (const std::string& path : paths) {
            if (skip > 0 && (path.compare(0, folder.size(), folder) != 0 || path[folder.size()] != '/'))
                continue;
            const std::size_t slash = path.find('/', skip);
            if (slash != std::string::npos) ++below[std::string_view(path).substr(0, slash)];
        }
        const auto most = std::max_element(below.begin(), below.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most == below.end() || most->second * 10 < paths.size() * 9) return folder;
        folder = std::string(most->first);
    }
}

}  // namespace

void DatasetFill::take_note(const ObjectRef& object, bool missed) {
    MutexLock lock(mutex_);
    if (notes_.size() < kMostNotes) notes_.push_back({key_of(object.path), object.size});
    if (notes_.size() % kNotesToWake == 0) wake_.notify_all();
    // Where all is there already a walk would look at each name for nothing, beside the readers.
    if (missed && recent_.size() < kRecent) {
        recent_.push_back(object.path);
        if (recent_.size() == kRecent) wake_.notify_all();
    }
}

bool DatasetFill::wait_for_scattered_reads(std::string& root) {
    MutexLock lock(mutex_);
    while (!interrupted()) {
        if (recent_.size() == kRecent) {
            const bool scattered = is_scattered(recent_);
            if (scattered) root = folder_of_most(recent_);
            recent_.clear();
            if (scattered) return true;
        }
        lock.wait(wake_);
    }
    return false;
}

void DatasetFill::run_recognised() {
    std::string root;
    while (!over_ && wait_for_scattered_reads(root)) {
        fill_tree(root);
        settle();
        MutexLock lock(mutex_);
        recent_.clear();
    }
}

void DatasetFill::fill_tree(const std::string& root) {
    FileWalk walk(listings_, root, FileWalk::Below::with);
    Segment segment;
    places_.clear();
    strangers_ = natives_ = 0;
    while (!over_ && !interrupted()) {
        const bool more = !walk.over() && segment.files.size() < kSegment;
        if (more && !list_page(walk, segment)) return;
        if (!offer_meant(segment)) return;
        if (more || !wait_for_readers(segment)) {
            if (more) continue;
            if (walk.over() || over_ || interrupted()) return;
            // The next stretch; of this one nobody asked for more.
            Segment next;
            next.first = segment.first + segment.files.size();
            segment = std::move(next);
            places_.clear();
        }
    }
}

bool DatasetFill::list_page(FileWalk& walk, Segment& segment) {
    const std::size_t before = segment.files.size();
    const auto listed = walk.next(segment.files);
    if (!listed) {
        log::warning("filling the cache ends: " + listed.error().message);
        over_ = true;
        return false;
    }
    segment.places.resize(segment.files.size(), Place::untouched);
    for (std::size_t i = before; i < segment.files.size(); ++i) {
        const std::uint64_t key = key_of(segment.files[i].path);
        const auto place = static_cast<std::uint32_t>(i);
        segment.by_key.emplace(key, place);
        if (known_.contains(key)) located(segment, place, false);
    }
    return !stopping();
}

void DatasetFill::located(Segment& segment, std::uint32_t place, bool now) {
    Place& state = segment.places[place];
    if (state == Place::read) return;
    // Of the files that may still be asked for, so many are there: what chance would find.
    if (now && segment.meant > segment.read && places_.meant(segment.first + place)) {
        const std::uint64_t left = segment.meant - segment.read;
        chance_ += std::min(1.0, static_cast<double>(segment.offered_unread) / static_cast<double>(left));
        if (state == Place::offered) ++found_;
    }
    if (state == Place::offered) --segment.offered_unread;
    state = Place::read;
    ++segment.read;
    places_.add(segment.first + place);
    ++unjudged_;
}

void DatasetFill::drain(Segment& segment) {
    std::vector<Note> notes;
    {
        MutexLock lock(mutex_);
        notes.swap(notes_);
    }
    for (const Note& note : notes) {
        if (const auto offered = unread_.find(note.key); offered != unread_.end()) {
            unread_bytes_ -= offered->second;
            unread_.erase(offered);
            if (options_.found) options_.found(std::uint64_t{1} << unread_bits_);
        }
        if (!known_.insert(note.key).second) continue;
        read_bytes_ += note.size;
        if (history_.size() < kHistory) {
            history_.push_back(note.key);
        } else {
            known_.erase(history_[oldest_]);
            history_[oldest_] = note.key;
            oldest_ = (oldest_ + 1) % kHistory;
        }
        const auto found = segment.by_key.find(note.key);
        if (found == segment.by_key.end()) {
            ++strangers_;
            continue;
        }
        ++natives_;
        located(segment, found->second, true);
    }
    // A judgement costs milliseconds: each time that a few in a hundred are new.
    if (unjudged_ <= places_.count() / 32) return;
    unjudged_ = 0;
    places_.judge();
    segment.meant = 0;
    for (std::size_t i = 0; i < segment.files.size(); ++i) {
        if (segment.files[i].fetchable && places_.meant(segment.first + i)) ++segment.meant;
    }
}

void DatasetFill::remember_offered(const ListedFile& file) {
    const std::uint64_t key = key_of(file.path);
    if (!in_sample(key, unread_bits_)) return;
    if (unread_.emplace(key, file.size).second) unread_bytes_ += file.size;
    if (unread_.size() <= kMostUnread) return;
    ++unread_bits_;
    for (auto at = unread_.begin(); at != unread_.end();) {
        if (in_sample(at->first, unread_bits_)) {
            ++at;
            continue;
        }
        unread_bytes_ -= at->second;
        at = unread_.erase(at);
    }
}

bool DatasetFill::offer_meant(Segment& segment) {
    drain(segment);
    std::size_t since = 0;
    for (std::size_t i = 0; i < segment.files.size(); ++i) {
        if (segment.places[i] != Place::untouched || !segment.files[i].fetchable) continue;
        if (!places_.meant(segment.first + i)) continue;
        if (++since == kOffersBetweenLooks) {
            drain(segment);
            since = 0;
        }
        for (unsigned ticks = 0;
             (unread_bytes_ << unread_bits_) > options_.risk + read_bytes_ || !may_offer(); ++ticks) {
            if (ticks == kTicksUntilSettled) settle();  // readers may have gone
            if (!pause(ticks < kTicksUntilSettled ? kTick : kLongTick) || interrupted()) return false;
            drain(segment);
        }
        if (is_useless()) {
            log::info("filling the cache ends: of " + std::to_string(static_cast<std::uint64_t>(chance_)) +
                      " reads expected to find what it brought, " + std::to_string(found_) + " did");
            over_ = true;
            return false;
        }
        const Offered offered = offer(segment.files[i]);
        if (offered == Offered::full) {
            over_ = true;
            return false;
        }
        if (offered == Offered::passed) {
            segment.files[i].fetchable = false;
            continue;
        }
        segment.places[i] = Place::offered;
        ++segment.offered_unread;
        remember_offered(segment.files[i]);
    }
    return true;
}

/// False: this segment is done with.
bool DatasetFill::wait_for_readers(Segment& segment) {
    settle();
    if (segment.read + segment.offered_unread >= segment.files.size()) return false;
    const std::uint64_t enough = std::max<std::uint64_t>(16, (natives_ + strangers_) / 8);
    const std::uint64_t before = natives_, strange = strangers_;
    while (natives_ + strangers_ < before + strange + enough) {
        if (!pause(kLongTick) || interrupted()) return false;
        drain(segment);
    }
    // Most readers are elsewhere by now.
    return strangers_ - strange <= 2 * (natives_ - before);
}

}  // namespace tierfs
