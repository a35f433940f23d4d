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
    for (const auto& prefix : page.prefixes) bytes += sizeof(std::string) + 4 * prefix.size();
    return std::max(bytes, page.text_bytes);
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

ListingAhead::ListingAhead(std::string prefix, std::string after, std::string token,
                           std::shared_ptr<Shared> shared, Ask ask)
    : prefix_(std::move(prefix)),
      shared_(std::move(shared)),
      ask_(std::move(ask)),
      largest_(std::max(kUsualPage, shared_->page.load())) {
    Range all;
    all.after = std::move(after);
    all.token = std::move(token);
    ranges_.push_back(std::move(all));
}

ListingAhead::~ListingAhead() {
    for (const Range& range : ranges_)
        for (const Kept& kept : range.pages) shared_->used -= kept.charge;
}

void ListingAhead::drop_given() {
    while (!ranges_.empty() && ranges_.front().pages.empty() && ranges_.front().is_over) ranges_.pop_front();
}

Result<ListingAhead::Page> ListingAhead::next() {
    if (auto may = may_wait_for("LIST"); !may) return fail(std::move(may.error()));
    Page page;
    {
        const MutexLock lock(mutex_);
        has_waiter_ = true;
    }
    for (bool is_there = false; !is_there;) {
        pump();
        MutexLock lock(mutex_);
        for (;;) {
            drop_given();
            if (ranges_.empty() || !ranges_.front().pages.empty() || ranges_.front().error) break;
            lock.wait(changed_);
        }
        if (!ranges_.empty() && ranges_.front().pages.empty()) {
            Range& front = ranges_.front();
            if (front.is_waited_for) {
                has_waiter_ = false;
                return fail(*front.error);
            }
            front.error.reset();  // nobody waited for it: it is asked once more
            continue;
        }
        is_there = true;
        has_waiter_ = false;
        page.asked = Clock::now();
        if (ranges_.empty()) break;
        Kept kept = std::move(ranges_.front().pages.front());
        ranges_.front().pages.pop_front();
        shared_->used -= kept.charge;
        page = std::move(kept.page);
        drop_given();
        if (ranges_.empty()) page.listing.next_token.clear();
    }
    pump();
    return page;
}

void ListingAhead::abandon() {
    const MutexLock lock(mutex_);
    is_abandoned_ = true;
}

bool ListingAhead::is_waited_for(Ranges::iterator range) {
    return has_waiter_ && range == ranges_.begin() && range->pages.empty();
}

bool ListingAhead::may_ask(Ranges::iterator range) {
    return is_waited_for(range) || (under_way_ < allowed_ && shared_->used + largest_ <= shared_->bytes);
}

/// Begins what may be begun, the nearest first. What somebody waits for may always be asked for, but while the server is to
/// show whether it begins where it is told: then nothing else is under way.
void ListingAhead::pump() {
    std::vector<std::pair<Ranges::iterator, Question>> questions;
    {
        const MutexLock lock(mutex_);
        if (is_abandoned_) return;
        if (is_proving_ && under_way_ > 0) return;
        auto range = is_proving_ ? std::next(ranges_.begin()) : ranges_.begin();
        for (; range != ranges_.end() && (is_proving_ || may_ask(range)); ++range) {
            if (range->is_asked || range->is_over || range->error) continue;
            range->is_asked = range->is_touched = true;
            range->is_waited_for = is_waited_for(range);
            range->asked = Clock::now();
            range->charge = largest_;
            shared_->used += largest_;
            ++under_way_;
            questions.emplace_back(range, Question{range->after, range->token});
            if (is_proving_) break;
        }
    }
    for (auto& [range, question] : questions) {
        ask_(question, [self = shared_from_this(), place = range](Result<Listing> answer) {
            self->answered(place, std::move(answer));
        });
    }
}

void ListingAhead::answered(Ranges::iterator range, Result<Listing> answer) {
    bool goes_on = true;
    {
        const MutexLock lock(mutex_);
        --under_way_;
        if (range->is_superseded) {
            shared_->used -= range->charge;
            superseded_.erase(range);
        } else {
            goes_on = settle(range, std::move(answer));
            changed_.notify_all();
        }
    }
    if (goes_on) pump();
}

/// Whether there may be more to ask for.
bool ListingAhead::settle(Ranges::iterator range, Result<Listing> answer) {
    range->is_asked = false;
    const bool was_proving = std::exchange(is_proving_, false);
    Result<void> taken = answer ? take(range, std::move(*answer)) : fail(std::move(answer.error()));
    shared_->used -= std::exchange(range->charge, 0);
    if (!taken && was_proving) {
        unite();
    } else if (!taken) {
        range->error = std::move(taken.error());
    }
    return taken || was_proving;
}

/// Drops what comes twice.
Result<void> ListingAhead::check(const Range& range, Listing& page) {
    if (!is_sorted(page)) return fail(EIO, "LIST: the server's keys come in no order");
    // A common prefix may come again from within.
    while (!page.prefixes.empty() && page.prefixes.front() <= range.after &&
           range.after.starts_with(page.prefixes.front()))
        page.prefixes.erase(page.prefixes.begin());
    const bool is_before = (!page.objects.empty() && page.objects.front().key <= range.after) ||
                           (!page.prefixes.empty() && page.prefixes.front() <= range.after);
    if (!is_before) {
        if (range.token.empty() && !range.after.empty()) shared_->begins = Shared::Begins::where_told;
        return {};
    }
    if (range.token.empty()) shared_->begins = Shared::Begins::elsewhere;
    return fail(EIO, "LIST: the server gives keys again that came before");
}

Result<void> ListingAhead::take(Ranges::iterator range, Listing page) {
    if (auto good = check(*range, page); !good) return good;
    const bool is_truncated = !page.next_token.empty();
    if (is_truncated && page.next_token == range->token)
        return fail(EIO, "LIST: the server repeats its continuation token");
    const auto covered = is_truncated ? end_of(page) : std::string();
    range->token = page.next_token;
    if (is_truncated && covered.empty()) {
        if (++range->empty == kMostEmpty)
            return fail(EIO, "LIST: the server gives pages without a key, and no end");
        return {};
    }
    range->empty = 0;
    shared_->page = memory_of(page);
    largest_ = std::max(largest_, shared_->page.load());
    if (is_truncated && (range->until.empty() || covered < range->until)) {
        range->after = covered;
        ++useful_;
        allow();
        const auto begins = shared_->begins.load();
        const bool may_divide =
            begins == Shared::Begins::where_told || (begins == Shared::Begins::unknown && under_way_ == 0);
        if (divides_ && may_divide) divide(range, page);
        keep(*range, std::move(page), covered);
        return {};
    }
    swallow(range, covered);
    if (!range->until.empty()) cut(page, range->until);
    if (page.objects.empty() && page.prefixes.empty()) useful_ /= 2;
    allow();
    range->is_over = true;
    keep(*range, std::move(page), range->until);
    return {};
}

void ListingAhead::keep(Range& range, Listing page, std::string position) {
    page.next_token = std::move(position);
    range.pages.push_back({{std::move(page), range.asked}, std::exchange(range.charge, 0)});
}

/// The server has not begun where it was told, or not answered. Nothing but the first range has been asked for.
void ListingAhead::unite() {
    divides_ = false;
    allowed_ = 1;
    ranges_.front().until = ranges_.back().until;
    ranges_.erase(std::next(ranges_.begin()), ranges_.end());
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
    is_proving_ = shared_->begins == Shared::Begins::unknown && ranges_.size() > 1;
}

void ListingAhead::allow() {
    allowed_ = std::min(shared_->at_once, std::max(kFirstAtOnce, 2 * useful_));
}

/// What a page shows beyond its range, up to `covered` (empty: to the end), is taken from those behind it of which
/// nothing has come yet. The answer to one that has been asked for is not waited for.
void ListingAhead::swallow(Ranges::iterator range, const std::string& covered) {
    while (std::next(range) != ranges_.end()) {
        const auto next = std::next(range);
        const bool has_come = !next->pages.empty() || next->is_over;
        const bool is_whole = covered.empty() || (!next->until.empty() && next->until <= covered);
        if (has_come || (!is_whole && next->is_touched)) return;
        if (!is_whole) {
            if (covered > next->after) next->after = range->until = covered;
            return;
        }
        range->until = next->until;
        if (next->is_asked) {
            next->is_superseded = true;
            superseded_.splice(superseded_.end(), ranges_, next);
        } else {
            ranges_.erase(next);
        }
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
    const auto now = ListingAhead::Clock::now();
    entries_.push_front({path, position, std::move(listing), now});
    while (entries_.size() > kMost || entries_.back().since + kLongest < now) {
        entries_.back().listing->abandon();
        entries_.pop_back();
    }
}

}  // namespace tierfs::s3
