// A bucket that does not answer, with writes=back: what was known of it last, and directories that it hears of later. See
// posix_bucket.hpp.
#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "backends/s3/client/xml.hpp"
#include "backends/s3/readwrite/posix_bucket.hpp"

namespace tierfs::s3 {

namespace {

constexpr std::chrono::milliseconds kListedAgain{60'000};
constexpr unsigned kNamesOfPage = 1000, kMostPages = 16;
constexpr std::size_t kMostListed = 1024;

}  // namespace

/// Nothing: this mount has never known whether it is there, or not what it is like.
std::optional<Facts> PosixBucket::known_last(const BucketNode& directory, const std::string& name) {
    const auto place = place_of(directory.inode, name);
    if (auto facts = known_.last(place)) return facts;
    if (const auto node = find(numbers_.number(place)); node && !S_ISDIR(node->type)) {
        const MutexLock lock(mutex_);
        if (node->standing == BucketNode::Standing::named && node->facts.is_there()) return node->facts;
    }
    const bool is_absent = known_.shown_last(directory.inode, name) == ListedNames::Shown::absent;
    return is_absent ? std::optional(Facts()) : std::nullopt;
}

std::optional<std::map<std::string, unsigned char>> PosixBucket::names_last(std::uint64_t directory) {
    if (!is_away()) return std::nullopt;
    const auto names = known_.names_last(directory);
    if (!names) return std::nullopt;
    std::map<std::string, unsigned char> shown;
    for (const auto& [name, what] : *names) {
        if (is_component(name)) shown.emplace(name, what == ListedNames::Shown::prefix ? DT_DIR : DT_UNKNOWN);
    }
    return shown;
}

/// What is replaced while nobody can be asked is what was there last: the upload is refused where that is so no more. What
/// needs bytes of it is refused now, and not when it is closed.
Result<Facts> PosixBucket::head_to_change(const BucketNodePtr& node, const std::string& path,
                                          bool is_replaced) {
    auto now = is_away() ? Result<Facts>(fail(ETIMEDOUT, "the bucket does not answer")) : head_of(node, path);
    if (now || !is_for_being_away(now.error())) return now;
    const MutexLock lock(mutex_);
    const auto& last = node->facts;
    const bool is_told = node->standing == BucketNode::Standing::named && last.kind == Facts::Kind::file &&
                         is_strong_etag(last.version) && !last.has_tags && !last.archived &&
                         (is_replaced || last.size == 0);
    return is_told ? Result<Facts>(last) : std::move(now);
}

/// Answers that do without the bucket never find out that it is back: so it is asked meanwhile.
void PosixBucket::tick() {
    look_at_mapped(false);
    if (!back_ || !calls_.is_away() || is_asking_.exchange(true)) return;
    calls_.head("", [this](const Result<Facts>&) { is_asking_ = false; });
}

/// Of a file that was made while nobody could be asked: a bucket takes both, and keys below it would hide it.
Result<bool> PosixBucket::has_become_directory(const WriteBack::Entry& entry) {
    {
        const MutexLock lock(mutex_);
        if (!entry.node->is_unasked || entry.record.expects != JournalRecord::Expects::nothing) return false;
    }
    const auto below = calls_.list(entry.record.path + "/", "", 1, false);
    if (!below && below.error().code == EACCES) return false;  // who may not list is not to wait for ever
    if (!below) return fail(below.error());
    return !below->objects.empty();
}

/// Where files are made the names are listed now and then, so that it is known what is not there.
void PosixBucket::list_ahead(const BucketNodePtr& directory) {
    if (!back_ || calls_.is_away()) return;
    const auto path = path_of(*directory);
    if (!path || is_listing_) return;
    {
        const auto now = KnownNames::Clock::now();
        const MutexLock lock(mutex_);
        if (listed_.size() >= kMostListed) listed_.clear();
        auto& last = listed_[directory->inode];  // whatever came of it
        const bool is_due = last == KnownNames::Clock::time_point() || now - last >= kListedAgain;
        if (!is_due || is_listing_.exchange(true)) return;
        last = now;
    }
    auto listed = std::make_shared<ListedNames>();
    listed->since = KnownNames::Clock::now();
    listed->drops = known_.drops();
    list_pages(directory->inode, marker_of(*path), "", listed);
}

void PosixBucket::list_pages(std::uint64_t directory, const std::string& marker, const std::string& token,
                             const std::shared_ptr<ListedNames>& listed, unsigned pages) {
    calls_.list(marker, token, kNamesOfPage, true, [=, this](const Result<Listing>& page) {
        if (page) listed->add(*page, calls_.key(marker));
        listed->is_whole = listed->names.size() <= KnownNames::kMostListed;
        const bool goes_on = page && listed->is_whole && !page->next_token.empty();
        if (goes_on && pages < kMostPages)
            return list_pages(directory, marker, page->next_token, listed, pages + 1);
        listed->is_whole = listed->is_whole && !goes_on;
        if (!listed->is_whole) listed->names.clear();
        if (page) known_.put_listing(directory, std::move(*listed));
        is_listing_ = false;
    });
}

/// It gets its object when the bucket answers again; what is made in it need not wait for that.
Result<void> PosixBucket::make_directory_later(const BucketNodePtr& directory, const std::string& name,
                                               const FileMetadata& metadata) {
    const auto path = path_in(*directory, name);
    if (!path) return fail(path.error());
    if (auto place = wait_for_place(); !place) return place;
    auto copy = make_copy();
    if (!copy) return fail(std::move(copy.error()));
    const auto draft =
        std::make_shared<Draft>(calls_, totals_, std::move(*copy), FileMetadata(metadata), std::nullopt);
    if (auto frozen = draft->freeze(); !frozen) return frozen;
    const PathLocks::Held held(locks_, {{*path, false}});
    if (const auto free = free_path(directory, name, Asked::lately); !free) return fail(free.error());
    const auto node = directory_at(*path);
    WriteBack::Entry entry;
    entry.record.path = *path + "/";
    // What is still to go there goes before.
    if (back_->at(*path)) entry.record.after = back_->last();
    entry.record.is_light = true;
    entry.record.metadata = metadata;
    entry.record.bytes = draft->copy()->name();
    entry.draft = draft;
    entry.node = node;
    ListedNames none{{}, KnownNames::Clock::now(), known_.drops()};
    auto added = back_->add(std::move(entry));
    if (!added) return fail(std::move(added.error()));
    add_directory(node, draft);
    know(*node, facts_of_draft(*draft, {}, true));
    known_.put_listing(node->inode, std::move(none));
    const MutexLock lock(mutex_);
    node->pending = std::move(*added);  // the path is locked, so that nobody has found it brought there
    return {};
}

void PosixBucket::add_directory(const BucketNodePtr& node, const std::shared_ptr<Draft>& draft) {
    const MutexLock lock(mutex_);
    node->draft = draft;
    node->has_object = false;
    fresh_[node->inode] = node;
}

void PosixBucket::recover_directory(Journal::Found found) {
    const auto& path = found.record.path;
    const auto node = directory_at(path.substr(0, path.size() - 1));
    auto draft = std::make_shared<Draft>(calls_, totals_, std::move(found.copy), found.record.metadata,
                                         std::uint64_t{0});
    (void)draft->freeze();
    add_directory(node, draft);
    WriteBack::Entry entry;
    entry.record = std::move(found.record);
    entry.draft = std::move(draft);
    entry.node = node;
    auto pending = back_->add_found(std::move(entry));
    const MutexLock lock(mutex_);
    node->pending = std::move(pending);
}

}  // namespace tierfs::s3
