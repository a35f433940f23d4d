#include "fs/readwrite/live_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

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
                                 int flags, bool is_wanted) {
    nodes_.opened(node, held);
    Opened opened;
    opened.backing_id = passthrough_.open(*node, *file, flags, is_wanted);
    opened.is_flushed = is_open_for_writing(flags) || (flags & O_TRUNC) != 0;
    auto made = std::make_shared<LiveFile>();
    made->node = node;
    made->file = std::move(file);
    made->writes = is_open_for_writing(flags);
    made->closers = readers_.get();
    const MutexLock lock(mutex_);
    opened.handle = next_++;
    files_.emplace(opened.handle, std::move(made));
    return opened;
}

Result<LiveFiles::Opened> LiveFiles::open(const LiveNodePtr& node, const PosixNodePtr& held, int flags,
                                          const std::function<Result<PosixFilePtr>()>& open) {
    if (is_open_for_writing(flags) || (flags & O_TRUNC) != 0) {
        LiveChange change(node);  // before O_TRUNC takes effect
        auto file = open();
        if (!file) return fail(std::move(file.error()));
        if (is_open_for_writing(flags)) change.leave_open();
        return add(node, held, std::move(*file), flags, true);
    }
    auto file = open();
    if (!file) return fail(std::move(file.error()));
    const auto settled = settle(node, **file);
    auto opened = add(node, held, std::move(*file), flags, !settled.through_tiers);
    opened.keeps_cache = settled.keeps_cache && opened.backing_id == 0;
    return opened;
}

LiveFiles::Opened LiveFiles::created(const LiveNodePtr& node, PosixFilePtr file, int flags) {
    if (is_open_for_writing(flags)) LiveChange(node).leave_open();
    auto opened = add(node, nullptr, std::move(file), flags, true);
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
    const bool is_known = !is_mapped && now && is_settled(*now, wall_clock_ns());
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
    const bool is_known = is_settled(now, wall_clock_ns());
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
    }
    const auto node = closed->node;
    nodes_.closed(node);
    if (closed->writes) {
        const MutexLock lock(node->content.mutex);
        --node->content.writers;
    }
    closed.reset();  // what it has open for writing, before it is asked whether anybody has
    passthrough_.close(node);
}

void LiveFiles::read(const LiveFilePtr& file, std::uint64_t offset, std::uint32_t size, ReadCallback reply) {
    std::shared_ptr<const ObjectRef> object;
    auto& content = file->node->content;
    {
        const MutexLock lock(content.mutex);
        if (content.writers == 0) object = content.object;
    }
    if (!object) return read_directly(*file, offset, size, reply);
    store_.read(object, offset, size, [=, this, reply = std::move(reply)](Result<ReadReply> read) {
        // Who has waited for the origin in vain is not to wait for it twice.
        if (read || read.error().code == ECANCELED || read.error().code == ETIMEDOUT)
            return reply(std::move(read));
        {
            auto& now = file->node->content;
            const MutexLock lock(now.mutex);
            if (now.object == object) now.object.reset();
            now.cached_version.clear();
        }
        // Changed, renamed or removed at the origin.
        if (!readers_) return read_directly(*file, offset, size, reply);
        readers_->post([=, this](bool is_canceled) {
            if (is_canceled) return reply(fail(ECANCELED, "the mount ends"));
            read_directly(*file, offset, size, reply);
        });
    });
}

void LiveFiles::read_directly(const LiveFile& file, std::uint64_t offset, std::uint32_t size,
                              const ReadCallback& reply) {
    ++read_requests_;
    const auto buffer = buffer_of(size);
    const auto got = file.file->read(buffer, offset);
    if (!got) {
        ++read_errors_;
        return reply(fail(got.error()));
    }
    read_bytes_ += *got;
    ReadReply answer;
    answer.pieces = {buffer.first(*got)};
    answer.origin_bytes = *got;
    reply(std::move(answer));
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
