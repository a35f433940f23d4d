#include "fs/readwrite/live_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "config/base/delivery.hpp"
#include "config/base/sync_point.hpp"
#include "config/base/time.hpp"

namespace tierfs {

namespace {

bool is_open_for_writing(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY;
}

/// A thread's own, since a reply is written before the next request is read.
std::span<std::byte> buffer_of(std::size_t size) {
    static thread_local std::vector<std::byte> buffer;
    if (buffer.size() < size) buffer.resize(size);
    return std::span(buffer).first(size);
}

}  // namespace

LiveFile::~LiveFile() {
    if (closers == nullptr || !Delivery::is_under_way()) return;
    closers->post([closed = std::move(file)](bool) mutable { closed.reset(); });
}

LiveChange::LiveChange(LiveNodePtr node) : node_(std::move(node)) {
    auto& content = node_->content;
    const MutexLock lock(content.mutex);
    ++content.writers;
    ++content.changes;
    content.object.reset();
    content.cached_version.clear();
}

LiveChange::~LiveChange() {
    if (!node_) return;
    const MutexLock lock(node_->content.mutex);
    --node_->content.writers;
}

// A clock that ticks once a second (times without fractions) needs more of a distance than one of a kernel,
// whose ticks are some milliseconds.
bool LiveFiles::is_settled(const PosixAttributes& attributes, std::int64_t now) {
    if (attributes.trust != PosixAttributes::Trust::by_time)
        return attributes.trust == PosixAttributes::Trust::always;
    const auto& changed = attributes.status.st_ctim;
    const std::int64_t at = to_ns(changed.tv_sec, changed.tv_nsec);
    if (at > now || at < 0) return at < 0;
    const std::int64_t age = now - at;
    return age >= (changed.tv_nsec == 0 ? 3 * kNsPerSecond : kNsPerSecond);
}

LiveFiles::Opened LiveFiles::add(const LiveNodePtr& node, const PosixNodePtr& held, PosixFilePtr file,
                                 int flags, Asker asker, bool is_wanted, bool has_pages) {
    nodes_.opened(node, held);
    {
        auto& content = node->content;
        const MutexLock lock(content.mutex);
        content.is_seen = has_pages || (content.opens != 0 && content.is_seen);
        ++content.opens;
    }
    Opened opened;
    opened.backing_id = passthrough_.open(*node, *file, flags, is_wanted);
    opened.is_flushed = is_open_for_writing(flags) || (flags & O_TRUNC) != 0;
    auto made = std::make_shared<LiveFile>();
    made->node = node;
    made->file = std::move(file);
    made->writes = is_open_for_writing(flags);
    made->closers = readers_.get();
    made->is_passed = opened.backing_id != 0;
    made->opener = asker.uid;
    const MutexLock lock(mutex_);
    opened.handle = next_++;
    if (record_ != nullptr) {
        LiveRecord::Open kept;
        kept.node = node->id;
        kept.unique = asker.unique;
        kept.flags = flags;
        kept.backing_id = opened.backing_id;
        kept.descriptor = made->file->descriptor();
        kept.opener = asker.uid;
        kept = record_->add_open(kept);
        opened.handle = kept.handle;
        made->slot = kept.slot;
    }
    files_.emplace(opened.handle, std::move(made));
    return opened;
}

Result<void> LiveFiles::restore(const LiveRecord::Open& open, FileDescriptor file,
                                DescriptorShares::Share share) {
    auto node = nodes_.find(open.node);
    if (!node) return fail(std::move(node.error()));
    auto adopted = nodes_.origin().adopt(std::move(file));
    if (!adopted) return fail(std::move(adopted.error()));
    const auto found = nodes_.origin().attributes(*adopted->node);
    if (!found || found->identity() != (*node)->identity)
        return fail(ESTALE, "the open file is another one than was recorded");
    const bool writes = is_open_for_writing(open.flags);
    if (writes) LiveChange(*node).leave_open();
    nodes_.opened(*node, adopted->node);
    {
        auto& content = (*node)->content;
        const MutexLock lock(content.mutex);
        content.is_seen = true;
        ++content.opens;
    }
    passthrough_.restore(**node, *adopted->file, open.backing_id);
    auto made = std::make_shared<LiveFile>();
    made->node = std::move(*node);
    made->file = std::move(adopted->file);
    made->writes = writes;
    made->is_passed = open.backing_id != 0;
    made->opener = open.opener;
    made->share = std::move(share);
    made->slot = open.slot;
    made->closers = readers_.get();
    const MutexLock lock(mutex_);
    files_.emplace(open.handle, std::move(made));
    return {};
}

std::optional<LiveFiles::Opened> LiveFiles::answered_before(std::uint64_t unique) {
    const auto kept = record_ != nullptr ? record_->answered_before(unique) : std::nullopt;
    if (!kept || !find(kept->handle)) return std::nullopt;
    Opened opened;
    opened.handle = kept->handle;
    opened.backing_id = kept->backing_id;
    opened.is_flushed = true;
    return opened;
}

Result<LiveFiles::Opened> LiveFiles::open(const LiveNodePtr& node, const PosixNodePtr& held, int flags,
                                          Asker asker, const std::function<Result<PosixFilePtr>()>& open) {
    if (is_open_for_writing(flags) || (flags & O_TRUNC) != 0) {
        LiveChange change(node);  // before O_TRUNC takes effect
        auto file = open();
        if (!file) return fail(std::move(file.error()));
        if (is_open_for_writing(flags)) change.leave_open();
        return add(node, held, std::move(*file), flags, asker, true, false);
    }
    auto file = open();
    if (!file) return fail(std::move(file.error()));
    const auto settled = settle(node, **file);
    auto opened =
        add(node, held, std::move(*file), flags, asker, !settled.through_tiers, settled.keeps_cache);
    opened.keeps_cache = settled.keeps_cache && opened.backing_id == 0;
    return opened;
}

LiveFiles::Opened LiveFiles::created(const LiveNodePtr& node, const PosixNodePtr& held, PosixFilePtr file,
                                     int flags, Asker asker) {
    if (is_open_for_writing(flags)) LiveChange(node).leave_open();
    auto opened = add(node, held, std::move(file), flags, asker, true, false);
    opened.is_flushed = true;  // closing it is what puts it there
    return opened;
}

LiveFiles::Settled LiveFiles::settle(const LiveNodePtr& node, PosixFile& file) {
    auto& content = node->content;
    std::uint64_t changes = 0;
    {
        const MutexLock lock(content.mutex);
        if (content.writers != 0) return {};
        changes = content.changes;
    }
    const bool is_mapped = passthrough_.may_be_mapped(*node);
    const auto now = file.attributes();
    TIERFS_SYNC_POINT("live.open.settling");
    const bool is_known = !is_mapped && now && is_settled(*now, nodes_.origin().clock_ns());
    auto object = is_known ? this->object(node, *now) : fail(EAGAIN, "it has just changed");
    const MutexLock lock(content.mutex);
    if (!is_known || content.changes != changes) {
        // Whoever changed it has reset what is known; what changed elsewhere is not to be read any more.
        if (content.changes == changes) content.object.reset();
        content.cached_version.clear();
        return {};
    }
    const bool keeps = content.cached_version == now->version;
    content.cached_version = now->version;
    if (!object) {
        content.object.reset();
    } else if (!content.object || content.object->content != (*object)->content) {
        content.object = std::move(*object);
    }
    return {content.object != nullptr, keeps};
}

std::optional<std::string> LiveFiles::locked(LiveNode& node, const PosixAttributes& now) {
    auto& content = node.content;
    const bool is_known = is_settled(now, nodes_.origin().clock_ns());
    const MutexLock lock(content.mutex);
    if (!content.locked_version.empty() && content.locked_version == now.version) return {};
    content.locked_version.clear();  // until forgotten()
    if (!is_known || !content.object || content.object->version != now.version) {
        ++content.changes;  // who is about to decide what readers get has looked too early
        content.object.reset();
        content.cached_version.clear();
    }
    return is_known ? now.version : std::string();
}

void LiveFiles::forgotten(LiveNode& node, std::string version) {
    const MutexLock lock(node.content.mutex);
    node.content.locked_version = std::move(version);
}

Result<std::shared_ptr<const ObjectRef>> LiveFiles::object(const LiveNodePtr& node,
                                                           const PosixAttributes& now) {
    if (!S_ISREG(now.status.st_mode)) return fail(EINVAL, "no regular file");
    auto path = nodes_.path(node);
    if (!path) return fail(std::move(path.error()));
    ObjectRef object;
    object.content = content_id(identity_, *path, now.version);
    object.path = std::move(*path);
    object.version = now.version;
    object.size = static_cast<std::uint64_t>(now.status.st_size);
    object.mtime_ns = to_ns(now.status.st_mtim.tv_sec, now.status.st_mtim.tv_nsec);
    return std::make_shared<const ObjectRef>(std::move(object));
}

LiveFilePtr LiveFiles::find(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    const auto found = files_.find(handle);
    return found == files_.end() ? nullptr : found->second;
}

void LiveFiles::close(std::uint64_t handle) {
    LiveFilePtr closed;
    {
        const MutexLock lock(mutex_);
        const auto found = files_.find(handle);
        if (found == files_.end()) return;
        closed = std::move(found->second);
        files_.erase(found);
        if (record_ != nullptr) record_->remove_open(closed->slot);
    }
    const auto node = closed->node;
    nodes_.closed(node);
    {
        const MutexLock lock(node->content.mutex);
        --node->content.opens;
        if (closed->writes) --node->content.writers;
    }
    const bool looks_itself = closed->file->looks_itself();
    if (looks_itself) passthrough_.close(node);
    closed.reset();  // what it has open for writing, before it is asked whether anybody has
    if (!looks_itself) passthrough_.close(node);
}

std::uint64_t LiveFiles::renewals(LiveNode& node) {
    const MutexLock lock(node.content.mutex);
    return node.content.renewals;
}

bool LiveFiles::shows(LiveNode& node, std::uint64_t renewals) {
    const MutexLock lock(node.content.mutex);
    if (node.content.renewals != renewals) return false;
    node.content.is_seen = true;
    return true;
}

bool LiveFiles::telling(LiveNode& node) {
    const MutexLock lock(node.content.mutex);
    ++node.content.tellings;
    return node.content.told == node.content.untold;
}

std::uint64_t LiveFiles::asking(LiveNode& node) {
    const MutexLock lock(node.content.mutex);
    return node.content.untold;
}

// The caller may go on before reply() returns: whoever reads then waits for the lock.
void LiveFiles::tell(LiveNode& node, std::uint64_t asked, const std::function<void()>& reply) {
    auto& content = node.content;
    const MutexLock lock(content.mutex);
    ++content.tellings;
    reply();
    content.told = std::max(content.told, asked);
}

void LiveFiles::size_untold(LiveNode& node) {
    const MutexLock lock(node.content.mutex);
    ++node.content.untold;
}

void LiveFiles::read(const LiveFilePtr& file, std::uint64_t offset, std::uint32_t size, ReadCallback reply,
                     Renewed renewed) {
    std::shared_ptr<const ObjectRef> object;
    std::uint64_t renewals = 0, tellings = 0;
    bool is_size_untold = false;
    auto& content = file->node->content;
    {
        const MutexLock lock(content.mutex);
        if (content.writers == 0) object = content.object;
        renewals = content.renewals;
        tellings = content.tellings;
        is_size_untold = content.told != content.untold;
    }
    if (is_size_untold) return reply(fail(ESTALE, "another host has put a longer one in its place"));
    if (!object) return read_directly(*file, offset, size, tellings, reply, renewed);
    store_.read(object, offset, size, [=, this, reply = std::move(reply)](Result<ReadReply> read) {
        // Who has waited for the origin in vain is not to wait for it twice.
        const bool is_over = !read && (read.error().code == ECANCELED || read.error().code == ETIMEDOUT);
        if (is_over || (read && shows(*file->node, renewals))) return reply(std::move(read));
        if (!read) {
            auto& now = file->node->content;
            const MutexLock lock(now.mutex);
            if (now.object == object) now.object.reset();
            now.cached_version.clear();
        }
        // Changed, renamed or removed at the origin.
        if (!readers_) return read_directly(*file, offset, size, tellings, reply, renewed);
        readers_->post([=, this](bool is_canceled) {
            if (is_canceled) return reply(fail(ECANCELED, "the mount ends"));
            read_directly(*file, offset, size, tellings, reply, renewed);
        });
    });
}

// A name was looked up, and another host has put another object there before anything was read. To who has
// seen nothing, the new one is as good; who has seen some bytes must not see any of another version.
Result<PosixFile::Renewal> LiveFiles::renew(const LiveFile& file, std::uint64_t asked) {
    if (!begin_renewal(*file.node)) return fail(ESTALE, "it has been read from already");
    auto renewed = file.file->renew(asked);
    if (renewed) (void)settle(file.node, *file.file);
    return renewed;
}

bool LiveFiles::begin_renewal(LiveNode& node) {
    auto& content = node.content;
    const MutexLock lock(content.mutex);
    if (content.is_seen || content.writers != 0) return false;
    content.object.reset();
    content.cached_version.clear();
    ++content.changes;
    ++content.renewals;
    return true;
}

bool LiveFiles::renew_to_show(LiveNode& node, const std::function<Result<PosixFile::Renewal>()>& renew) {
    auto& content = node.content;
    std::shared_ptr<const ObjectRef> object;
    {
        const MutexLock lock(content.mutex);
        if (content.is_seen) return false;
        object = content.object;
    }
    const bool begun = begin_renewal(node);
    const auto before = renewals(node);
    const auto renewed = begun ? renew() : fail(ESTALE, "it is open for writing");
    const MutexLock lock(content.mutex);
    // What the server did not say now it may say when bytes are asked for.
    if (renewed || renewed.error().code == ESTALE) content.is_seen = true;
    if (begun && !renewed && content.renewals == before && content.writers == 0)
        content.object = std::move(object);
    return renewed.has_value();
}

// The kernel takes an answer with too few bytes for the end of the file, unless it has been told of attributes
// meanwhile; and only the first such answer of several that are under way, whichever it is. So a file becomes a
// shorter one only if one request is for all of it, and the kernel is told nothing: not before, or the reader
// gets an error instead of zeros behind the new end; nor right after, since who waits for the answer looks at
// it only when it runs again. The other attributes are as old as metadata.ttl allows.
// Of an answer it hands on what lies before the end that it knows: of a longer one it is told before, and where
// that is not possible the reader gets an error instead of the beginning of a file.
void LiveFiles::read_directly(const LiveFile& file, std::uint64_t offset, std::uint32_t size,
                              std::uint64_t tellings, const ReadCallback& reply, const Renewed& renewed) {
    constexpr unsigned kMostRenewals = 4;
    ++read_requests_;
    const auto buffer = buffer_of(size);
    const auto is_changing = fail(ESTALE, "it changes all the time");
    Result<std::size_t> got = is_changing;
    bool is_shorter = false, is_out = false;
    for (unsigned attempt = 0; attempt < kMostRenewals && !is_out; ++attempt) {
        const auto before = renewals(*file.node);
        got = file.file->read(buffer, offset);
        if (got) {
            is_out = shows(*file.node, before);
            continue;
        }
        const auto again =
            got.error().code == ESTALE ? renew(file, offset == 0 ? size : 0) : fail(got.error());
        if (!again) break;
        is_shorter = again->size < again->old_size || is_shorter;
        if (!again->is_other || is_shorter || !renewed) continue;
        (void)telling(*file.node);
        if (!renewed(*again, [&] { size_untold(*file.node); })) break;
    }
    if (got && !is_out) got = is_changing;
    if (!got) {
        ++read_errors_;
        return reply(fail(got.error()));
    }
    read_bytes_ += *got;
    ReadReply answer;
    answer.pieces = {buffer.first(*got)};
    answer.origin_bytes = *got;
    if (!is_shorter) return reply(std::move(answer));
    auto& content = file.node->content;
    const MutexLock lock(content.mutex);  // nobody tells the kernel anything meanwhile
    if (content.tellings == tellings) {
        reply(std::move(answer));
    } else {
        reply(fail(ESTALE, "another host has put a shorter one in its place"));
    }
}

Result<void> LiveFiles::write(LiveFile& file, std::span<const std::byte> bytes, std::uint64_t offset) {
    ++write_requests_;
    auto written = file.file->write(bytes, offset);
    if (written) {
        write_bytes_ += bytes.size();
    } else {
        ++write_errors_;
    }
    return written;
}

LiveStats LiveFiles::stats() const {
    return {write_requests_, write_bytes_, write_errors_, read_requests_, read_bytes_, read_errors_};
}

}  // namespace tierfs
