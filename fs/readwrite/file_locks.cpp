#include "fs/readwrite/file_locks.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tierfs {

namespace {

using Kind = FileLock::Kind;

constexpr FileLock kAll{Kind::shared, 0, FileLock::kEnd, 0};

bool excludes(Kind one, Kind other) {
    return FileLock{one}.excludes(FileLock{other});
}

}  // namespace

bool FileLocks::are_held() const {
    return std::any_of(owners_.begin(), owners_.end(),
                       [](const auto& owner) { return !owner.second.ranges.empty(); }) ||
           std::any_of(wholes_.begin(), wholes_.end(),
                       [](const auto& whole) { return whole.second.kind != Kind::none; });
}

bool LockChange::gave_way() const {
    return std::any_of(before.begin(), before.end(),
                       [](const FileLock& piece) { return piece.kind != Kind::none; });
}

void FileLocks::Owner::set(std::uint64_t handle, const FileLock& lock) {
    ranges.set(lock);
    for (auto& [other, set] : through) set.set({Kind::none, lock.first, lock.last, 0});
    if (lock.kind != Kind::none) through[handle].set(lock);
    std::erase_if(through, [](const auto& one) { return one.second.empty(); });
}

void FileLocks::Owner::released(std::uint64_t handle) {
    const auto found = through.find(handle);
    if (found == through.end()) return;
    for (const auto& range : found->second.all()) {
        const FileLock gone{Kind::none, range.first, range.last, 0};
        (void)on->set(gone);  // at the latest it ends with the owner
        ranges.set(gone);
    }
    through.erase(found);
}

Result<LockChange> FileLocks::set(const LockAsker& asker, const LockWish& wish) {
    const auto who = wish.whole ? asker.handle : asker.owner;
    const FileLock range = wish.whole ? kAll : FileLock{Kind::shared, wish.lock.first, wish.lock.last, 0};
    auto changed = wish.whole ? set_whole(asker, wish.lock.kind) : set_range(asker, wish.lock);
    if (!changed) return changed;
    is_news(wish.whole, who, range);
    if (wish.lock.kind == Kind::none) return changed;
    closing_.erase(asker.handle);  // it is open, then
    changed->left = std::make_shared<LockRanges>();
    changed->left->set(range);
    changes_.push_back({wish.whole, who, changed->left});
    return changed;
}

void FileLocks::is_news(bool whole, std::uint64_t who, const FileLock& range) {
    std::erase_if(changes_, [&](const Change& change) {
        const auto left = change.left.lock();
        if (left && change.whole == whole && change.who == who)
            left->set({Kind::none, range.first, range.last, 0});
        return !left || left->empty();
    });
}

Result<void> FileLocks::prepare(Owner& owner, const LockAsker& asker, const FileLock& lock) {
    const bool is_exclusive = lock.kind == Kind::exclusive;
    if (owner.on && (owner.can_write || !is_exclusive)) return {};
    auto opened = asker.file->open_locks(asker.can_write);
    if (!opened) return fail(std::move(opened.error()));
    // All that it has is shared, and so can be had twice.
    for (const auto& range : owner.ranges.all()) {
        if (auto again = (*opened)->set(range); !again) return again;
    }
    owner.on = std::move(*opened);
    owner.can_write = asker.can_write;
    return {};
}

Result<LockChange> FileLocks::set_range(const LockAsker& asker, const FileLock& lock) {
    const auto found = owners_.find(asker.owner);
    const bool is_known = found != owners_.end();
    if (!is_known && lock.kind == Kind::none) return LockChange{};
    Owner newcomer;
    Owner& owner = is_known ? found->second : newcomer;
    if (auto prepared = prepare(owner, asker, lock); !prepared) return fail(std::move(prepared.error()));
    if (auto done = owner.on->set(lock); !done) return fail(std::move(done.error()));
    LockChange change{owner.ranges.within(lock), owner.on, nullptr};
    owner.set(asker.handle, lock);
    if (lock.kind != Kind::none) owner.pid = asker.pid;
    if (!is_known) {
        owners_.emplace(asker.owner, std::move(newcomer));
    } else if (owner.ranges.empty()) {
        owners_.erase(found);
    }
    return change;
}

Result<LockChange> FileLocks::set_whole(const LockAsker& asker, Kind kind) {
    const auto found = wholes_.find(asker.handle);
    if (kind == Kind::none) {
        if (found == wholes_.end()) return LockChange{};
        LockChange change{{{found->second.kind}}, nullptr, nullptr};
        wholes_.erase(found);  // closing it lets go
        return change;
    }
    Whole whole;
    if (found != wholes_.end()) {
        whole = found->second;
    } else {
        auto opened = asker.file->open_locks(asker.can_write);
        if (!opened) return fail(std::move(opened.error()));
        whole.on = std::move(*opened);
    }
    if (auto done = whole.on->set_whole(kind); !done) {
        // What it had is lost on some file systems: it is, then, on all.
        if (done.error().code == EAGAIN && found != wholes_.end()) {
            wholes_.erase(found);
            is_news(true, asker.handle, kAll);
        }
        return fail(std::move(done.error()));
    }
    LockChange change{{{whole.kind}}, whole.on, nullptr};
    whole.kind = kind;
    wholes_[asker.handle] = std::move(whole);
    return change;
}

void FileLocks::undo(const LockAsker& asker, const LockWish& wish, const LockChange& change) {
    // What was let go might not be had again, and to have less is right for who does not know what he has.
    if (wish.lock.kind == Kind::none || !change.left) return;
    const LockRanges left = *change.left;  // set() is news, too
    for (const auto& piece : change.before) {
        if (piece.kind == Kind::exclusive && wish.lock.kind == Kind::shared) continue;
        for (const auto& range : left.all()) {
            const FileLock part{piece.kind, std::max(piece.first, range.first),
                                std::min(piece.last, range.last), 0};
            if (part.first <= part.last) (void)set(asker, {wish.whole, part});
        }
    }
}

Result<FileLock> FileLocks::in_the_way(const LockAsker& asker, const FileLock& lock) {
    const auto known = owners_.find(asker.owner);
    PosixLocksPtr on = known != owners_.end() ? known->second.on : nullptr;
    if (!on) {
        auto opened = asker.file->open_locks(false);
        if (!opened && asker.can_write) opened = asker.file->open_locks(true);
        if (!opened) return fail(std::move(opened.error()));
        on = std::move(*opened);
    }
    auto found = on->in_the_way(lock);
    if (!found || found->kind == Kind::none || found->pid > 0) return found;
    // A description's, and so perhaps one of ours.
    for (const auto& [id, owner] : owners_) {
        if (id == asker.owner) continue;
        const FileLock* const ours = owner.ranges.in_the_way(lock);
        if (ours == nullptr || ours->first != found->first || ours->last != found->last) continue;
        found->pid = owner.pid;
        break;
    }
    return found;
}

bool FileLocks::is_ours_in_the_way(const LockAsker& asker, const LockWish& wish) const {
    if (wish.whole)
        return std::any_of(wholes_.begin(), wholes_.end(), [&](const auto& one) {
            return one.first != asker.handle && excludes(one.second.kind, wish.lock.kind);
        });
    return std::any_of(owners_.begin(), owners_.end(), [&](const auto& one) {
        return one.first != asker.owner && one.second.ranges.in_the_way(wish.lock) != nullptr;
    });
}

bool FileLocks::is_closing(std::uint64_t handle, Clock::time_point now) const {
    const auto found = closing_.find(handle);
    return found != closing_.end() && now - found->second < kClosing;
}

bool FileLocks::is_leaving(const LockAsker& asker, const LockWish& wish, Clock::time_point now) const {
    if (closing_.empty() || !is_ours_in_the_way(asker, wish)) return false;
    if (wish.whole)
        return std::all_of(wholes_.begin(), wholes_.end(), [&](const auto& one) {
            return one.first == asker.handle || !excludes(one.second.kind, wish.lock.kind) ||
                   is_closing(one.first, now);
        });
    return std::all_of(owners_.begin(), owners_.end(), [&](const auto& one) {
        const auto& [id, owner] = one;
        return id == asker.owner || owner.ranges.in_the_way(wish.lock) == nullptr ||
               std::all_of(owner.through.begin(), owner.through.end(), [&](const auto& through) {
                   return through.second.in_the_way(wish.lock) == nullptr || is_closing(through.first, now);
               });
    });
}

void FileLocks::flushed(std::uint64_t owner, std::uint64_t handle, Clock::time_point now) {
    owners_.erase(owner);
    is_news(false, owner, kAll);
    const bool has_more = wholes_.contains(handle) ||
                          std::any_of(owners_.begin(), owners_.end(),
                                      [&](const auto& one) { return one.second.through.contains(handle); });
    if (has_more) closing_[handle] = now;
}

// An owner that is a process has lost its locks by then, since each of its descriptors was closed; what is
// left belongs to the open file itself.
void FileLocks::released(std::uint64_t handle) {
    wholes_.erase(handle);
    is_news(true, handle, kAll);
    closing_.erase(handle);
    for (auto& [id, owner] : owners_) {
        const auto found = owner.through.find(handle);
        if (found == owner.through.end()) continue;
        for (const auto& range : found->second.all()) is_news(false, id, range);
        owner.released(handle);
    }
    std::erase_if(owners_, [](const auto& one) { return one.second.ranges.empty(); });
}

}  // namespace tierfs
