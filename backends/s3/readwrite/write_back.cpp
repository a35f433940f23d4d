#include "backends/s3/readwrite/write_back.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/s3/readwrite/draft.hpp"
#include "config/base/log.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::chrono::milliseconds kLongestLinger{10000};
constexpr std::chrono::milliseconds kFirstPause{1000}, kLongestPause{60000};
constexpr unsigned kMostDoublings = 6;
constexpr std::chrono::milliseconds kBetweenWaits{500};
constexpr std::size_t kMostLooks = 1024;  // entries, for one that may be begun
std::chrono::milliseconds pause_after(unsigned failures) {
    return std::min(kLongestPause, kFirstPause * (1U << std::min(failures - 1, kMostDoublings)));
}

}  // namespace

WriteBack::WriteBack(std::unique_ptr<Journal> journal, CarryOut carry_out, Settled settled, Waits waits)
    : journal_(std::move(journal)),
      carry_out_(std::move(carry_out)),
      settled_(std::move(settled)),
      waits_(std::move(waits)),
      last_(journal_->last_found()) {}

void WriteBack::begin_stop() {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
}

void WriteBack::stop() {
    begin_stop();
    std::vector<std::thread> threads;
    {
        const MutexLock lock(mutex_);
        threads.swap(threads_);
    }
    for (auto& thread : threads) thread.join();
}

WriteBack::Class WriteBack::class_of(const JournalRecord& record) {
    if (record.kind == JournalRecord::Kind::remove) return removal;
    return record.is_light ? light : heavy;
}

void WriteBack::insert(const EntryPtr& entry) {
    const auto& record = entry->record;
    note_time(*entry);
    entries_.emplace(record.sequence, entry);
    by_class_.at(class_of(record)).insert(record.first);
    bytes_ += record.size;
    auto& last = by_path_[record.path];
    if (!last || last->record.sequence < record.sequence) last = entry;
}

void WriteBack::erase(const EntryPtr& entry) {
    const auto& record = entry->record;
    if (entries_.erase(record.sequence) == 0) return;
    entry->state = Entry::State::done;
    by_class_.at(class_of(record)).erase(record.first);
    bytes_ -= record.size;
    const auto former = std::move(entry->former);
    const auto last = by_path_.find(record.path);
    if (last == by_path_.end() || last->second != entry) return;
    // What came before it at its path, where it is withdrawn or replaced, is the last again.
    if (former && former->state != Entry::State::done) {
        last->second = former;
    } else {
        by_path_.erase(last);
    }
}

void WriteBack::begin_thread() {
    if (idle_ == 0 && threads_.size() < kMostAtOnce && !is_stopping_)
        threads_.emplace_back([this] { run(); });
}

/// The first sequence that something stands for which is not done; beyond all where there is nothing.
std::uint64_t WriteBack::oldest() const {
    auto oldest = last_.load(std::memory_order_acquire) + 1;
    for (const auto& sequences : by_class_) {
        if (!sequences.empty()) oldest = std::min(oldest, *sequences.begin());
    }
    return oldest;
}

/// A conflict is one for what the same file was made of since then, and not for another one that has come to its name.
bool WriteBack::is_taken_over(const Entry& next, const Entry& former, bool is_conflict) {
    return !is_conflict || (next.node && next.node == former.node);
}

void WriteBack::take_over(JournalRecord& record, const Entry& former) {
    record.expects = former.left;
    record.version = former.left_version;
}

Result<WriteBack::EntryPtr> WriteBack::add(Entry made, const EntryPtr& instead) {
    if (!instead) return add_now(std::move(made), nullptr);
    const MutexLock one_at_a_time(changing_);
    return add_now(std::move(made), instead);
}

Result<WriteBack::EntryPtr> WriteBack::add_now(Entry made, EntryPtr instead) {
    const auto entry = std::make_shared<Entry>(std::move(made));
    auto& record = entry->record;
    const bool changes_alone =
        instead != nullptr;  // so that what was before it is settled after it, and finds it
    const auto now = Clock::now();
    // What is written all the time is brought there now and then.
    entry->since = instead ? instead->since : now;
    entry->due = std::min(now + kLinger, entry->since + kLongestLinger);
    record.made_ns = instead ? instead->record.made_ns : wall_clock_ns();
    {
        const MutexLock lock(mutex_);
        record.sequence = last_.fetch_add(1, std::memory_order_acq_rel) + 1;
        const bool is_same_path = instead && instead->record.path == record.path;
        // What was acknowledged since then may rely on it.
        if (is_same_path && instead->record.sequence + 1 != record.sequence) {
            instead->state = Entry::State::queued;
            instead = nullptr;
        }
        record.replaces = instead ? instead->record.sequence : 0;
        // From now on others may know of it. Who knew of what it replaces waits for it, where nobody else came between.
        const bool is_in_place = instead && instead->record.sequence + 1 == record.sequence;
        record.first = is_in_place ? instead->record.first : record.sequence;
        if (is_in_place) entry->acknowledged_ns = instead->acknowledged_ns;
        if (is_in_place) entry->clock_offset_ns = instead->clock_offset_ns;
        if (!is_in_place) by_class_.at(class_of(record)).insert(record.first);
        if (instead && is_same_path) {
            record.expects = instead->record.expects;
            record.version = instead->record.version;
            entry->former = instead->former;
        } else if (const auto last = by_path_.find(record.path); last != by_path_.end()) {
            entry->former = last->second;
        }
    }
    const auto copy = entry->draft ? entry->draft->copy() : nullptr;
    auto added = journal_->add(record, copy.get());
    MutexLock lock(mutex_);
    // What was before it may have been carried out and settled meanwhile; not where somebody changes the journal.
    const auto& former = entry->former;
    const bool is_alone = added && !changes_alone && former && former->is_left;
    if (is_alone && is_taken_over(*entry, *former, former->is_conflict)) {
        take_over(record, *former);
        lock.unlock();
        added = journal_->change(record);
        if (!added && journal_->done(record.sequence) && copy) copy->let_go();
        lock.lock();
    }
    if (!added) {
        if (!instead || record.first != instead->record.first)
            by_class_.at(class_of(record)).erase(record.first);
        changed_.notify_all();
        return fail(std::move(added.error()));
    }
    if (instead) {
        if (instead->draft) instead->draft->copy()->let_go();
        erase(instead);
    }
    insert(entry);
    begin_thread();
    changed_.notify_all();
    return entry;
}

WriteBack::EntryPtr WriteBack::add_found(Entry found) {
    auto entry = std::make_shared<Entry>(std::move(found));
    entry->since = entry->due = Clock::now();
    const auto made = entry->record.made_ns;
    if (made > 0) entry->since -= std::chrono::nanoseconds(std::max<std::int64_t>(0, wall_clock_ns() - made));
    entry->was_begun = true;  // perhaps by who died then
    const MutexLock lock(mutex_);
    if (const auto last = by_path_.find(entry->record.path); last != by_path_.end())
        entry->former = last->second;
    insert(entry);
    return entry;
}

bool WriteBack::hold(const EntryPtr& entry) {
    const MutexLock lock(mutex_);
    if (entry->state != Entry::State::queued || entry->was_begun) return false;
    entry->state = Entry::State::held;
    return true;
}

void WriteBack::give_up(const EntryPtr& entry, Clock::time_point deadline) {
    MutexLock lock(mutex_);
    const bool has_parts = entry->draft && entry->record.size > PartSizes::kFirst;
    if (!has_parts || entry->state != Entry::State::running) return;
    entry->draft->give_up();
    while (entry->state == Entry::State::running && !is_stopping_) {
        if (lock.wait_until(changed_, deadline) == std::cv_status::timeout && Clock::now() >= deadline)
            return;
    }
}

void WriteBack::let_go(const EntryPtr& entry) {
    const MutexLock lock(mutex_);
    if (entry->state == Entry::State::held) entry->state = Entry::State::queued;
    changed_.notify_all();
}

Result<void> WriteBack::withdraw(const EntryPtr& entry) {
    const MutexLock one_at_a_time(changing_);
    if (auto removed = journal_->done(entry->record.sequence); !removed) {
        (void)journal_->change(entry->record);  // it stands, if it is gone already
        return removed;
    }
    if (entry->draft) entry->draft->copy()->let_go();
    const MutexLock lock(mutex_);
    erase(entry);
    changed_.notify_all();
    return {};
}

bool WriteBack::is_last(const EntryPtr& entry) const {
    return entry->record.sequence == last_.load(std::memory_order_acquire);
}

bool WriteBack::stands_alone(const EntryPtr& entry) {
    const MutexLock lock(mutex_);
    const bool is_first = !entry->former || entry->former->state == Entry::State::done;
    return is_first && is_last(entry);
}

bool WriteBack::is_new(const EntryPtr& entry) {
    if (!entry || entry->record.kind == JournalRecord::Kind::remove) return true;
    const MutexLock lock(mutex_);
    if (entry->was_begun) return false;
    const auto& former = entry->former;
    const bool is_waited_for = former && former->state != Entry::State::done;
    return is_waited_for ? former->record.kind == JournalRecord::Kind::remove
                         : entry->record.expects == JournalRecord::Expects::nothing;
}

Result<void> WriteBack::change(const EntryPtr& entry, const std::function<void(JournalRecord&)>& change) {
    const MutexLock one_at_a_time(changing_);
    JournalRecord record;
    {
        const MutexLock lock(mutex_);
        record = entry->record;
    }
    change(record);
    if (auto changed = journal_->change(record); !changed) return changed;
    const MutexLock lock(mutex_);
    if (entry->state == Entry::State::done) return {};
    by_class_.at(class_of(entry->record)).erase(entry->record.first);
    by_class_.at(class_of(record)).insert(record.first);
    bytes_ += record.size - entry->record.size;
    entry->record = std::move(record);
    return {};
}

WriteBack::EntryPtr WriteBack::at(const std::string& path) {
    const MutexLock lock(mutex_);
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? nullptr : found->second;
}

bool WriteBack::is_removed(const std::string& path) {
    const MutexLock lock(mutex_);
    const auto found = by_path_.find(path);
    return found != by_path_.end() && found->second->record.kind == JournalRecord::Kind::remove;
}

std::vector<std::string> WriteBack::removed_below(const std::string& marker) {
    std::vector<std::string> removed;
    const MutexLock lock(mutex_);
    if (by_class_.at(removal).empty()) return removed;
    for (const auto& [path, entry] : by_path_) {
        if (entry->record.kind == JournalRecord::Kind::remove && path.starts_with(marker))
            removed.push_back(path);
    }
    return removed;
}

std::size_t WriteBack::size() {
    const MutexLock lock(mutex_);
    return entries_.size();
}

bool WriteBack::is_done_to(std::uint64_t sequence) {
    const MutexLock lock(mutex_);
    return oldest() > sequence;
}

bool WriteBack::is_queued_below(const std::string& path) {
    const MutexLock lock(mutex_);
    return std::any_of(by_path_.begin(), by_path_.end(), [&](const auto& one) {
        const auto& queued = one.first;
        return queued.starts_with(path) && (queued.size() == path.size() || queued[path.size()] == '/');
    });
}

bool WriteBack::may_begin(const Entry& entry) const {
    const auto& record = entry.record;
    if (entry.former && entry.former->state != Entry::State::done) return false;
    const auto own = class_of(record);
    for (std::size_t other = 0; other < by_class_.size(); ++other) {
        const auto& sequences = by_class_.at(other);
        if (other == own && own != heavy) continue;
        auto first = sequences.begin();
        if (first != sequences.end() && other == own && *first == record.first) ++first;
        if (first != sequences.end() && *first <= record.after) return false;
    }
    return true;
}

/// The first that is due and need not wait for others. `wake`: when to look again, if nothing happens before.
WriteBack::EntryPtr WriteBack::next(Clock::time_point now, Clock::time_point& wake) {
    if (waits_ && waits_()) {
        wake = std::min(wake, now + kBetweenWaits);
        return nullptr;
    }
    std::size_t looks = 0;
    for (const auto& [sequence, entry] : entries_) {
        if (++looks > kMostLooks) break;
        if (entry->state != Entry::State::queued || !may_begin(*entry)) continue;
        if (entry->due <= now) return entry;
        wake = std::min(wake, entry->due);
    }
    return nullptr;
}

void WriteBack::run() {
    MutexLock lock(mutex_);
    while (!is_stopping_) {
        auto wake = Clock::now() + kLongestPause;
        auto entry = next(Clock::now(), wake);
        if (!entry) {
            ++idle_;
            (void)lock.wait_until(changed_, wake);
            --idle_;
            continue;
        }
        entry->state = Entry::State::running;
        entry->was_begun_before = std::exchange(entry->was_begun, true);
        ++running_;
        begin_thread();  // for what else may be begun
        lock.unlock();
        carry_out_and_settle(entry);
        lock.lock();
    }
}

/// What comes next at its path must find there what this has left: null where nothing does, or need not.
WriteBack::EntryPtr WriteBack::next_at_its_path(const EntryPtr& entry) {
    const auto last = by_path_.find(entry->record.path);
    if (last == by_path_.end() || last->second == entry) return nullptr;
    for (auto at = entries_.upper_bound(entry->record.sequence); at != entries_.end(); ++at) {
        const auto& next = at->second;
        if (next->former == entry) return is_taken_over(*next, *entry, entry->is_conflict) ? next : nullptr;
    }
    return nullptr;
}

/// It has been carried out, and the journal is to know: first what comes next at its path expects what it has left there,
/// then its record goes. In the middle of that both make sense after a power cut.
Result<void> WriteBack::settle(const EntryPtr& entry) {
    EntryPtr next;
    JournalRecord record;
    {
        const MutexLock lock(mutex_);
        next = next_at_its_path(entry);
        if (next) {
            take_over(next->record, *entry);
            record = next->record;
        }
    }
    if (next) {
        if (auto changed = journal_->change(record); !changed) return changed;
    }
    return journal_->done(entry->record.sequence);
}

void WriteBack::leave(Entry& entry, const Outcome& outcome) {
    using Expects = JournalRecord::Expects;
    const bool is_removed = entry.record.kind == JournalRecord::Kind::remove;
    entry.left = is_removed                ? Expects::nothing
                 : outcome.version.empty() ? Expects::anything
                                           : Expects::version;
    entry.left_version = outcome.version;
    entry.is_conflict = outcome.kind == Outcome::Kind::conflict;
    // Another host's object stays, and refuses what the same file was written to since then, too.
    if (entry.is_conflict) {
        entry.left = entry.record.expects;
        entry.left_version = entry.record.version;
    }
    entry.is_left = true;
}

/// `failed`: null where the bucket has nothing of it.
void WriteBack::queue_again(const EntryPtr& entry, const Error* failed) {
    const MutexLock lock(mutex_);
    --running_;
    if (failed == nullptr) {
        entry->was_begun = entry->was_begun_before;
        // Whoever wanted that asks the bucket for names before he has it.
        entry->due = Clock::now() + kLongestLinger;
    } else {
        if (entry->failures++ == 0 || entry->error != failed->message)
            log::error(entry->record.path +
                       (entry->is_left
                            ? " is at the bucket, and stays in the journal: "
                            : " cannot be brought to the bucket yet, and is kept in the journal: ") +
                       failed->message);
        entry->error = failed->message;
        entry->due = Clock::now() + pause_after(entry->failures);
    }
    entry->state = Entry::State::queued;
    changed_.notify_all();
}

/// Nothing that comes after an entry is begun before the journal has settled it: a queue whose journal fails stops there.
void WriteBack::carry_out_and_settle(const EntryPtr& entry) {
    bool is_left = false;
    {
        const MutexLock lock(mutex_);
        is_left = entry->is_left;
    }
    if (!is_left) {
        const auto outcome = carry_out_(*entry);
        if (outcome.kind == Outcome::Kind::again)
            return queue_again(entry, outcome.is_untouched ? nullptr : &outcome.error);
        const MutexLock lock(mutex_);
        leave(*entry, outcome);
    }
    const MutexLock one_at_a_time(changing_);
    if (const auto settled = settle(entry); !settled) return queue_again(entry, &settled.error());
    if (entry->draft) entry->draft->copy()->let_go();
    if (settled_) settled_(*entry);
    const MutexLock lock(mutex_);
    --running_;
    ++done_;
    conflicts_ += entry->is_conflict ? 1 : 0;
    erase(entry);
    changed_.notify_all();
}

}  // namespace tierfs::s3
