#include "backends/dir/directory_origin.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <list>

#include "backends/dir/acl.hpp"
#include "backends/dir/beneath.hpp"
#include "backends/dir/directory_writer.hpp"
#include "backends/dir/local_file_system.hpp"
#include "backends/dir/patient_calls.hpp"
#include "backends/dir/posix_directory.hpp"
#include "backends/origin/read_pool.hpp"
#include "backends/origin/sorted_window.hpp"
#include "backends/origin/young_version.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kNamesPerPage = 4096;
/// Of memory.limit: the names of one directory, and of all that somebody is in the middle of.
constexpr std::uint64_t kShareOfNames = 64, kShareOfListings = 32;
constexpr std::uint64_t kLeastNameBytes = 16 << 20, kMostNameBytes = 64 << 20;
constexpr std::size_t kNamesPerProgress = 64;
constexpr unsigned kReadThreads = 16;                                   // from the start
constexpr std::uint64_t kMostThreads = 256, kMemoryOfThread = 4 << 20;  // while they wait; of memory.limit
constexpr std::size_t kLongestXattr = 65536;  // XATTR_SIZE_MAX, XATTR_LIST_MAX of the kernel
constexpr const char* kAccessList = "system.posix_acl_access";
constexpr const char* kDefaultList = "system.posix_acl_default";

/// The sorted names of a directory between two pages of it.
struct PartialListing {
    std::string path;
    std::string token;  ///< the last name that was returned
    SortedWindow<std::string>::Stretch stretch;
    std::size_t position = 0;
};

/// Listings that somebody is in the middle of, the latest first. Keeping them saves reading the directory
/// again for each page. Thread-safe.
class PartialListings {
  public:
    explicit PartialListings(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

    /// Takes the listing out, if it is here.
    std::optional<PartialListing> take(const std::string& path, const std::string& token) {
        const MutexLock lock(mutex_);
        for (auto it = kept_.begin(); it != kept_.end(); ++it) {
            if (it->path != path || it->token != token) continue;
            PartialListing found = std::move(*it);
            kept_.erase(it);
            return found;
        }
        return std::nullopt;
    }

    void keep(PartialListing listing) {
        const MutexLock lock(mutex_);
        kept_.push_front(std::move(listing));
        std::uint64_t bytes = 0;
        for (auto it = kept_.begin(); it != kept_.end();) {
            bytes += it->stretch.bytes;
            it = bytes > most_bytes_ && it != kept_.begin() ? kept_.erase(it) : std::next(it);
        }
    }

  private:
    const std::uint64_t most_bytes_;
    Mutex mutex_;
    std::list<PartialListing> kept_ TIERFS_GUARDED_BY(mutex_);
};

/// A name, its place in the window while that grows, and what malloc takes for a long one.
std::size_t bytes_of(const std::string& name) {
    constexpr std::size_t kInside = 15, kMalloc = 24;
    return 3 * sizeof(std::string) + (name.size() > kInside ? name.size() + kMalloc : 0);
}

Result<SortedWindow<std::string>::Stretch> sorted_names(FileDescriptor descriptor, const std::string& path,
                                                        const std::string& after, std::size_t most_bytes,
                                                        PatientCalls::Progress& progress) {
    if (const int code = TIERFS_FAULT("dir.readdir"); code != 0)
        return fail(system_error(code, "directory '" + path + "'"));
    DIR* const raw = ::fdopendir(descriptor.get());
    if (raw == nullptr) return fail(system_error(errno, "directory '" + path + "'"));
    descriptor.release();  // closedir closes it
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(raw, ::closedir);
    SortedWindow<std::string> names(after, most_bytes);
    for (std::size_t number = 0;; ++number) {
        errno = 0;
        const struct dirent* entry = ::readdir(stream.get());
        if (entry == nullptr) break;
        std::string name(static_cast<const char*>(entry->d_name));
        const auto bytes = bytes_of(name);
        if (name != "." && name != "..") names.add(std::move(name), bytes);
        if (number % kNamesPerProgress == 0) progress.made();
    }
    if (errno != 0) return fail(system_error(errno, "directory '" + path + "'"));
    return names.take();
}

/// The source itself, asked with calls that may hang. Thread-safe. Owned by whoever asks, since a thread may
/// come back from the kernel when all else has gone.
class Directory {
  public:
    Directory(FileDescriptor root, std::string real_path, std::uint64_t memory_limit)
        : root_(std::move(root)),
          real_path_(std::move(real_path)),
          most_name_bytes_(std::clamp(memory_limit / kShareOfNames, kLeastNameBytes, kMostNameBytes)),
          partial_(std::max(memory_limit / kShareOfListings, most_name_bytes_)) {}

    [[nodiscard]] const std::string& real_path() const { return real_path_; }
    [[nodiscard]] Result<void> check() const;
    Result<Attributes> stat(const std::string& path);
    Result<ListPage> list(const std::string& path, const std::string& token,
                          PatientCalls::Progress& progress);
    Result<std::string> read_link(const std::string& path);
    void serve(OriginRead& request);
    [[nodiscard]] Result<struct statvfs> statistics() const;
    Result<std::string> xattr(const std::string& path, const std::string& name);
    Result<std::vector<std::string>> xattr_names(const std::string& path);
    [[nodiscard]] Acls acls() const;

    [[nodiscard]] OriginStats stats() const {
        OriginStats stats;
        stats.get = gets_;
        stats.head = heads_;
        stats.list = lists_;
        stats.other = others_;
        stats.bytes_read = bytes_read_;
        stats.errors = errors_;
        return stats;
    }

  private:
    [[nodiscard]] Result<void> read_now(const OriginRead& request) const;
    [[nodiscard]] ssize_t read_at(int descriptor, std::span<std::byte> to, off_t offset, bool is_bulk) const;
    std::int64_t tick() const;
    void mark_young(Attributes& attributes) const;
    [[nodiscard]] static Result<void> expect_version(int descriptor, const OriginRead& request);

    const FileDescriptor root_;
    const std::string real_path_;
    mutable std::atomic<std::int64_t> tick_ns_ = 0;  ///< see young_version.hpp; 0: not known yet
    const AclReader acls_;
    const std::uint64_t most_name_bytes_;
    PartialListings partial_;
    mutable std::atomic<bool> knows_dont_cache_ = true;  ///< this file system does
    std::atomic<std::uint64_t> gets_ = 0, heads_ = 0, lists_ = 0, others_ = 0, bytes_read_ = 0, errors_ = 0;
};

/// Again when a signal (the watchdog's, which asks for stacks) came between: a source that is a FUSE file
/// system itself may answer that with EINTR.
template <typename Call>
auto uninterrupted(Call call) {
    constexpr int kMostTimes = 10;
    auto result = call();
    for (int i = 0; i < kMostTimes && !result && result.error().code == EINTR; ++i) result = call();
    return result;
}

unsigned most_threads(std::uint64_t memory_limit) {
    return static_cast<unsigned>(
        std::clamp<std::uint64_t>(memory_limit / kMemoryOfThread, kReadThreads, kMostThreads));
}

/// See Origin. Whatever the kernel does with the calls, questions are answered within origin.deadline.
class DirectoryOrigin final : public Origin {
  public:
    DirectoryOrigin(FileDescriptor root, FileDescriptor root_of_writer, FileDescriptor root_of_tree,
                    std::string real_path, unsigned readers, std::chrono::milliseconds deadline,
                    std::uint64_t memory_limit)
        : writer_(std::move(root_of_writer), real_path),
          tree_(std::move(root_of_tree)),
          directory_(std::make_shared<Directory>(std::move(root), std::move(real_path), memory_limit)),
          calls_(most_threads(memory_limit), deadline, reachability_),
          pool_(
              readers, most_threads(memory_limit), deadline,
              [directory = directory_](OriginRead& read) { directory->serve(read); }, reachability_) {}

    [[nodiscard]] std::string identity() const override { return "dir:" + directory_->real_path(); }
    [[nodiscard]] std::string kind() const override { return "directory"; }
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string&) const override { return 0; }
    Result<struct statvfs> statistics() override {
        return ask<struct statvfs>([](Directory& directory) { return directory.statistics(); });
    }
    [[nodiscard]] bool has_statistics() const override { return true; }
    [[nodiscard]] OriginStats stats() const override {
        auto stats = directory_->stats();
        stats.reach = reachability_->state();
        const auto written = writer_.stats();
        const auto posix = tree_.stats();
        stats.get += posix.reads;
        stats.head += posix.lookups;
        stats.list += posix.lists;
        stats.other += posix.others;
        stats.bytes_read += posix.bytes_read;
        stats.errors += posix.errors;
        stats.put = written.put + posix.writes;
        stats.remove = written.remove + posix.removes;
        stats.bytes_written = written.bytes_written + posix.bytes_written;
        return stats;
    }
    WritableOrigin* writable() override { return &writer_; }
    PosixOrigin* posix() override { return &tree_; }

    Result<void> check() override {
        return ask<void>([](Directory& directory) { return directory.check(); });
    }
    Result<Attributes> stat(const std::string& path) override {
        return ask<Attributes>([path](Directory& directory) { return directory.stat(path); });
    }
    Result<ListPage> list(const std::string& path, const std::string& token) override {
        // All names are read before the first page is cut: of a huge directory that takes its time.
        return calls_.run_long<ListPage>([directory = directory_, path, token](auto& progress) {
            return uninterrupted([&] { return directory->list(path, token, progress); });
        });
    }
    Result<std::string> read_link(const std::string& path) override {
        return ask<std::string>([path](Directory& directory) { return directory.read_link(path); });
    }
    Result<std::string> xattr(const std::string& path, const std::string& name) override {
        return ask<std::string>([path, name](Directory& directory) { return directory.xattr(path, name); });
    }
    Result<std::vector<std::string>> xattr_names(const std::string& path) override {
        return ask<std::vector<std::string>>(
            [path](Directory& directory) { return directory.xattr_names(path); });
    }
    [[nodiscard]] bool has_xattrs() const override { return true; }
    Result<Acls> acls() override {
        return ask<Acls>([](Directory& directory) { return Result<Acls>(directory.acls()); });
    }
    void read(OriginRead request) override { pool_.submit(std::move(request)); }

    void stop() override {
        calls_.stop();
        pool_.stop();
    }
    [[nodiscard]] bool is_held() const override { return calls_.is_held() || pool_.is_held(); }

  private:
    template <typename T, typename Question>
    Result<T> ask(Question question) {
        return calls_.run<T>([directory = directory_, question = std::move(question)] {
            return uninterrupted([&] { return question(*directory); });
        });
    }

    DirectoryWriter writer_;
    PosixTree tree_;
    const std::shared_ptr<Directory> directory_;
    const std::shared_ptr<Reachability> reachability_ = std::make_shared<Reachability>();
    PatientCalls calls_;
    ReadPool pool_;
};

Result<void> Directory::check() const {
    const auto opened = open_beneath(root_.get(), "", O_RDONLY | O_DIRECTORY);
    if (!opened) {
        return fail(opened.error().code, "source directory '" + real_path_ + "' cannot be listed: " +
                                             system_error(opened.error().code, "open").message);
    }
    return {};
}

Result<struct statvfs> Directory::statistics() const {
    struct statvfs found {};
    if (::fstatvfs(root_.get(), &found) != 0) return fail(system_error(errno, real_path_));
    return found;
}

// fgetxattr(2) refuses O_PATH descriptors; the link in /proc leads to the file itself.
Result<std::string> Directory::xattr(const std::string& path, const std::string& name) {
    ++others_;
    const auto opened = open_beneath(root_.get(), path, O_PATH | O_NOFOLLOW);
    if (!opened) return fail(opened.error());
    const auto file = "/proc/self/fd/" + std::to_string(opened->get());
    std::string value(kLongestXattr, '\0');
    const auto size =
        TIERFS_FAULT_CALL("dir.getxattr", ::getxattr(file.c_str(), name.c_str(), value.data(), value.size()));
    if (size < 0)
        return fail(system_error(errno == ENOTSUP ? ENODATA : errno, "attribute of '" + path + "'"));
    value.resize(static_cast<std::size_t>(size));
    return value;
}

Result<std::vector<std::string>> Directory::xattr_names(const std::string& path) {
    ++others_;
    const auto opened = open_beneath(root_.get(), path, O_PATH | O_NOFOLLOW);
    if (!opened) return fail(opened.error());
    const auto file = "/proc/self/fd/" + std::to_string(opened->get());
    std::string all(kLongestXattr, '\0');
    const auto length = TIERFS_FAULT_CALL("dir.listxattr", ::listxattr(file.c_str(), all.data(), all.size()));
    if (length < 0 && errno == ENOTSUP) return std::vector<std::string>{};
    if (length < 0) return fail(system_error(errno, "attributes of '" + path + "'"));
    all.resize(static_cast<std::size_t>(length));
    std::vector<std::string> names;
    for (std::size_t at = 0; at < all.size(); at += names.back().size() + 1)
        names.emplace_back(all.data() + at);  // each ends in a NUL
    std::erase_if(names, [](const std::string& name) {
        return !name.starts_with("user.") && name != kAccessList && name != kDefaultList;
    });
    return names;
}

Acls Directory::acls() const {
    const auto file = "/proc/self/fd/" + std::to_string(root_.get());
    if (::getxattr(file.c_str(), kAccessList, nullptr, 0) > 0 ||
        ::getxattr(file.c_str(), kDefaultList, nullptr, 0) > 0)
        return Acls::used;
    return errno == ENOTSUP ? Acls::none : Acls::possible;
}

Result<Attributes> Directory::stat(const std::string& path) {
    ++heads_;
    const auto opened = open_beneath(root_.get(), path, O_PATH | O_NOFOLLOW);
    if (!opened) return fail(opened.error());
    struct stat status {};
    if (TIERFS_FAULT_CALL("dir.stat", ::fstat(opened->get(), &status)) != 0)
        return fail(system_error(errno, "'" + path + "'"));
    BeneathStat result = to_attributes(status);
    if (result.is_special) return fail(ENOENT, "'" + path + "' is neither file, directory nor symlink");
    const auto modes = acls_.modes_of(opened->get(), status);
    result.attributes.mode = modes.mode;
    result.attributes.acl = modes.acl;
    mark_young(result.attributes);
    return std::move(result.attributes);
}

// Asked when it is needed, by a thread that may hang: a source that is away must not hold who opens it.
std::int64_t Directory::tick() const {
    if (const auto known = tick_ns_.load(std::memory_order_relaxed); known != 0) return known;
    struct statfs found {};
    const bool is_local = ::fstatfs(root_.get(), &found) == 0 && is_local_file_system(found.f_type);
    const auto ticks = is_local ? kLocalTick : kRemoteTick;
    tick_ns_.store(ticks, std::memory_order_relaxed);
    return ticks;
}

void Directory::mark_young(Attributes& attributes) const {
    attributes.version =
        shown_version(std::move(attributes.version), attributes.ctime_ns, wall_clock_ns(), tick());
}

Result<std::string> Directory::read_link(const std::string& path) {
    ++others_;
    const auto opened = open_beneath(root_.get(), path, O_PATH | O_NOFOLLOW);
    if (!opened) return fail(opened.error());
    std::array<char, PATH_MAX> target{};
    const ssize_t length =
        TIERFS_FAULT_CALL("dir.readlink", ::readlinkat(opened->get(), "", target.data(), target.size()));
    if (length < 0) return fail(system_error(errno == ENOENT ? EINVAL : errno, "symlink '" + path + "'"));
    return std::string(target.data(), static_cast<std::size_t>(length));
}

void Directory::serve(OriginRead& request) {
    ++gets_;
    Result<void> result = uninterrupted([&] { return read_now(request); });
    if (result) {
        bytes_read_ += request.destination.size();
    } else {
        ++errors_;
    }
    request.done(std::move(result));
}

Result<ListPage> Directory::list(const std::string& path, const std::string& token,
                                 PatientCalls::Progress& progress) {
    ++lists_;
    auto opened = open_beneath(root_.get(), path, O_RDONLY | O_DIRECTORY);
    if (!opened) return fail(opened.error());
    const FileDescriptor directory(::fcntl(opened->get(), F_DUPFD_CLOEXEC, 0));
    if (!directory) return fail(system_error(errno, "directory '" + path + "'"));

    std::optional<PartialListing> listing;
    if (!token.empty()) listing = partial_.take(path, token);
    if (!listing) {
        auto names = sorted_names(std::move(*opened), path, token, most_name_bytes_, progress);
        if (!names) return fail(names.error());
        listing = PartialListing{path, token, std::move(*names), 0};
    }
    const auto& names = listing->stretch.names;

    ListPage page;
    const std::string within = "/proc/self/fd/" + std::to_string(directory.get()) + "/";
    const std::size_t end = std::min(names.size(), listing->position + kNamesPerPage);
    page.entries.reserve(end - listing->position);
    for (; listing->position < end; ++listing->position) {
        if (listing->position % kNamesPerProgress == 0) progress.made();
        const std::string& name = names[listing->position];
        struct stat status {};
        if (TIERFS_FAULT_CALL("dir.entry",
                              ::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW)) != 0) {
            if (errno == ENOENT) continue;  // removed meanwhile
            return fail(system_error(errno, "'" + name + "' in directory '" + path + "'"));
        }
        BeneathStat result = to_attributes(status);
        if (result.is_special) {
            ++page.hidden["socket, pipe or device"];
            continue;
        }
        const auto modes = acls_.modes_of(within + name, status);
        result.attributes.mode = modes.mode;
        result.attributes.acl = modes.acl;
        mark_young(result.attributes);
        page.entries.push_back(DirectoryEntry{name, std::move(result.attributes)});
    }
    if (end < names.size() || !listing->stretch.is_last) page.next = names[end - 1];
    if (end < names.size()) {
        listing->token = page.next;
        partial_.keep(std::move(*listing));
    }
    return page;
}

Result<void> Directory::expect_version(int descriptor, const OriginRead& request) {
    struct stat status {};
    if (TIERFS_FAULT_CALL("dir.version", ::fstat(descriptor, &status)) != 0)
        return fail(system_error(errno, "'" + request.path + "'"));
    const BeneathStat now = to_attributes(status);
    const bool is_other = !request.version.empty() && now.attributes.version != unmarked(request.version);
    if (now.is_special || now.attributes.kind != ObjectKind::file || is_other) {
        return fail(ESTALE, "'" + request.path + "' has changed at the source");
    }
    return {};
}

/// Bulk is read once: it must not drive out what others want of the page cache. RWF_DONTCACHE (Linux 6.14,
/// preadv2(2)) leaves nothing but what was there before.
ssize_t Directory::read_at(int descriptor, std::span<std::byte> to, off_t offset, bool is_bulk) const {
    constexpr int kDontCache = 0x80;  // RWF_DONTCACHE; older headers lack it
    if (is_bulk && knows_dont_cache_.load(std::memory_order_relaxed)) {
        const iovec whole{to.data(), to.size()};
        const ssize_t got = ::preadv2(descriptor, &whole, 1, offset, kDontCache);
        if (got >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) return got;
        knows_dont_cache_ = false;
    }
    const ssize_t got = ::pread(descriptor, to.data(), to.size(), offset);
    if (is_bulk && got > 0) static_cast<void>(::posix_fadvise(descriptor, offset, got, POSIX_FADV_DONTNEED));
    return got;
}

Result<void> Directory::read_now(const OriginRead& request) const {
    // O_NONBLOCK: a pipe that took the file's place must not hold the thread; it means nothing to a regular
    // file.
    const auto opened = open_beneath(root_.get(), request.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!opened) return fail(opened.error());
    if (auto before = expect_version(opened->get(), request); !before) return before;
    std::span<std::byte> rest = request.destination;
    auto offset = static_cast<off_t>(request.offset);
    const bool is_bulk = request.priority == Priority::fill;
    // What the kernel reads ahead belongs to another request, and would stay.
    if (is_bulk) static_cast<void>(::posix_fadvise(opened->get(), 0, 0, POSIX_FADV_RANDOM));
    while (!rest.empty()) {
        const ssize_t got = TIERFS_FAULT_CALL(
            "dir.read", read_at(opened->get(), rest.first(TIERFS_FAULT_SHORT(rest.size())), offset, is_bulk));
        if (got < 0) {
            if (errno == EINTR) continue;
            return fail(system_error(errno, "reading '" + request.path + "' in the source directory"));
        }
        if (got == 0) return fail(ESTALE, "'" + request.path + "' has become shorter at the source");
        rest = rest.subspan(static_cast<std::size_t>(got));
        offset += got;
    }
    return expect_version(opened->get(), request);
}

}  // namespace

Result<std::unique_ptr<Origin>> open_directory_origin(const Settings& settings, const std::string& path) {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
    if (!real) return fail(system_error(errno, "source directory '" + path + "'"));
    FileDescriptor root(TIERFS_FAULT_CALL("dir.root", ::open(real.get(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
    if (!root) return fail(system_error(errno, "source directory '" + path + "'"));
    FileDescriptor root_of_writer(::fcntl(root.get(), F_DUPFD_CLOEXEC, 0));
    FileDescriptor root_of_tree(::fcntl(root.get(), F_DUPFD_CLOEXEC, 0));
    if (!root_of_writer || !root_of_tree) return fail(system_error(errno, "source directory '" + path + "'"));
    const unsigned readers = std::clamp(settings.origin_connections, 1U, kReadThreads);
    return std::make_unique<DirectoryOrigin>(std::move(root), std::move(root_of_writer),
                                             std::move(root_of_tree), std::string(real.get()), readers,
                                             settings.origin_deadline, settings.memory_limit);
}

}  // namespace tierfs
