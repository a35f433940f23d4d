#include "fs/metadata/pages_ahead.hpp"

#include <algorithm>
#include <utility>

namespace tierfs {
namespace {

/// The entries' time ran while the page waited.
void age(PagesAhead::Items& items, std::int64_t waited_ns) {
    const auto waited = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(waited_ns));
    for (DirectoryItem& item : items) {
        auto& left = item.view.valid_for;
        if (left != kForever) left = std::max(left - waited, std::chrono::milliseconds(0));
    }
}

}  // namespace

PagesAhead::Page* PagesAhead::find(const Key& key) {
    const auto found =
        std::find_if(pages_.begin(), pages_.end(), [&](const Page& page) { return page.key == key; });
    return found == pages_.end() ? nullptr : &*found;
}

bool PagesAhead::is_old(const Page& page, const Moment& now) {
    // A clock that went back tells nothing.
    return now.now_ns < page.made.now_ns || now.now_ns - page.made.now_ns > kLongest;
}

PagesAhead::Page* PagesAhead::place_for(const Moment& now) {
    Page* place = nullptr;
    for (Page& page : pages_) {
        if (page.key.directory == 0) return &page;
        if (!page.ready || page.wanted) continue;
        if (is_old(page, now) || page.made.changes != now.changes) return &page;
        if (place == nullptr || page.made.now_ns < place->made.now_ns) place = &page;
    }
    return place;
}

std::optional<PagesAhead::Items> PagesAhead::take(const Key& key, const Moment& now) {
    std::optional<Items> items;
    MutexLock lock(mutex_);
    Page* page = find(key);
    if (page == nullptr || page->wanted) return std::nullopt;  // one waits; another reads for himself
    page->wanted = true;
    while (!page->ready) lock.wait(ready_);
    Page taken = std::exchange(*page, Page{});
    const bool is_spoilt = taken.made.changes != now.changes;
    if (is_spoilt) spoilt_ns_ = now.now_ns;
    lock.unlock();
    if (is_spoilt || is_old(taken, now) || !taken.items) return std::nullopt;
    items = std::move(taken.items);
    age(*items, now.now_ns - taken.made.now_ns);
    return items;
}

void PagesAhead::make(const Key& key, const Moment& now, const std::function<Result<Items>()>& read) {
    Page* page = nullptr;
    {
        const MutexLock lock(mutex_);
        const bool pauses = now.now_ns >= spoilt_ns_ && now.now_ns - spoilt_ns_ < kPause;
        if (pauses || key.limit > kLargest || find(key) != nullptr) return;
        page = place_for(now);
        if (page == nullptr) return;
        *page = Page{key, now, false, false, std::nullopt};
    }
    auto items = read();
    const MutexLock lock(mutex_);
    page->ready = true;
    if (items) page->items = std::move(*items);
    if (page->wanted) {
        ready_.notify_all();
    } else if (!page->items) {
        *page = Page{};
    }
}

}  // namespace tierfs
