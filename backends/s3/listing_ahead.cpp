#include "backends/s3/listing_ahead.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "config/base/delivery.hpp"

namespace tierfs::s3 {

namespace {

/// Above each character that a key can have (U+10FFFF).
constexpr const char* kHighest = "\xF4\x8F\xBF\xBF";
constexpr std::size_t kMostPoints = 128, kMostRanges = 1024;
/// Names are hexadecimal where so many characters in a row are, letters and digits.
constexpr std::size_t kHexRun = 8;
constexpr unsigned kFirstAtOnce = 4;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/// Whether the character is one of a run of hexadecimal digits.
bool is_in_hex_run(const std::string& key, std::size_t at) {
    std::size_t begin = at, end = at;
    while (begin > 0 && is_hex(key[begin - 1])) --begin;
    while (end < key.size() && is_hex(key[end])) ++end;
    const auto run = std::string_view(key).substr(begin, end - begin);
    return run.size() >= kHexRun && std::any_of(run.begin(), run.end(), is_digit) &&
           !std::all_of(run.begin(), run.end(), is_digit);
}

/// Characters that may come in its place, in order, from itself on.
std::string values_from(const std::string& key, std::size_t at) {
    std::string found;
    const char c = key[at];
    const auto add = [&found](int from, char to) {
        for (int next = from; next <= to; ++next) found.push_back(static_cast<char>(next));
    };
    if (is_hex(c) && is_in_hex_run(key, at)) {
        if (is_digit(c)) add(c, '9');
        add(is_digit(c) ? 'a' : c, 'f');
    } else if (is_digit(c)) {
        add(c, '9');
    } else if (c >= 'a' && c <= 'z') {
        add(c, 'z');
    } else if (c >= 'A' && c <= 'Z') {
        add(c, 'Z');
    }
    return found;
}

/// The last name that counts on from `key` with this value in its place: file001999.jpg of file000123.jpg, 1 and
/// the place of the thousands. A range that ends there, and not behind all that begins with file001, is seen to
/// be at its end by the page that ends so.
std::string last_with(const std::string& key, std::size_t at, char value) {
    auto last = key;
    last[at] = value;
    const bool is_of_hex = is_hex(key[at]) && is_in_hex_run(key, at);
    const auto counts = [is_of_hex](char c) { return is_of_hex ? is_hex(c) : is_digit(c); };
    if (counts(key[at])) {
        for (++at; at < key.size() && counts(key[at]); ++at) last[at] = is_of_hex ? 'f' : '9';
        return last;
    }
    return last.substr(0, at + 1);
}

const std::string& first_of(const Listing& page) {
    if (page.objects.empty()) return page.prefixes.front();
    if (page.prefixes.empty()) return page.objects.front().key;
    return std::min(page.objects.front().key, page.prefixes.front());
}

/// Bytes, about: with the reply that it was parsed from.
std::uint64_t memory_of(const Listing& page) {
    std::uint64_t bytes = 0;
    for (const auto& object : page.objects)
        bytes += sizeof(object) + 4 * (object.key.size() + object.etag.size());
    for (const auto& prefix : page.prefixes) bytes += sizeof(prefix) + 4 * prefix.size();
    return bytes;
}

/// Drops what lies behind it.
void cut(Listing& page, const std::string& until) {
    while (!page.objects.empty() && page.objects.back().key > until) page.objects.pop_back();
    while (!page.prefixes.empty() && page.prefixes.back() > until) page.prefixes.pop_back();
}

}  // namespace

std::string end_of(const Listing& page) {
    std::string end = page.objects.empty() ? std::string() : page.objects.back().key;
    if (!page.prefixes.empty()) end = std::max(end, page.prefixes.back() + kHighest);
    return end;
}

bool is_sorted(const Listing& page) {
    return std::is_sorted(page.prefixes.begin(), page.prefixes.end()) &&
           std::is_sorted(
               page.objects.begin(), page.objects.end(),
               [](const ListedObject& one, const ListedObject& other) { return one.key < other.key; });
}

std::vector<std::string> split_points(const std::string& prefix, const Listing& page,
                                      const std::string& until) {
    std::vector<std::string> points;
    const auto last = end_of(page);
    const auto& first = first_of(page);
    const std::size_t length = std::min(first.size(), last.size());
    std::size_t differs = 0;
    while (differs < length && first[differs] == last[differs]) ++differs;
    if (differs == length || differs < prefix.size()) return points;
    const int values = static_cast<unsigned char>(last[differs]) - static_cast<unsigned char>(first[differs]);
    // What shares more with the last key comes before what shares less. In the place in which the page's keys differ
    // a range is to have two pages: with one, each would be asked for once more, for its end.
    for (std::size_t at = differs + 1; at > prefix.size();) {
        --at;
        const std::size_t stride = at == differs ? 2 * (static_cast<std::size_t>(values) + 1) : 1;
        const auto candidates = values_from(last, at);
        for (std::size_t next = stride - 1; next < candidates.size(); next += stride) {
            auto point = last_with(last, at, candidates[next]);
            if (point <= (points.empty() ? last : points.back())) continue;
            if ((!until.empty() && point >= until) || points.size() == kMostPoints) return points;
            points.push_back(std::move(point));
        }
    }
    return points;
}

ListingAhead::ListingAhead(std::string prefix, std::string after, std::string token, Limits limits, Ask ask)
    : prefix_(std::move(prefix)), limits_(limits), ask_(std::move(ask)), token_(std::move(token)) {
    Range all;
    all.after = std::move(after);
    ranges_.push_back(std::move(all));
}

Result<Listing> ListingAhead::next() {
    if (auto may = may_wait_for("LIST"); !may) return fail(std::move(may.error()));
    pump();
    Listing page;
    {
        MutexLock lock(mutex_);
        for (;;) {
            while (!ranges_.empty() && ranges_.front().pages.empty() && ranges_.front().is_over)
                ranges_.pop_front();
            if (ranges_.empty()) break;
            Range& front = ranges_.front();
            if (!front.pages.empty()) break;
            if (front.error) return fail(*front.error);
            lock.wait(changed_);
        }
        if (!ranges_.empty()) {
            auto& pages = ranges_.front().pages;
            page = std::move(pages.front());
            token_.clear();
            pages.pop_front();
            --kept_;
            while (!ranges_.empty() && ranges_.front().pages.empty() && ranges_.front().is_over)
                ranges_.pop_front();
        }
        if (ranges_.empty()) page.next_token.clear();
    }
    pump();
    return page;
}

std::string ListingAhead::token() {
    const MutexLock lock(mutex_);
    return token_;
}

void ListingAhead::abandon() {
    const MutexLock lock(mutex_);
    is_abandoned_ = true;
}

/// Begins what may be begun, the nearest first. The front may always be asked for.
void ListingAhead::pump() {
    std::vector<std::pair<Ranges::iterator, Question>> questions;
    {
        const MutexLock lock(mutex_);
        if (is_abandoned_) return;
        for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
            const bool is_front = range == ranges_.begin();
            const bool has_room =
                under_way_ < allowed_ && (kept_ + under_way_ + 1) * largest_ <= limits_.bytes;
            if (!has_room && !(is_front && range->pages.empty())) break;
            if (range->is_asked || range->is_over || range->error) continue;
            range->is_asked = range->is_touched = true;
            ++under_way_;
            questions.emplace_back(range, Question{range->after, range->token});
        }
    }
    for (auto& [range, question] : questions) {
        ask_(question, [self = shared_from_this(), place = range](Result<Listing> answer) {
            self->answered(place, std::move(answer));
        });
    }
}

void ListingAhead::answered(Ranges::iterator range, Result<Listing> answer) {
    bool goes_on = false;
    {
        const MutexLock lock(mutex_);
        --under_way_;
        range->is_asked = false;
        if (answer) {
            take(range, std::move(*answer));
        } else {
            range->error = std::move(answer.error());
        }
        goes_on = !range->error;
        changed_.notify_all();
    }
    if (goes_on) pump();
}

void ListingAhead::take(Ranges::iterator range, Listing page) {
    const bool is_truncated = !page.next_token.empty();
    if (range->token.empty()) {
        // A common prefix may come again from within.
        while (!page.prefixes.empty() && page.prefixes.front() <= range->after)
            page.prefixes.erase(page.prefixes.begin());
        if (!page.objects.empty() && page.objects.front().key <= range->after) {
            range->error = Error{EIO, "LIST: the server ignores start-after"};
            return;
        }
    }
    if (!is_sorted(page)) {
        range->error = Error{EIO, "LIST: the server's keys come in no order"};
        return;
    }
    const auto covered = is_truncated ? end_of(page) : std::string();
    if (is_truncated && covered.empty()) {  // deleted keys, perhaps: nothing to begin behind
        if (page.next_token == range->token) {
            range->error = Error{EIO, "the server repeats its continuation token"};
        } else {
            range->token = std::move(page.next_token);
        }
        return;
    }
    range->token.clear();
    ++kept_;
    largest_ = std::max(largest_, memory_of(page));
    if (is_truncated && (range->until.empty() || covered < range->until)) {
        range->after = covered;
        allowed_ = std::min(limits_.at_once, std::max(kFirstAtOnce, 2 * ++received_));
        divide(range, page);
        page.next_token = covered;
        range->pages.push_back(std::move(page));
        return;
    }
    swallow(range, covered);
    if (!range->until.empty()) cut(page, range->until);
    range->is_over = true;
    page.next_token = range->until;
    range->pages.push_back(std::move(page));
}

void ListingAhead::divide(Ranges::iterator range, const Listing& page) {
    auto before = std::next(range);
    for (auto& point : split_points(prefix_, page, range->until)) {
        if (ranges_.size() >= kMostRanges) return;
        Range rest;
        rest.after = point;
        const auto made = ranges_.insert(before, std::move(rest));
        made->until = std::exchange(std::prev(made)->until, std::move(point));
    }
}

/// What a page shows beyond its range, up to `covered` (empty: to the end), is taken from those behind it that
/// nobody has asked for.
void ListingAhead::swallow(Ranges::iterator range, const std::string& covered) {
    while (std::next(range) != ranges_.end() && !std::next(range)->is_touched) {
        const auto next = std::next(range);
        const bool is_whole = covered.empty() || (!next->until.empty() && next->until <= covered);
        if (!is_whole) {
            next->after = range->until = covered;
            return;
        }
        range->until = next->until;
        ranges_.erase(next);
    }
}

std::shared_ptr<ListingAhead> ListingsAhead::take(const std::string& path, const std::string& position) {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.path == path && entry.position == position;
    });
    if (found == entries_.end()) return nullptr;
    auto listing = std::move(found->listing);
    entries_.erase(found);
    return listing;
}

void ListingsAhead::put(const std::string& path, const std::string& position,
                        std::shared_ptr<ListingAhead> listing) {
    const MutexLock lock(mutex_);
    entries_.push_front({path, position, std::move(listing)});
    if (entries_.size() <= kMost) return;
    entries_.back().listing->abandon();
    entries_.pop_back();
}

}  // namespace tierfs::s3
