#include "backends/nfs/posix_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr unsigned kMostEmptyPages = 1000;  ///< in a row, without one name that can be

}  // namespace

PosixExportFile::PosixExportFile(PosixExport& origin, Handle handle, std::shared_ptr<UnstableWrites> writes,
                                 int flags)
    : origin_(origin),
      handle_(std::move(handle)),
      writes_(std::move(writes)),
      is_synchronous_((flags & (O_SYNC | O_DSYNC)) != 0),
      told_(writes_->problems()) {}

PosixExportFile::~PosixExportFile() {
    // Mappings write after the last close(2).
    writes_->commit();
    if (const auto failed = problem(); !failed)
        log::error("nfs: what was written last to a file that is closed is lost: " + failed.error().message);
    origin_.closed(handle_, has_written_);
}

Result<void> PosixExportFile::problem() {
    const MutexLock lock(mutex_);
    return writes_->problem(told_);
}

Result<std::size_t> PosixExportFile::read(std::span<std::byte> destination, std::uint64_t offset) {
    if (auto may = may_wait_for("READ"); !may) return fail(std::move(may.error()));
    writes_->settle();
    std::size_t done = 0;
    while (done < destination.size()) {
        const auto rest = destination.subspan(done, std::min(destination.size() - done, origin_.read_size()));
        auto call = origin_.call(
            kRead, read_arguments(handle_, offset + done, static_cast<std::uint32_t>(rest.size())));
        call.destination = rest;
        const Answer<ReadHead> answer;
        call.done = [answer](Result<Reply> reply) {
            if (!reply) return answer.give(fail(reply.error().within("READ")));
            answer.give(reply->read);
        };
        origin_.client().start(std::move(call));
        // No limit of its own: the destination is in use until the call is done, which has its deadline.
        const auto head = answer.wait(Clock::now() + std::chrono::hours(24 * 365));
        if (!head) return fail(head.error());
        if (head->status != kOk) return fail(to_errno(head->status), "READ: " + status_name(head->status));
        if (head->length > rest.size()) return fail(EIO, "READ: the server sends more than was asked for");
        origin_.client().counters().bytes_read += head->length;
        done += head->length;
        if (head->at_end || head->length == 0) break;
    }
    return done;
}

Result<void> PosixExportFile::write(std::span<const std::byte> bytes, std::uint64_t offset) {
    if (auto failed = problem(); !failed) return failed;
    if (auto cleared = origin_.clear_set_id(handle_); !cleared) return cleared;
    const bool is_first = !has_written_.exchange(true);
    writes_->write(bytes, offset, origin_.write_size());
    if (is_synchronous_) return sync(true);
    if (!is_first) return {};
    // Programs that do not look at what close(2) says are to hear of a server that takes nothing from them.
    writes_->settle();
    return problem();
}

Result<void> PosixExportFile::resize(std::uint64_t size) {
    return origin_.resize_to(handle_, size);
}

Result<void> PosixExportFile::allocate(int, std::uint64_t, std::uint64_t) {
    return fail(EOPNOTSUPP, "NFSv3 reserves no space");
}

Result<std::uint64_t> PosixExportFile::seek(std::uint64_t offset, int whence) {
    const auto now = attributes();
    if (!now) return fail(now.error());
    const auto size = static_cast<std::uint64_t>(now->status.st_size);
    if (offset >= size) return fail(ENXIO, "seek: beyond the end of the file");
    return whence == SEEK_HOLE ? size : offset;
}

Result<std::uint64_t> PosixExportFile::copy(std::uint64_t, PosixFile&, std::uint64_t, std::uint64_t) {
    return fail(EOPNOTSUPP, "NFSv3 copies nothing by itself");
}

Result<void> PosixExportFile::sync(bool) {
    writes_->commit();
    return problem();
}

Result<void> PosixExportFile::flush() {
    return sync(true);
}

Result<PosixAttributes> PosixExportFile::attributes() {
    return origin_.attributes_of(handle_);
}

Result<std::optional<PosixEntry>> PosixExportDirectory::read(std::int64_t after) {
    const auto place = static_cast<std::uint64_t>(after);
    const MutexLock lock(mutex_);
    if (place != place_ || (page_.empty() && !is_last_)) {
        if (auto fetched = fetch(place); !fetched) return fail(std::move(fetched.error()));
    }
    if (page_.empty()) return std::optional<PosixEntry>();
    auto entry = std::move(page_.front());
    page_.pop_front();
    place_ = entry.cookie;
    PosixEntry made;
    made.name = std::move(entry.name);
    made.inode = entry.file_id;
    made.next = static_cast<std::int64_t>(entry.cookie);
    if (entry.status) {
        made.type = static_cast<unsigned char>((entry.status->st_mode & S_IFMT) >> 12U);  // IFTODT
        const bool is_plain = made.name != "." && made.name != "..";
        if (is_plain && !entry.handle.empty())
            made.attributes = origin_.shown(*entry.status, entry.handle, asked_);
    }
    return made;
}

Result<void> PosixExportDirectory::fetch(std::uint64_t after) {
    bool again = false;
    for (unsigned pages = 0; pages < kMostEmptyPages; ++pages) {
        if (after == 0) verifier_.assign(8, '\0');
        asked_ = Clock::now();
        auto asked = origin_.read_names(handle_, after, verifier_);
        if (!asked) return fail(std::move(asked.error()));
        auto& reply = asked->reply;
        if (reply.status == kBadCookie && !again) {  // it has changed: from the same place without a verifier
            verifier_.assign(8, '\0');
            again = true;
            continue;
        }
        if (reply.status != kOk)
            return fail(to_errno(reply.status), "directory: " + status_name(reply.status));
        verifier_ = std::move(reply.verifier);
        page_.assign(std::make_move_iterator(reply.entries.begin()),
                     std::make_move_iterator(reply.entries.end()));
        place_ = after;
        is_last_ = reply.at_end || page_.empty();
        // What a name may not be stays on the server.
        std::erase_if(page_, [](const DirectoryEntry3& entry) {
            return entry.name.empty() || entry.name.size() > 255 ||
                   entry.name.find_first_of(std::string_view("/\0", 2)) != std::string::npos;
        });
        if (!page_.empty() || is_last_) return {};
        after = reply.entries.back().cookie;
    }
    return fail(EIO, "directory: the server sends no names");
}

}  // namespace tierfs::nfs
