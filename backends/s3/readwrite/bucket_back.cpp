// Write-back: what is acknowledged here and brought to the bucket later. See posix_bucket.hpp and write_back.hpp.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <utility>

#include "backends/origin/upload_name.hpp"
#include "backends/s3/readwrite/posix_bucket.hpp"
#include "config/base/log.hpp"
#include "config/base/time.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::size_t kMostOfName = 255;

WriteBack::Outcome again(Error error) {
    WriteBack::Outcome outcome;
    outcome.kind = WriteBack::Outcome::Kind::again;
    outcome.error = std::move(error);
    return outcome;
}

WriteBack::Outcome as_done(std::string version) {
    WriteBack::Outcome outcome;
    outcome.version = std::move(version);
    return outcome;
}

/// What the bucket answers where it has something else than was expected.
bool is_refusal(const Error& error) {
    return error.code == EEXIST || error.code == ESTALE;
}

bool is_as_expected(const Result<Facts>& now, const JournalRecord& record) {
    if (!now) return now.error().code == ENOENT && record.expects == JournalRecord::Expects::nothing;
    return record.expects == JournalRecord::Expects::anything ||
           (record.expects == JournalRecord::Expects::version && now->version == record.version);
}

/// An object of that version; empty or weak: nobody could tell it from another.
void expect(JournalRecord& record, const std::string& version) {
    const bool is_told = is_strong_etag(version);
    record.expects = is_told ? JournalRecord::Expects::version : JournalRecord::Expects::anything;
    if (is_told) record.version = version;
}

PutOptions condition_of(const JournalRecord& record) {
    PutOptions condition;
    condition.only_if_absent = record.expects == JournalRecord::Expects::nothing;
    if (record.expects == JournalRecord::Expects::version) condition.only_if_version = record.version;
    return condition;
}

/// NAME.conflict-HOST-TIME, with as much of the name as fits.
std::string conflict_path(const std::string& path, std::size_t most) {
    std::array<char, 256> host{};
    (void)::gethostname(host.data(), host.size() - 1);
    const std::time_t now = std::time(nullptr);
    struct tm utc {};
    ::gmtime_r(&now, &utc);
    std::array<char, 32> time{};
    (void)std::strftime(time.data(), time.size(), "%Y%m%dT%H%M%SZ", &utc);
    const auto ending = std::string(".conflict-") + host.data() + "-" + time.data();
    auto [directory, name] = split_path(path);
    const auto room = std::min(kMostOfName, most - std::min(most, directory.size() + 1));
    if (name.size() + ending.size() > room) {
        name.resize(room - std::min(room, ending.size()));
        // Not in the middle of a character.
        while (!name.empty() && (static_cast<unsigned char>(name.back()) & 0xC0U) == 0x80U) name.pop_back();
        if (!name.empty() && static_cast<unsigned char>(name.back()) >= 0xC0U) name.pop_back();
    }
    return (directory.empty() ? "" : directory + "/") + name + ending;
}

}  // namespace

void PosixBucket::begin_stop() {
    look_at_mapped(true);
    if (back_) back_->begin_stop();
}

void PosixBucket::stop() {
    if (back_) back_->stop();
}

std::uint64_t PosixBucket::hurry() {
    return back_ ? back_->hurry() : 0;
}

Result<std::shared_ptr<LocalCopy>> PosixBucket::make_copy() {
    return back_ ? back_->journal().make() : copies_.make();
}

bool PosixBucket::is_pending(const BucketNode& node) {
    const MutexLock lock(mutex_);
    return node.pending != nullptr;
}

void PosixBucket::give_up_upload(Place place) {
    if (!back_) return;
    const auto node = find(numbers_.number(place));
    WriteBack::EntryPtr pending;
    if (node) {
        const MutexLock lock(mutex_);
        if (!node->has_object) pending = node->pending;
    }
    if (pending) back_->give_up(pending, WriteBack::Clock::now() + calls_.deadline());
}

Result<std::shared_ptr<Draft>> PosixBucket::draft_to_change(const BucketNodePtr& node,
                                                            std::uint64_t at_most) {
    const bool is_resized = at_most != UINT64_MAX;
    const auto own = is_resized ? draft_of(*node) : nullptr;
    const bool needs_none = own && !own->is_frozen() && own->is_changed();  // of what is written already
    if (back_ && !needs_none) {
        if (auto room = wait_for_room(); !room) return fail(std::move(room.error()));
    }
    for (;;) {
        std::shared_ptr<Draft> draft;
        {
            const MutexLock lock(mutex_);
            draft = node->draft;
            if (!draft) return fail(EBADF, "the file is not open for writing");
            if (node->standing == BucketNode::Standing::replaced && !draft->is_changed())
                return fail(ESTALE, "another host has replaced or removed the object since it was opened");
            if (back_) node->changed_after = back_->last();
        }
        if (!draft->is_frozen()) return draft;
        if (auto next = go_on(node, draft, at_most); !next || *next) return next;
    }
}

/// The draft in which a file is changed that has been acknowledged as it was; null: another one has come meanwhile.
Result<std::shared_ptr<Draft>> PosixBucket::go_on(const BucketNodePtr& node,
                                                  const std::shared_ptr<Draft>& frozen,
                                                  std::uint64_t at_most) {
    const PathLocks::Held held(locks_, {change_of(*node)});
    if (draft_of(*node) != frozen) return std::shared_ptr<Draft>();
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    auto next = frozen->go_on(std::move(*copy), at_most);
    if (!next) return next;
    const MutexLock lock(mutex_);
    if (node->draft != frozen) return std::shared_ptr<Draft>();
    node->draft = *next;
    return next;
}

/// What is here becomes durable, and what the bucket gets next; the path must be locked.
Result<void> PosixBucket::acknowledge(const BucketNodePtr& node, const std::string& path, bool is_synced) {
    const auto draft = draft_of(*node);
    if (!draft) return {};
    WriteBack::EntryPtr pending;
    JournalRecord record;
    bool has_object = false;
    {
        const MutexLock lock(mutex_);
        pending = node->pending;
        record.after = node->changed_after;
        has_object = node->has_object;
    }
    const bool is_passed = draft->is_passed_through(), is_changed = draft->is_changed();
    const bool stands_there = pending && (is_passed ? !is_changed : pending->draft == draft);
    if (!stands_there && !is_changed) return {};
    if (stands_there) {
        if (!is_synced || !back_->hold(pending)) return {};
        Result<void> changed;
        if (pending->record.is_light)
            changed = back_->change(pending, [](JournalRecord& its) { its.is_light = false; });
        back_->let_go(pending);
        return changed;
    }
    if (has_object) expect(record, draft->base_version());
    record.path = path;
    record.is_light = !is_synced && draft->size() <= PartSizes::kFirst;
    // A version that nothing was acknowledged after need not be seen by anybody.
    WriteBack::EntryPtr instead;
    if (pending && back_->hold(pending)) {
        if (back_->is_last(pending) && pending->record.path == path) {
            instead = pending;
            record.is_light = record.is_light && pending->record.is_light;
        } else {
            back_->let_go(pending);
        }
    }
    auto done = acknowledge_at(node, draft, std::move(record), instead);
    if (!done && instead) back_->let_go(instead);
    return done;
}

Result<void> PosixBucket::acknowledge_at(const BucketNodePtr& node, const std::shared_ptr<Draft>& draft,
                                         JournalRecord record, const WriteBack::EntryPtr& instead) {
    Result<Draft::Snapshot> still = Draft::Snapshot{draft};
    auto frozen = draft->is_passed_through() ? fail(Draft::kFrozen, "the kernel writes it") : draft->freeze();
    const bool is_passed = !frozen && draft->is_passed_through();
    if (is_passed) still = snapshot_of(*draft);
    if (!still) return fail(std::move(still.error()));
    if (!is_passed && !frozen) return frozen;
    const auto written = is_passed ? back_->last_before(draft->written_ns()) : 0;
    {
        // Of what it has; a mapping may have been written to without moving a time.
        const MutexLock lock(mutex_);
        const auto after = !is_passed ? node->changed_after : node->may_be_mapped ? back_->last() : written;
        record.after = std::max(record.after, after);
    }
    record.metadata = still->draft->metadata();
    record.size = still->draft->size();
    record.bytes = still->draft->copy()->name();
    WriteBack::Entry entry;
    entry.record = std::move(record);
    entry.draft = still->draft;
    entry.node = node;
    auto added = back_->add(std::move(entry), instead);
    // It stays frozen, and whoever changes the file goes on from it.
    if (!added) return fail(std::move(added.error()));
    if (is_passed) draft->kept(*still);
    const MutexLock lock(mutex_);
    node->pending = std::move(*added);  // the path is locked, so that nobody has found it brought there
    return {};
}

Result<void> PosixBucket::amend(const BucketNodePtr& node, Draft& draft,
                                const std::function<Result<void>(Draft&)>& change) {
    WriteBack::EntryPtr pending;
    {
        const MutexLock lock(mutex_);
        pending = node->pending;
    }
    if (!pending || !back_->hold(pending)) return fail(EINPROGRESS, "it is on its way to the bucket");
    auto done = change(draft);
    if (done)
        done = back_->change(pending, [&](JournalRecord& record) { record.metadata = draft.metadata(); });
    back_->let_go(pending);
    return done;
}

/// A removal that the bucket hears of after all that was acknowledged before; the path is locked.
Result<void> PosixBucket::remove_later(const BucketNodePtr& directory, const BucketNodePtr& node,
                                       const std::string& name, const std::string& path, const Facts& there) {
    keep_bytes(node);
    WriteBack::EntryPtr pending;
    bool has_object = true;
    if (node) {
        const MutexLock lock(mutex_);
        pending = node->pending;
        has_object = node->has_object;
    }
    bool was_never_there = false;
    if (pending && back_->hold(pending)) {
        was_never_there = back_->stands_alone(pending) && pending->record.path == path &&
                          pending->record.expects == JournalRecord::Expects::nothing;
        if (was_never_there) {
            if (auto withdrawn = back_->withdraw(pending); !withdrawn) {
                back_->let_go(pending);
                return withdrawn;
            }
            const MutexLock lock(mutex_);
            node->pending = nullptr;
        } else {
            back_->let_go(pending);
        }
    }
    if (!was_never_there && (has_object || back_->at(path))) {
        WriteBack::Entry entry;
        entry.record.kind = JournalRecord::Kind::remove;
        entry.record.path = path;
        entry.record.after = back_->last();
        // Of one that is being changed: what it was made of.
        const auto draft = node ? draft_of(*node) : nullptr;
        expect(entry.record, draft ? draft->base_version() : there.version);
        entry.directory = directory;
        if (auto added = back_->add(std::move(entry)); !added) return fail(std::move(added.error()));
    }
    recent_->forget(path);
    unlinked(node, *directory, name, there);
    return {};
}

/// A file that the bucket does not have yet has its new name at once; both paths are locked.
Result<void> PosixBucket::move_here(Move& move) {
    std::shared_ptr<Draft> draft;
    WriteBack::EntryPtr pending;
    {
        const MutexLock lock(mutex_);
        draft = move.node->draft;
        pending = move.node->pending;
        move.node->is_unasked |= is_away();
    }
    const auto in_the_way = [] { return fail(EINPROGRESS, "it is on its way to the bucket"); };
    if (!draft) return in_the_way();
    if (pending && !back_->hold(pending)) return in_the_way();
    // What came before it at its old name would be left there.
    const auto last = back_->at(move.from);
    const bool is_first = back_->is_new(pending ? pending : last);
    if (!is_first) {
        if (pending) back_->let_go(pending);
        return in_the_way();
    }
    keep_bytes(move.replaced_node);
    JournalRecord record;
    record.path = move.to;
    record.after = back_->last();
    if (move.replaced.is_there()) {
        std::shared_ptr<Draft> local;
        bool has_object = true;
        if (move.replaced_node) {
            const MutexLock lock(mutex_);
            has_object = move.replaced_node->has_object;
            if (move.replaced_node->is_local()) local = move.replaced_node->draft;
        }
        if (has_object) expect(record, local ? local->base_version() : move.replaced.version);
    }
    if (auto done = acknowledge_at(move.node, draft, std::move(record), pending); !done) {
        if (pending) back_->let_go(pending);
        return done;
    }
    draft->set_path(move.to);
    recent_->forget(move.to);
    moved(move);
    return {};
}

WriteBack::Outcome PosixBucket::bring(const WriteBack::Entry& entry) {
    if (entry.record.is_of_directory()) return bring_directory(entry);
    return entry.record.kind == JournalRecord::Kind::put ? bring_file(entry) : bring_removal(entry);
}

/// Between two requests where the server does not know conditions.
Result<Facts> PosixBucket::put_as_expected(const WriteBack::Entry& entry) {
    const auto& record = entry.record;
    auto facts = entry.draft->publish(record.path, condition_of(record));
    if (facts || facts.error().code != EOPNOTSUPP) return facts;
    const auto now = calls_.head(record.path);
    if (!now && now.error().code != ENOENT) return fail(now.error());
    if (!is_as_expected(now, record)) return fail(ESTALE, "another host has put another object there");
    return entry.draft->publish(record.path, {});
}

WriteBack::Outcome PosixBucket::bring_file(const WriteBack::Entry& entry) {
    const auto& record = entry.record;
    const auto is_directory = has_become_directory(entry);
    if (!is_directory) return again(is_directory.error());
    if (*is_directory) return keep_beside(entry);
    auto facts = put_as_expected(entry);
    if (!facts && is_refusal(facts.error())) {
        // It may be what was put there by a request whose answer nobody heard, or by a daemon that died then.
        auto there = calls_.head(record.path);
        const bool is_ours =
            there && there->size == record.size && there->metadata == entry.draft->metadata();
        if (!there && there.error().code != ENOENT) return again(there.error());
        if (!is_ours) return keep_beside(entry);
        entry.draft->found_published({record.path, *there});
        facts = std::move(there);
    }
    if (!facts) {
        auto outcome = again(facts.error());
        outcome.is_untouched = facts.error().code == ECANCELED;
        return outcome;
    }
    brought(entry, *facts);
    return as_done(is_strong_etag(facts->version) ? facts->version : "");
}

/// One that another host has made meanwhile is as good.
WriteBack::Outcome PosixBucket::bring_directory(const WriteBack::Entry& entry) {
    const auto& node = entry.node;
    const auto place = this->place(*node);
    const auto asked_at = known_.moment(place);
    auto facts = put_as_expected(entry);
    if (!facts && is_refusal(facts.error())) facts = calls_.head(entry.record.path);
    if (!facts) {
        auto outcome = again(facts.error());
        outcome.is_untouched = facts.error().code == ECANCELED;
        return outcome;
    }
    const PathLocks::Held held(locks_, {{entry.record.path.substr(0, entry.record.path.size() - 1), false}});
    facts->kind = Facts::Kind::directory;
    facts->has_marker = true;
    known_.put_answer(place, std::move(*facts), asked_at);
    std::shared_ptr<Draft> given_up;  // after the lock
    const MutexLock lock(mutex_);
    node->has_object = true;
    fresh_.erase(node->inode);
    if (node->pending.get() != &entry) return as_done("");
    node->pending = nullptr;
    given_up = std::move(node->draft);
    node->draft = nullptr;
    return as_done("");
}

/// Another host's object stays where it is.
WriteBack::Outcome PosixBucket::keep_beside(const WriteBack::Entry& entry) {
    PutOptions condition;
    condition.only_if_absent = true;
    const auto path = conflict_path(entry.record.path, BucketCalls::kLongestKey - (calls_.key("").size()));
    auto kept = entry.draft->publish(path, condition);
    if (!kept && kept.error().code == EOPNOTSUPP) kept = entry.draft->publish(path, {});
    if (!kept) return again(kept.error());
    log::error(entry.record.path +
               ": another host has changed it since; its object stays, and what was written here is at " +
               path);
    refused(entry);
    WriteBack::Outcome outcome;
    outcome.kind = WriteBack::Outcome::Kind::conflict;
    return outcome;
}

WriteBack::Outcome PosixBucket::bring_removal(const WriteBack::Entry& entry) {
    const auto& record = entry.record;
    if (record.expects == JournalRecord::Expects::nothing) return as_done("");
    auto kept = keep_parent(entry.directory, record.path);
    if (!kept && kept.error().code != ESTALE) return again(kept.error());
    bool is_ours = true;
    if (record.expects == JournalRecord::Expects::version) {
        const auto removed = calls_.remove_version(record.path, record.version);
        if (!removed && removed.error().code != ENOENT) return again(removed.error());
        is_ours = !removed || *removed;
    } else if (auto removed = calls_.remove(record.path); !removed) {
        return again(removed.error());
    }
    const auto name = split_path(record.path).name;
    if (is_ours) {
        known_.put(entry.directory->inode, name, Facts());
        return as_done("");
    }
    log::error(record.path + ": another host has changed it since it was removed here, and its object stays");
    known_.drop(place_of(entry.directory->inode, name));
    WriteBack::Outcome outcome;
    outcome.kind = WriteBack::Outcome::Kind::conflict;
    return outcome;
}

/// The file is the object from now on, as far as nothing newer is here.
void PosixBucket::brought(const WriteBack::Entry& entry, const Facts& facts) {
    const auto& node = entry.node;
    entry.draft->hand_base_on();
    const PathLocks::Held held(locks_, {{entry.record.path, false}, change_of(*node)});
    const auto path = path_of(*node);
    if (path && *path == entry.record.path) {
        put_own(node, facts);
    } else {
        const MutexLock lock(mutex_);
        node->has_object = true;
    }
    std::optional<RecentCopy> copy;
    std::shared_ptr<Draft> given_up;  // after the lock
    {
        const MutexLock lock(mutex_);
        if (node->pending.get() == &entry) node->pending = nullptr;
        const bool is_passed = node->draft && node->draft->is_passed_through();
        if (node->draft != entry.draft && !is_passed) return;
        const bool is_read = node->standing != BucketNode::Standing::named && node->opens != 0;
        if (!is_passed && (node->writers != 0 || is_read)) return;
        if (!is_passed) given_up = std::move(node->draft);
        if (!is_passed) node->draft = nullptr;
    }
    if (path) copy = entry.draft->whole_copy();
    if (copy) recent_->add(std::move(*copy));
}

/// It may be changed in place: no record needs its bytes as they are.
void PosixBucket::settled(const WriteBack::Entry& entry) {
    if (!entry.node) return;
    const MutexLock lock(mutex_);
    if (entry.node->draft == entry.draft && !entry.node->pending) entry.draft->unfreeze();
}

/// The name leads to the other host's object from now on.
void PosixBucket::refused(const WriteBack::Entry& entry) {
    const auto& node = entry.node;
    const PathLocks::Held held(locks_, {{entry.record.path, false}});
    known_.drop(place(*node));
    const auto path = path_of(*node);
    if (path && *path == entry.record.path) replaced(node);
    std::shared_ptr<Draft> given_up;  // after the lock
    const MutexLock lock(mutex_);
    node->is_conflict_untold = true;
    fresh_.erase(node->inode);
    if (node->pending.get() != &entry) return;
    node->pending = nullptr;
    if (node->opens != 0 || node->draft != entry.draft) return;
    given_up = std::move(node->draft);
    node->draft = nullptr;
}

}  // namespace tierfs::s3
