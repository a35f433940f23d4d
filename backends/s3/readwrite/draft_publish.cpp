// How a draft becomes an object; see draft.hpp.
#include <algorithm>
#include <cerrno>

#include "backends/s3/readwrite/draft.hpp"
#include "config/base/sync_point.hpp"

namespace tierfs::s3 {

namespace {

constexpr unsigned kPartsOfOne = 8;  // of one file on their way
constexpr unsigned kMostUploads = 3;

}  // namespace

/// After a write of [begin, end): parts that the writer has left behind.
void Draft::send_what_is_complete(std::uint64_t begin, std::uint64_t end) {
    std::vector<unsigned> complete;
    std::string path;
    {
        const MutexLock lock(mutex_);
        if (!totals_.sends_early || path_.empty() || broken_) return;
        // One that ended where this write begins was still the last then.
        for (auto number = PartSizes::number(begin == 0 ? 0 : begin - 1); number <= PartSizes::kMost;
             ++number) {
            const auto range = PartSizes::range(number);
            if (range.end > end || range.end >= size_) break;
            if (range.begin < run_begin_ || parts_.contains(number)) continue;
            complete.push_back(number);
        }
        path = path_;
    }
    if (complete.empty()) return;
    // What fails here is tried again by publish(), which tells.
    if (!begin_upload(path)) return;
    for (const auto number : complete) {
        wait_for_parts(kPartsOfOne - 1);
        send(number, PartSizes::range(number), false);
    }
}

Result<void> Draft::begin_upload(const std::string& path) {
    FileMetadata metadata;
    {
        const MutexLock lock(mutex_);
        if (upload_ && upload_->path == path) return {};
        metadata = metadata_;
    }
    drop_upload();
    auto upload = calls_.begin(path, metadata);
    if (!upload) return fail(std::move(upload.error()));
    const MutexLock lock(mutex_);
    upload_ = std::move(*upload);
    sent_metadata_ = std::move(metadata);
    return {};
}

void Draft::drop_upload() {
    wait_for_parts(0);
    std::optional<Upload> dropped;
    {
        const MutexLock lock(mutex_);
        dropped.swap(upload_);
        parts_.clear();
        if (dropped && gone_.count() != 0 && !broken_)
            broken_ = Error{EIO, "parts that were sent are lost, and there was no room to keep them here"};
    }
    if (dropped) calls_.abort(*dropped);
}

void Draft::send(unsigned number, ByteRange range, bool from_base) {
    Upload upload;
    std::optional<Base> base;
    {
        const MutexLock lock(mutex_);
        upload = *upload_;
        base = base_;
        parts_.erase(number);
    }
    totals_.take_part();
    {
        const MutexLock lock(mutex_);
        parts_[number].is_copy = from_base;
        ++sending_;
    }
    const auto done = [this, number](Result<UploadPart> part) { sent(number, std::move(part)); };
    if (from_base) {
        calls_.copy_part(upload, number, base->path, base->facts.version, range.begin, range.end, done);
    } else {
        calls_.send_part(upload, number, {copy_, range.begin, range.end, digests_.of(range)}, done);
    }
}

void Draft::sent(unsigned number, Result<UploadPart> part) {
    totals_.give_part();
    const MutexLock lock(mutex_);
    const auto found = parts_.find(number);
    if (found != parts_.end()) {
        found->second.state = part ? PartState::sent : PartState::failed;
        if (part) {
            found->second.sent = std::move(*part);
        } else {
            found->second.error = std::move(part.error());
        }
    }
    --sending_;
    changed_.notify_all();
}

void Draft::wait_for_parts(unsigned at_most) {
    MutexLock lock(mutex_);
    while (sending_ > at_most) lock.wait(changed_);
}

void Draft::wait_for_parts_of(std::uint64_t begin, std::uint64_t end) {
    MutexLock lock(mutex_);
    for (;;) {
        const bool is_sending = std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) {
            const auto range = PartSizes::range(part.first);
            return part.second.state == PartState::sending && range.begin < end && range.end > begin;
        });
        if (!is_sending) return;
        lock.wait(changed_);
    }
}

/// A server that ignores conditions on the source of a copy would mix two versions.
bool Draft::base_is_there() {
    std::optional<Base> base;
    {
        const MutexLock lock(mutex_);
        base = base_;
    }
    if (!base) return true;
    const auto now = calls_.head(base->path);
    return now && now->version == base->facts.version;
}

/// The base has these very bytes.
bool Draft::is_at_base(ByteRange range) {
    return base_ && !sends_all_ && range.end <= base_limit_ &&
           dirty_.gaps(range.begin, range.end) == std::vector{range};
}

/// Whether the next attempt at publishing can do without the base.
bool Draft::can_send_all() {
    const MutexLock lock(mutex_);
    if (sends_all_ || broken_ || gone_.count() != 0 || !absent(0, size_).empty()) return false;
    sends_all_ = true;
    return true;
}

Result<void> Draft::is_wanted_here() {
    if (!is_given_up_.exchange(false, std::memory_order_relaxed)) return {};
    drop_upload();
    return fail(ECANCELED, "it is to be published elsewhere");
}

Result<void> Draft::send_all_parts(std::uint64_t size) {
    for (auto number = 1U; PartSizes::range(number).begin < size; ++number) {
        if (auto wanted = is_wanted_here(); !wanted) return wanted;
        auto range = PartSizes::range(number);
        range.end = std::min(range.end, size);
        bool from_base = false;
        {
            const MutexLock lock(mutex_);
            const auto part = parts_.find(number);
            if (part != parts_.end() && part->second.state != PartState::failed) continue;
            if (gone_.gaps(range.begin, range.end) != std::vector{range})
                return fail(ENOSPC, "the local copy had no room to keep what was sent and changed later");
            from_base = is_at_base(range);
        }
        if (!from_base) {
            if (auto got = fetch(range.begin, range.end); !got) return got;
        }
        wait_for_parts(kPartsOfOne - 1);
        send(number, range, from_base);
        const MutexLock lock(mutex_);
        const bool failed = std::any_of(parts_.begin(), parts_.end(), [](const auto& part) {
            return part.second.state == PartState::failed;
        });
        if (failed) break;  // parts_sent() tells
    }
    wait_for_parts(0);
    return is_wanted_here();
}

Result<std::vector<UploadPart>> Draft::parts_sent() {
    std::vector<UploadPart> sent;
    bool has_copies = false;
    {
        const MutexLock lock(mutex_);
        for (const auto& [number, part] : parts_) {
            if (part.state != PartState::sent) return fail(part.error);
            sent.push_back(part.sent);
            has_copies = has_copies || part.is_copy;
        }
    }
    if (has_copies && !base_is_there()) return fail(ESTALE, "the object was changed elsewhere meanwhile");
    return sent;
}

/// An upload that the server has given up meanwhile (a lifecycle rule, a server that was started anew) is
/// begun anew from what is here. A base that is another object by now is done without, where all is here: who
/// writes last wins, unless `condition` says otherwise.
Result<std::string> Draft::publish_bytes(const std::string& path, const PutOptions& condition) {
    if (size() <= PartSizes::kFirst) return publish_small(path, condition);
    for (unsigned attempt = 1;; ++attempt) {
        auto version = publish_parts(path, condition);
        const auto code = version ? 0 : version.error().code;
        if (code == ESTALE && condition.only_if_version.empty() && can_send_all()) continue;
        if (code != ENOENT) return version;
        (void)can_send_all();
        const MutexLock lock(mutex_);
        if (broken_) return fail(*broken_);
        if (attempt == kMostUploads)
            return fail(EIO, "the server has given up the upload " + std::to_string(attempt) +
                                 " times: " + version.error().message);
    }
}

Result<std::string> Draft::publish_small(const std::string& path, const PutOptions& condition) {
    drop_upload();
    const auto size = this->size();
    if (auto got = fetch(0, size); !got) return fail(std::move(got.error()));
    const auto metadata = this->metadata();
    auto version = calls_.put(path, {copy_, 0, size, digests_.of({0, size})}, metadata, condition);
    const MutexLock lock(mutex_);
    if (version) sent_metadata_ = metadata;
    return version;
}

Result<std::string> Draft::publish_parts(const std::string& path, const PutOptions& condition) {
    if (auto begun = begin_upload(path); !begun) return fail(std::move(begun.error()));
    if (auto done = send_all_parts(size()); !done) return fail(std::move(done.error()));
    auto parts = parts_sent();
    if (!parts) {
        // ENOENT: the upload is gone, and what it had.
        if (parts.error().code == ENOENT || parts.error().code == ESTALE) drop_upload();
        return fail(parts.error());
    }
    Upload upload;
    {
        const MutexLock lock(mutex_);
        upload = *upload_;
    }
    auto version = calls_.complete(upload, *parts, condition);
    if (!version) {
        if (version.error().code == ENOENT) drop_upload();
        return version;
    }
    const MutexLock lock(mutex_);
    upload_.reset();
    parts_.clear();
    return version;
}

void Draft::published(const std::string& path, std::string version) {
    const MutexLock lock(mutex_);
    metadata_changed_ = metadata_ != *sent_metadata_;
    Facts facts;
    facts.kind = Facts::Kind::file;
    facts.metadata = *sent_metadata_;
    facts.size = size_;
    facts.version = std::move(version);
    base_ = Base{path, std::move(facts)};
    base_limit_ = size_;
    gone_ = ByteRanges();  // at the object now
    dirty_ = ByteRanges();
    sends_all_ = false;
    bytes_changed_ = false;
    unpublished_ = 0;
    totals_.set_clean(this);
}

/// A copy onto itself.
Result<void> Draft::publish_metadata(const std::string& path) {
    Base base;
    FileMetadata metadata;
    {
        const MutexLock lock(mutex_);
        base = *base_;
        metadata = metadata_;
    }
    auto version = calls_.copy(base.path, base.facts, path, metadata);
    if (!version) return fail(std::move(version.error()));
    const MutexLock lock(mutex_);
    base_->path = path;
    base_->facts.version = std::move(*version);
    base_->facts.metadata = metadata;
    metadata_changed_ = metadata_ != metadata;
    return {};
}

void Draft::give_up_path() {
    const Turn turn(*this);
    drop_upload();
    const MutexLock lock(mutex_);
    path_.clear();
}

void Draft::publish_again() {
    const MutexLock lock(mutex_);
    bytes_changed_ = true;
}

Result<Facts> Draft::publish(const std::string& path, const PutOptions& condition) {
    const Turn turn(*this);
    bool of_bytes = false;
    {
        const MutexLock lock(mutex_);
        path_ = path;
        if (broken_) return fail(*broken_);
        of_bytes = bytes_changed_;
    }
    TIERFS_SYNC_POINT("s3.draft.publishing");
    Result<void> done;
    if (of_bytes) {
        auto version = publish_bytes(path, condition);
        if (version) published(path, std::move(*version));
        if (!version) done = fail(std::move(version.error()));
    }
    bool of_metadata = false;
    {
        const MutexLock lock(mutex_);
        of_metadata = metadata_changed_;
    }
    if (done && of_metadata) done = publish_metadata(path);
    if (!done) {
        totals_.add_error();
        return fail(std::move(done.error()));
    }
    Facts facts;
    {
        const MutexLock lock(mutex_);
        facts = base_->facts;
    }
    if (of_bytes || of_metadata) calls_.keep_tags(path, facts.metadata);
    return facts;
}

}  // namespace tierfs::s3
