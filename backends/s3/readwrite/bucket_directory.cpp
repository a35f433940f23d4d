// Listings; see posix_bucket.hpp.
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "backends/s3/readwrite/posix_bucket.hpp"

namespace tierfs::s3 {

namespace {

/// An open directory. Entries are numbered from 1, and those that were shown stay where they are, however the
/// directory changes meanwhile: as a rule all of them, else the last kMostKept, or the last page where open directories
/// have no memory for more, and going back behind those begins anew.
class BucketDirectory final : public PosixDirectory {
  public:
    BucketDirectory(PosixBucket& bucket, BucketNodePtr node, std::string marker)
        : bucket_(bucket), node_(std::move(node)), marker_(std::move(marker)), memory_(bucket.listings()) {}

    Result<std::optional<PosixEntry>> read(std::int64_t after) override;
    // What makes and removes names has returned when they are at the bucket.
    Result<void> sync(bool /*data_only*/) override { return {}; }

  private:
    void rewind() TIERFS_REQUIRES(mutex_);
    Result<void> next_page() TIERFS_REQUIRES(mutex_);
    bool show_last() TIERFS_REQUIRES(mutex_);
    Result<void> check_order(const Listing& page) TIERFS_REQUIRES(mutex_);
    void add_all(std::vector<DirectoryEntry> entries) TIERFS_REQUIRES(mutex_);
    void add(std::string name, unsigned char type) TIERFS_REQUIRES(mutex_);
    void remember(const Listing& page, const std::string& prefix) TIERFS_REQUIRES(mutex_);
    void forget_listed() TIERFS_REQUIRES(mutex_);
    unsigned char type_of(const DirectoryEntry& entry);
    bool is_removed(const std::string& name) TIERFS_REQUIRES(mutex_);

    PosixBucket& bucket_;
    const BucketNodePtr node_;
    const std::string marker_;
    Mutex mutex_;  ///< held over requests: of this open directory alone
    ListingMemory::Share memory_ TIERFS_GUARDED_BY(mutex_);
    static constexpr std::size_t kMostKept = 1U << 17U, kPage = 1000;
    std::deque<PosixEntry> kept_ TIERFS_GUARDED_BY(mutex_);
    std::int64_t before_ TIERFS_GUARDED_BY(mutex_) = 0;           ///< how many entries came before those
    std::set<std::string> first_keys_ TIERFS_GUARDED_BY(mutex_);  ///< of each page
    std::string last_key_ TIERFS_GUARDED_BY(mutex_);              ///< of all pages so far
    /// Files whose names a later page may show again, as directories.
    std::vector<DirectoryEntry> carried_ TIERFS_GUARDED_BY(mutex_);
    std::string token_ TIERFS_GUARDED_BY(mutex_);
    bool is_begun_ TIERFS_GUARDED_BY(mutex_) = false, is_over_ TIERFS_GUARDED_BY(mutex_) = false;
    std::map<std::string, unsigned char> own_
        TIERFS_GUARDED_BY(mutex_);  ///< with their types, that no listing has shown yet
    std::unordered_set<std::string> removed_
        TIERFS_GUARDED_BY(mutex_);  ///< paths that were when a page was asked for
    ListedNames listed_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t listed_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool remembers_ TIERFS_GUARDED_BY(mutex_) = true;  ///< listed_ is of all pages so far
    HiddenKeys::Counts hidden_ TIERFS_GUARDED_BY(mutex_);
};

void BucketDirectory::rewind() {
    memory_.clear();
    listed_bytes_ = 0;
    listed_.names.clear();
    kept_.clear();
    carried_.clear();
    first_keys_.clear();
    last_key_.clear();
    before_ = 0;
    token_.clear();
    is_begun_ = is_over_ = false;
    own_.clear();
    removed_.clear();
    hidden_.clear();
}

void BucketDirectory::add(std::string name, unsigned char type) {
    PosixEntry entry;
    const auto place = place_of(node_->inode, name);
    entry.inode = name == "." || name == ".." ? node_->inode : bucket_.numbers().number(place);
    entry.name = std::move(name);
    entry.type = type;
    entry.next = before_ + static_cast<std::int64_t>(kept_.size()) + 1;
    memory_.take(ListedNames::memory_of(entry.name));
    kept_.push_back(std::move(entry));
}

/// Listings do not tell links from files: a link's object holds its target, which has a length of a path.
unsigned char BucketDirectory::type_of(const DirectoryEntry& entry) {
    if (entry.attributes.kind == ObjectKind::directory) return DT_DIR;
    if (entry.attributes.size == 0 || entry.attributes.size >= PATH_MAX) return DT_REG;
    const auto known = bucket_.known().get(place_of(node_->inode, entry.name));
    if (!known || known->kind != Facts::Kind::file || known->version != entry.attributes.version)
        return DT_UNKNOWN;
    return S_ISLNK(known->metadata.mode) ? DT_LNK : DT_REG;
}

/// Look-ups of what a listing shows need one request less, and none of what it does not show.
void BucketDirectory::remember(const Listing& page, const std::string& prefix) {
    const auto names = listed_.names.size() + page.objects.size() + page.prefixes.size();
    remembers_ = remembers_ && names <= KnownNames::kMostListed && !memory_.is_over();
    if (!remembers_) return forget_listed();
    const auto bytes = listed_.add(page, prefix);
    listed_bytes_ += bytes;
    memory_.take(bytes);
}

void BucketDirectory::forget_listed() {
    listed_.names = {};
    memory_.give_back(std::exchange(listed_bytes_, 0));
}

/// A listing whose pages come again would never end, whatever its tokens.
Result<void> BucketDirectory::check_order(const Listing& page) {
    std::string first, last = last_key_;
    const auto see = [&](const std::string& key) {
        if (first.empty() || key < first) first = key;
        last = std::max(last, key);
    };
    for (const auto& object : page.objects) see(object.key);
    for (const auto& below : page.prefixes) see(below);
    if (!first.empty() && !first_keys_.insert(std::move(first)).second)
        return fail(EIO, "LIST: the server sends a page again that it has sent already");
    last_key_ = std::move(last);
    return {};
}

/// A name that was removed here, whatever the bucket has still shown of it.
bool BucketDirectory::is_removed(const std::string& name) {
    const auto path = marker_ + name;
    if (bucket_.is_removed(path)) return true;
    if (!removed_.contains(path)) return false;
    const auto known = bucket_.known().get(place_of(node_->inode, name));
    return known && !known->is_there();
}

/// An object `a` and keys below `a/` are one name, a directory; keys such as `a-b` lie between them, so that a
/// page may end there.
void BucketDirectory::add_all(std::vector<DirectoryEntry> entries) {
    std::unordered_set<std::string_view> directories;
    for (const auto& entry : entries) {
        if (entry.attributes.kind == ObjectKind::directory) directories.insert(entry.name);
    }
    std::vector<DirectoryEntry> files = std::exchange(carried_, {});
    hidden_[hidden::kBesideDirectory] +=
        std::erase_if(files, [&](const auto& entry) { return directories.contains(entry.name); });
    directories.clear();  // its views are of what moves now
    std::move(entries.begin(), entries.end(), std::back_inserter(files));
    std::vector<DirectoryEntry> shown;
    const auto prefix = bucket_.calls().key(marker_);
    for (auto& entry : files) {
        const bool may_come_again = !token_.empty() && entry.attributes.kind != ObjectKind::directory &&
                                    prefix + entry.name + "/" > last_key_;
        (may_come_again ? carried_ : shown).push_back(std::move(entry));
    }
    for (auto& entry : shown) {
        const bool is_file = entry.attributes.kind != ObjectKind::directory;
        if (is_file && is_removed(entry.name)) continue;
        const auto type = type_of(entry);
        own_.erase(entry.name);
        add(std::move(entry.name), type);
    }
}

/// Of a bucket that does not answer: what was known of it last. False: it does, or nothing is known.
bool BucketDirectory::show_last() {
    if (is_begun_) return false;
    auto names = bucket_.names_last(node_->inode);
    if (!names) return false;
    // What is new is there whatever was removed under its name before.
    for (auto& [name, type] : *names) {
        if (!is_removed(name)) own_.emplace(name, type);
    }
    for (const auto& [name, type] : own_) add(name, type);
    own_.clear();
    forget_listed();
    is_begun_ = is_over_ = true;
    return true;
}

Result<void> BucketDirectory::next_page() {
    while (kept_.size() > (memory_.is_over() ? kPage : kMostKept)) {
        memory_.give_back(ListedNames::memory_of(kept_.front().name));
        kept_.pop_front();
        ++before_;
    }
    if (!is_begun_) {
        listed_ = {{}, KnownNames::Clock::now(), bucket_.known().drops()};
        remembers_ = true;
        own_ = bucket_.unpublished_in(node_->inode);
        add(".", DT_DIR);
        add("..", DT_DIR);
    }
    const ListingMemory::Page turn(bucket_.listings(), KnownNames::Clock::now() + bucket_.calls().deadline());
    if (!turn)
        return fail(ETIMEDOUT, "LIST: other listings wait for the server, as many as memory.limit allows");
    if (show_last()) return {};
    // The bucket may lose them, and nobody may know of them any more, while it answers.
    const auto removed = bucket_.removed_below(marker_);
    removed_.insert(removed.begin(), removed.end());
    const auto listing = bucket_.calls().list(marker_, token_, kPage, true);
    if (!listing && show_last()) return {};
    if (!listing) return fail(listing.error());
    is_begun_ = true;
    if (auto ordered = check_order(*listing); !ordered) return ordered;
    token_ = listing->next_token;
    const auto prefix = bucket_.calls().key(marker_);
    auto page = map_listing(*listing, prefix, bucket_.calls().ownership());
    for (const auto& [reason, count] : page.hidden) hidden_[reason] += count;
    add_all(std::move(page.entries));
    remember(*listing, prefix);
    if (!token_.empty()) return {};
    is_over_ = true;
    if (remembers_) bucket_.known().put_listing(node_->inode, std::exchange(listed_, {}));
    forget_listed();
    for (const auto& [name, type] : own_) add(name, type);
    std::erase_if(hidden_, [](const auto& one) { return one.second == 0; });
    bucket_.hidden().set(node_->inode, hidden_);
    return {};
}

Result<std::optional<PosixEntry>> BucketDirectory::read(std::int64_t after) {
    const MutexLock lock(mutex_);
    if (after < before_) rewind();
    for (;;) {
        const auto at = static_cast<std::size_t>(after - before_);
        if (at < kept_.size()) return std::optional(kept_[at]);
        if (is_over_) return std::optional<PosixEntry>();
        if (auto got = next_page(); !got) {
            rewind();
            return fail(std::move(got.error()));
        }
    }
}

}  // namespace

PosixDirectoryPtr make_bucket_directory(PosixBucket& bucket, BucketNodePtr node, std::string marker) {
    return std::make_shared<BucketDirectory>(bucket, std::move(node), std::move(marker));
}

Result<PosixDirectoryPtr> PosixBucket::open_directory(const PosixNode& held) {
    const auto& node = bucket_node(held);
    const auto path = path_of(*node);
    if (!path) return fail(path.error());
    return make_bucket_directory(*this, node, marker_of(*path));
}

}  // namespace tierfs::s3
