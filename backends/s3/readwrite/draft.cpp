#include "backends/s3/readwrite/draft.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "config/base/sync_point.hpp"
#include "config/base/time.hpp"
#include "config/base/units.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::uint64_t kPieceOfFetch = kMiB / 2;
constexpr std::size_t kFetchesAtOnce = 8;
constexpr std::size_t kMostRanges = 4096;
constexpr std::uint64_t kKeepFree = 16 * kMiB;  // of the file system that holds the copies

/// An object that is gone is another one than what was opened.
Error of_base(Error error) {
    if (error.code == ENOENT) error.code = ESTALE;
    return error;
}

}  // namespace

void DraftTotals::take_part() {
    MutexLock lock(mutex_);
    while (parts_ >= kMostParts) lock.wait(given_);
    ++parts_;
}

void DraftTotals::give_part() {
    const MutexLock lock(mutex_);
    --parts_;
    given_.notify_one();
}

void DraftTotals::set_dirty(const void* draft, std::uint64_t bytes, Clock::time_point since) {
    const MutexLock lock(mutex_);
    auto& dirty = dirty_[draft];
    dirty_bytes_ += bytes - dirty.bytes;
    dirty = {bytes, since};
}

void DraftTotals::set_clean(const void* draft) {
    const MutexLock lock(mutex_);
    const auto found = dirty_.find(draft);
    if (found == dirty_.end()) return;
    dirty_bytes_ -= found->second.bytes;
    dirty_.erase(found);
}

void DraftTotals::add_error() {
    const MutexLock lock(mutex_);
    ++errors_;
}

DraftTotals::Sums DraftTotals::sums(Clock::time_point now) {
    const MutexLock lock(mutex_);
    Sums sums;
    sums.errors = errors_;
    for (const auto& [draft, dirty] : dirty_) {
        sums.dirty_bytes += dirty.bytes;
        sums.oldest_s = std::max(sums.oldest_s, std::chrono::duration<double>(now - dirty.since).count());
    }
    return sums;
}

Draft::Turn::Turn(Draft& draft) : draft_(draft) {
    MutexLock lock(draft_.mutex_);
    while (draft_.has_turn_) lock.wait(draft_.changed_);
    draft_.has_turn_ = true;
}

Draft::Turn::~Turn() {
    const MutexLock lock(draft_.mutex_);
    draft_.has_turn_ = false;
    draft_.changed_.notify_all();
}

Draft::Draft(BucketCalls& calls, DraftTotals& totals, std::shared_ptr<LocalCopy> copy, FileMetadata metadata,
             std::optional<Base> base)
    : calls_(calls),
      totals_(totals),
      copy_(std::move(copy)),
      digests_(calls.digest_kind()),
      metadata_(std::move(metadata)),
      base_(std::move(base)),
      base_limit_(base_ ? base_->facts.size : 0),
      size_(base_limit_),
      awaits_content_(!base_),
      bytes_changed_(!base_) {
    dirty_since_ = DraftTotals::Clock::now();
    if (base_) path_ = base_->path;
    if (bytes_changed_) totals_.set_dirty(this, 0, dirty_since_);
}

Draft::Draft(BucketCalls& calls, DraftTotals& totals, std::shared_ptr<LocalCopy> copy, FileMetadata metadata,
             std::uint64_t size)
    : Draft(calls, totals, std::move(copy), std::move(metadata), std::nullopt) {
    const MutexLock lock(mutex_);
    size_ = size;
    present_.add(0, size);
    dirty_.add(0, size);
    awaits_content_ = size == 0;
    unpublished_ = size;
    totals_.set_dirty(this, size, dirty_since_);
}

Draft::~Draft() {
    wait_for_parts(0);
    drop_upload();
    totals_.set_clean(this);
}

FileMetadata Draft::metadata() {
    const MutexLock lock(mutex_);
    look();
    return metadata_;
}

std::uint64_t Draft::size() {
    const MutexLock lock(mutex_);
    look();
    return size_;
}

bool Draft::is_changed() {
    const MutexLock lock(mutex_);
    look();
    return bytes_changed_ || metadata_changed_;
}

bool Draft::awaits_content() {
    const MutexLock lock(mutex_);
    look();
    return awaits_content_ && bytes_changed_;
}

bool Draft::has_base() {
    const MutexLock lock(mutex_);
    return base_.has_value();
}

std::string Draft::base_version() {
    const MutexLock lock(mutex_);
    return base_ && is_strong_etag(base_->facts.version) ? base_->facts.version : std::string();
}

std::optional<RecentCopy> Draft::whole_copy() {
    const MutexLock lock(mutex_);
    const bool is_published = base_ && !bytes_changed_ && !broken_ && !is_passed_;
    if (!is_published || gone_.count() != 0 || !absent(0, size_).empty()) return std::nullopt;
    if (!is_strong_etag(base_->facts.version)) return std::nullopt;
    return RecentCopy{base_->path, base_->facts.version, size_, copy_};
}

void Draft::set_metadata(FileMetadata metadata) {
    const MutexLock lock(mutex_);
    if (metadata_ == metadata) return;
    metadata_ = std::move(metadata);
    metadata_changed_ = true;
    ++changes_;
}

void Draft::renew_metadata(FileMetadata metadata) {
    const MutexLock lock(mutex_);
    look();
    if (bytes_changed_ || metadata_changed_) return;
    metadata.tags = std::move(metadata_.tags);  // HEAD does not tell them
    metadata_ = std::move(metadata);
}

void Draft::rebase(Base base, bool has_its_bytes) {
    const MutexLock lock(mutex_);
    path_ = base.path;
    sends_all_ = !has_its_bytes;
    if (base_ && has_its_bytes) base_ = std::move(base);
}

void Draft::set_path(std::string path) {
    const MutexLock lock(mutex_);
    path_ = std::move(path);
}

/// What of [begin, end) is at the base alone.
std::vector<ByteRange> Draft::absent(std::uint64_t begin, std::uint64_t end) {
    return present_.gaps(begin, std::min(end, base_limit_));
}

/// `bytes`: so many of them.
void Draft::bytes_have_changed(std::uint64_t bytes, std::int64_t now_ns) {
    if (!bytes_changed_ && !metadata_changed_) dirty_since_ = DraftTotals::Clock::now();
    bytes_changed_ = true;
    ++changes_;
    metadata_.mtime_ns = metadata_.ctime_ns = now_ns;
    metadata_.mode &= ~static_cast<std::uint32_t>(S_ISUID);
    if ((metadata_.mode & S_IXGRP) != 0) metadata_.mode &= ~static_cast<std::uint32_t>(S_ISGID);
    unpublished_ = std::min(unpublished_ + bytes, size_);
    totals_.set_dirty(this, unpublished_, dirty_since_);
    awaits_content_ = size_ == 0;
}

/// Of the bytes, which are other ones from now on.
void Draft::changed(std::uint64_t begin, std::uint64_t end) {
    bytes_have_changed(end - begin, upload_ ? sent_metadata_->mtime_ns : wall_clock_ns());
    digests_.forget(begin, end);
    dirty_.add(begin, end);
    if (begin >= PartSizes::kLargestObject || parts_.empty()) return;
    const auto first = parts_.lower_bound(PartSizes::number(begin));
    auto last = first;
    while (last != parts_.end() && PartSizes::range(last->first).begin < end) ++last;
    parts_.erase(first, last);
}

Result<void> Draft::may_change() {
    const MutexLock lock(mutex_);
    return is_frozen_ ? fail(kFrozen, "it has been acknowledged as it is") : Result<void>();
}

Result<void> Draft::freeze() {
    const Turn turn(*this);
    if (is_passed_) return fail(kFrozen, "the kernel writes it");
    if (auto got = fetch(0, UINT64_MAX); !got) return got;
    wait_for_parts(0);
    // Zeros at the end need not have been written.
    if (auto sized = copy_->resize(size()); !sized) return failed(std::move(sized.error()));
    if (auto synced = copy_->sync(); !synced) return failed(std::move(synced.error()));
    const MutexLock lock(mutex_);
    if (broken_) return fail(*broken_);
    is_frozen_ = true;
    return {};
}

void Draft::unfreeze() {
    is_given_up_.store(false, std::memory_order_relaxed);
    const MutexLock lock(mutex_);
    is_frozen_ = false;
}

bool Draft::is_frozen() {
    const MutexLock lock(mutex_);
    return is_frozen_;
}

std::uint64_t Draft::bytes_elsewhere() {
    const MutexLock lock(mutex_);
    std::uint64_t bytes = 0;
    for (const auto& range : absent(0, size_)) bytes += range.end - range.begin;
    return bytes;
}

// Nothing of the frozen one changes meanwhile, so that its turn, which whoever uploads it has, is not waited for.
Result<std::shared_ptr<Draft>> Draft::go_on(std::shared_ptr<LocalCopy> copy, std::uint64_t at_most) {
    FileMetadata metadata;
    std::uint64_t size = 0;
    bool is_cut = false;
    {
        const MutexLock lock(mutex_);
        metadata = metadata_;
        size = std::min(size_, at_most);
        is_cut = size < size_;
    }
    if (auto copied = copy_->copy_to(*copy, size); !copied) return fail(std::move(copied.error()));
    auto next = std::make_shared<Draft>(calls_, totals_, std::move(copy), std::move(metadata), size);
    {
        const MutexLock lock(next->mutex_);
        next->dirty_ = ByteRanges();
        if (is_cut) next->changed(size, size);
    }
    std::optional<Base> published;
    {
        const MutexLock lock(mutex_);
        next_ = next;
        if (!bytes_changed_) published = base_;
    }
    if (published) next->adopt_base(std::move(*published));
    return next;
}

void Draft::hand_base_on() {
    std::optional<Base> base;
    std::shared_ptr<Draft> next;
    {
        const MutexLock lock(mutex_);
        base = base_;
        next = next_.lock();
    }
    if (base && next) next->adopt_base(std::move(*base));
}

void Draft::found_published(Base base) {
    const Turn turn(*this);
    drop_upload();
    const MutexLock lock(mutex_);
    path_ = base.path;
    base_limit_ = size_;
    base_ = std::move(base);
    dirty_ = ByteRanges();
    bytes_changed_ = metadata_changed_ = false;
    unpublished_ = 0;
    totals_.set_clean(this);
}

void Draft::adopt_base(Base base) {
    const MutexLock lock(mutex_);
    path_ = base.path;
    base_limit_ = is_passed_ ? 0 : base.facts.size;
    base_ = std::move(base);
}

Result<void> Draft::failed(Error error) {
    const MutexLock lock(mutex_);
    if (!broken_) broken_ = error;
    return fail(std::move(error));
}

Result<void> Draft::write(std::span<const std::byte> bytes, std::uint64_t offset) {
    const std::uint64_t end = offset + bytes.size();
    if (end > PartSizes::kLargestObject || end < offset) return fail(EFBIG, "an object has 5 TiB at most");
    if (bytes.empty()) return {};
    const Turn turn(*this);
    if (auto may = may_change(); !may) return may;
    // A part that is being read must not change under its checksum.
    wait_for_parts_of(offset, end);
    if (auto room = make_room(bytes.size()); !room) return failed(std::move(room.error()));
    bool is_scattered = false;
    {
        const MutexLock lock(mutex_);
        if (gone_.gaps(offset, end) != std::vector{ByteRange{offset, end}})
            return fail(ENOSPC, "the local copy had no room to keep what is written to again");
        is_scattered = present_.count() > kMostRanges;
    }
    if (is_scattered) {
        if (auto got = fetch(0, UINT64_MAX); !got) return got;
    }
    TIERFS_SYNC_POINT("s3.draft.writing");
    if (auto written = copy_->write(bytes, offset); !written) return failed(std::move(written.error()));
    {
        const MutexLock lock(mutex_);
        present_.add(offset, end);
        const auto had = size_;
        size_ = std::max(size_, end);
        if (offset > had) present_.add(had, offset);
        changed(std::min(offset, had), end);
        if (offset != last_end_) run_begin_ = offset;
        last_end_ = end;
    }
    // Whoever uploads it later makes it then, and the writer does not wait for it.
    if (totals_.sends_early) digests_.written(bytes, offset);
    send_what_is_complete(offset, end);
    return {};
}

// Who reads while somebody writes finds each byte as it was or as it is: as on a local disk.
Result<std::size_t> Draft::read(std::span<std::byte> destination, std::uint64_t offset) {
    std::vector<ByteRange> elsewhere;
    std::optional<Base> base;
    {
        const MutexLock lock(mutex_);
        look();
        if (offset >= size_) return std::size_t{0};
        destination = destination.first(
            static_cast<std::size_t>(std::min<std::uint64_t>(destination.size(), size_ - offset)));
        const auto end = offset + destination.size();
        if (gone_.gaps(offset, end) != std::vector{ByteRange{offset, end}})
            return fail(ENOSPC,
                        "the local copy had no room to keep what is read: it can be read once the "
                        "file has been closed");
        elsewhere = absent(offset, end);
        base = base_;
    }
    if (auto read = copy_->read(destination, offset); !read) return fail(std::move(read.error()));
    for (const auto& range : elsewhere) {
        const auto piece = destination.subspan(range.begin - offset, range.end - range.begin);
        auto got = calls_.read(base->path, base->facts.version, range.begin, piece);
        if (!got) return fail(of_base(std::move(got.error())));
    }
    return destination.size();
}

Result<void> Draft::resize(std::uint64_t size) {
    if (size > PartSizes::kLargestObject) return fail(EFBIG, "an object has 5 TiB at most");
    const Turn turn(*this);
    if (auto may = may_change(); !may) return may;
    std::uint64_t had = 0;
    {
        const MutexLock lock(mutex_);
        look();
        had = size_;
        if (size == had && bytes_changed_) return {};
    }
    wait_for_parts_of(std::min(size, had), UINT64_MAX);
    if (auto done = copy_->resize(size); !done) return failed(std::move(done.error()));
    const MutexLock lock(mutex_);
    if (size < had) {
        present_.remove(size, UINT64_MAX);
        gone_.remove(size, UINT64_MAX);
        base_limit_ = std::min(base_limit_, size);
    } else {
        present_.add(had, size);
    }
    size_ = size;
    changed(std::min(size, had), std::max(size, had));
    dirty_.remove(size, UINT64_MAX);
    return {};
}

Result<void> Draft::clear(std::uint64_t begin, std::uint64_t end) {
    const Turn turn(*this);
    if (auto may = may_change(); !may) return may;
    wait_for_parts_of(begin, end);
    {
        const MutexLock lock(mutex_);
        look();
        end = std::min(end, size_);
    }
    if (begin >= end) return {};
    if (auto done = copy_->punch(begin, end); !done) return done;
    const MutexLock lock(mutex_);
    present_.add(begin, end);
    gone_.remove(begin, end);
    changed(begin, end);
    return {};
}

Result<void> Draft::detach() {
    const Turn turn(*this);
    if (auto got = fetch(0, UINT64_MAX); !got) return got;
    wait_for_parts(0);
    drop_upload();
    const MutexLock lock(mutex_);
    sends_all_ = true;
    return {};
}

Result<void> Draft::fetch(std::uint64_t begin, std::uint64_t end) {
    std::vector<ByteRange> missing;
    std::optional<Base> base;
    {
        const MutexLock lock(mutex_);
        if (gone_.count() != 0) return fail(ENOSPC, "the local copy had no room to keep what was sent");
        missing = absent(begin, std::min(end, size_));
        base = base_;
    }
    if (missing.empty()) return {};
    if (auto room = make_room(missing.back().end - missing.front().begin); !room) return room;
    Together together(kFetchesAtOnce);
    for (const auto& range : missing) {
        for (auto at = range.begin; at < range.end; at += kPieceOfFetch) {
            if (!fetch_piece(*base, {at, std::min(at + kPieceOfFetch, range.end)}, together)) break;
        }
    }
    if (auto got = together.wait(); !got) return fail(of_base(std::move(got.error())));
    const MutexLock lock(mutex_);
    for (const auto& range : missing) present_.add(range.begin, range.end);
    return {};
}

Result<void> Draft::fetch_piece(const Base& base, ByteRange range, Together& together) {
    if (!together.begin()) return fail(EIO, "another piece failed");
    const auto piece = std::make_shared<std::vector<std::byte>>(range.end - range.begin);
    calls_.read(base.path, base.facts.version, range.begin, *piece,
                [copy = copy_, piece, range, &together](Result<void> got) {
                    if (got) got = copy->write(*piece, range.begin);
                    together.end(std::move(got));
                });
    return {};
}

/// So that the file system of the copy keeps something free for others, parts that were sent are given up.
Result<void> Draft::make_room(std::uint64_t bytes) {
    if (copy_->free_space() >= bytes + kKeepFree) return {};
    wait_for_parts(0);
    std::vector<ByteRange> sent;
    {
        const MutexLock lock(mutex_);
        for (const auto& [number, part] : parts_) {
            if (part.state == PartState::sent) sent.push_back(PartSizes::range(number));
        }
        for (const auto& range : sent) {
            gone_.add(range.begin, range.end);
            present_.remove(range.begin, range.end);
        }
    }
    for (const auto& range : sent) (void)copy_->punch(range.begin, range.end);
    if (copy_->free_space() >= bytes + kKeepFree) return {};
    return fail(ENOSPC, "no room is left for the local copy of what is written");
}

}  // namespace tierfs::s3
