#include "backends/nfs/nfs_writer.hpp"

#include <climits>

#include "backends/nfs/change_messages.hpp"
#include "backends/nfs/waiting.hpp"
#include "backends/origin/upload_name.hpp"
#include "backends/origin/young_version.hpp"
#include "config/base/time.hpp"
#include "config/base/units.hpp"

namespace tierfs::nfs {
namespace {

constexpr unsigned kMostPartAttempts = 4;  ///< of a part whose server was started anew

std::string beside(const Upload& upload) {
    const auto directory = split_path(upload.path).directory;
    return directory.empty() ? upload.id : directory + "/" + upload.id;
}

Result<void> expect_upload(const Upload& upload) {
    const auto prefix = upload_prefix(upload.path);
    if (!prefix) return fail(prefix.error());
    if (!is_upload_name(upload.id, *prefix)) return fail(ENOENT, "'" + upload.path + "': no such upload");
    return {};
}

}  // namespace

/// The writes of one part.
struct NfsWriter::Writing {
    Handle handle;
    std::string what;
    Clock::time_point deadline;
    Answer<std::string> answer;  ///< the verifier of all of them; empty: they differ
    std::atomic<unsigned> pieces = 0;
    Mutex mutex;
    std::optional<Error> problem TIERFS_GUARDED_BY(mutex);
    std::optional<std::string> verifier TIERFS_GUARDED_BY(mutex);

    void done() {
        if (--pieces > 0) return;
        const MutexLock lock(mutex);
        if (problem) return answer.give(fail(*problem));
        answer.give(verifier.value_or(""));
    }
    void fail_with(Error error) {
        const MutexLock lock(mutex);
        if (!problem) problem = std::move(error);
    }
    void saw(const std::string& text) {
        const MutexLock lock(mutex);
        if (!verifier) verifier = text;
        if (*verifier != text) verifier = "";
    }
};

UploadLimits NfsWriter::limits() const {
    return {4096, 5120 * kMiB, static_cast<std::uint64_t>(INT64_MAX) / 2, UINT_MAX};
}

Result<NfsWriter::There> NfsWriter::look_up(const std::string& path) {
    const Answer<Found> answer;
    const auto until = deadline();
    resolver_.look_up(path, {until, Priority::demand},
                      [answer](Result<Found> found) { answer.give(std::move(found)); });
    auto found = answer.wait(until);
    if (!found) return fail(found.error());
    if (found->attributes) return There{std::move(found->handle), std::move(*found->attributes)};
    Call call;
    call.procedure = kGetattr;
    call.arguments = handle_arguments(found->handle);
    call.deadline = deadline();
    auto reply = ask(client_, std::move(call), "GETATTR of '" + path + "'", read_getattr);
    if (!reply) return fail(reply.error());
    if (reply->status != kOk)
        return fail(to_errno(reply->status), "GETATTR of '" + path + "': " + status_name(reply->status));
    return There{std::move(found->handle), std::move(reply->attributes)};
}

Result<std::uint32_t> NfsWriter::act(const Procedure& procedure, std::string arguments,
                                     const std::string& what, std::uint32_t accepted) {
    Call call;
    call.procedure = procedure;
    call.arguments = std::move(arguments);
    call.deadline = deadline();
    auto status = ask(client_, std::move(call), what, read_status);
    if (!status || *status == kOk || *status == accepted) return status;
    return fail(to_errno(*status), what + ": " + status_name(*status));
}

Result<Handle> NfsWriter::parent_of(const std::string& path, bool make) {
    const auto wanted = split_path(path).directory;
    std::size_t end = 0;
    for (;;) {
        const auto so_far = wanted.substr(0, end);
        const Answer<Found> answer;
        const auto until = deadline();
        resolver_.directory(so_far, {until, Priority::demand},
                            [answer](Result<Found> found) { answer.give(std::move(found)); });
        const auto found = answer.wait(until);
        if (!found) return fail(found.error());
        if (end == wanted.size()) return found->handle;
        const auto from = end == 0 ? 0 : end + 1;
        end = std::min(wanted.find('/', from), wanted.size());
        const auto next = wanted.substr(0, end);
        if (!make || look_up(next)) continue;
        const auto made =
            act(kMkdir, mkdir_arguments(found->handle, wanted.substr(from, end - from), {.mode = 0777}),
                "MKDIR of '" + next + "'", kExists);
        if (!made) return fail(made.error());
    }
}

Result<Upload> NfsWriter::begin(const std::string& path, const PutOptions& options) {
    const auto directory = parent_of(path, true);
    if (!directory) return fail(directory.error());
    if (options.only_if_absent && stat_file(path)) return fail(EEXIST, "'" + path + "' is there");
    const auto prefix = upload_prefix(path);
    if (!prefix) return fail(prefix.error());
    const auto name = new_upload_name(*prefix);
    // The name is ours alone: asking again does no harm.
    const auto made = act(kCreate, unchecked_create_arguments(*directory, name, {.mode = 0600}),
                          "CREATE beside '" + path + "'");
    if (!made) return fail(made.error());
    return Upload{path, name};
}

void NfsWriter::send(const std::shared_ptr<Writing>& writing, std::uint64_t offset,
                     std::span<const std::byte> bytes) {
    Call call;
    call.procedure = kWrite;
    call.arguments = write_arguments(writing->handle, offset, static_cast<std::uint32_t>(bytes.size()));
    call.payload = bytes;
    call.deadline = writing->deadline;
    call.done = [this, writing, offset, bytes](Result<Reply> answer) {
        if (!answer) {
            writing->fail_with(answer.error().within(writing->what));
            return writing->done();
        }
        XdrReader in(answer->body);
        const auto reply = read_write(in);
        if (!in.ok() || (reply.status == kOk && (reply.count == 0 || reply.count > bytes.size()))) {
            writing->fail_with(Error{EIO, writing->what + ": the reply makes no sense"});
        } else if (reply.status != kOk) {
            writing->fail_with(
                Error{to_errno(reply.status), writing->what + ": " + status_name(reply.status)});
        } else {
            client_.counters().bytes_written += reply.count;
            writing->saw(reply.verifier);
            if (reply.count < bytes.size())
                return send(writing, offset + reply.count, bytes.subspan(reply.count));
        }
        writing->done();
    };
    client_.start(std::move(call));
}

/// `is_lost`: the server was started anew between a write and its commit.
Result<void> NfsWriter::write_once(const Handle& handle, std::uint64_t offset,
                                   std::span<const std::byte> bytes, const std::string& what, bool& is_lost) {
    is_lost = false;
    if (bytes.empty()) return {};
    if (auto may = may_wait_for("WRITE"); !may) return may;
    auto writing = std::make_shared<Writing>();
    writing->handle = handle;
    writing->what = "WRITE of " + what;
    // As Origin's writers have it: the deadline, and what the bytes need at 256 KiB a second.
    const auto extra = std::chrono::seconds(bytes.size() / (256 << 10));
    writing->deadline = deadline() + extra;
    const std::size_t size = root_.write_size();
    const auto count = (bytes.size() + size - 1) / size;
    writing->pieces = static_cast<unsigned>(count);
    for (std::size_t i = 0; i < count; ++i)
        send(writing, offset + i * size, bytes.subspan(i * size, std::min(size, bytes.size() - i * size)));
    // No limit of its own: the bytes are the caller's, and each piece has its deadline.
    const auto verifier = writing->answer.wait(Clock::now() + std::chrono::hours(24 * 365));
    if (!verifier) return fail(verifier.error());
    Call call;
    call.procedure = kCommit;
    call.arguments = commit_arguments(
        handle, offset, bytes.size() > UINT32_MAX ? 0 : static_cast<std::uint32_t>(bytes.size()));
    call.deadline = deadline() + extra;
    const auto committed = ask(client_, std::move(call), "COMMIT of " + what, read_commit);
    if (!committed) return fail(committed.error());
    if (committed->status != kOk)
        return fail(to_errno(committed->status), "COMMIT of " + what + ": " + status_name(committed->status));
    is_lost = committed->verifier != *verifier;
    return {};
}

Result<UploadPart> NfsWriter::part(const Upload& upload, unsigned number, std::uint64_t offset,
                                   std::span<const std::byte> bytes, const std::string& checksum_md5) {
    if (auto ours = expect_upload(upload); !ours) return fail(ours.error());
    auto checksum = checksum_md5.empty() ? md5_hex(bytes) : Result<std::string>(checksum_md5);
    if (!checksum) return fail(checksum.error());
    const auto file = look_up(beside(upload));
    if (!file) return fail(file.error());
    const auto what = "'" + upload.path + "'";
    bool is_lost = true;
    for (unsigned attempt = 0; is_lost; ++attempt) {
        if (attempt == kMostPartAttempts)
            return fail(EIO, "WRITE of " + what + ": the server is started anew too often");
        if (auto written = write_once(file->handle, offset, bytes, what, is_lost); !written)
            return fail(written.error());
    }
    return UploadPart{number, bytes.size(), std::move(*checksum)};
}

Result<Written> NfsWriter::put(const std::string& path, std::span<const std::byte> bytes,
                               const PutOptions& options, const std::string& checksum_md5) {
    const auto upload = begin(path, options);
    if (!upload) return fail(upload.error());
    const auto part = this->part(*upload, 1, 0, bytes, checksum_md5);
    Result<Written> written = part ? complete(*upload, std::span(&*part, 1), options) : fail(part.error());
    if (!written) {
        (void)abort(*upload);  // the first error is the one to tell
        return written;
    }
    written->checksum = part->checksum;
    return written;
}

Result<std::vector<UploadPart>> NfsWriter::parts(const Upload& upload, std::uint64_t) {
    if (auto ours = expect_upload(upload); !ours) return fail(ours.error());
    if (const auto file = look_up(beside(upload)); !file) return fail(file.error());
    return std::vector<UploadPart>{};
}

Result<void> NfsWriter::set_attributes(const Handle& handle, const PutOptions& options,
                                       const std::string& what) {
    SetAttributes wanted;
    wanted.mode = FileAttributes().mode;
    if (options.attributes) {
        const auto& given = *options.attributes;
        wanted = {.mode = given.mode & 07777U, .uid = given.uid, .gid = given.gid};
        wanted.modification = to_timespec(given.mtime_ns);
    }
    for (const bool with_owner : {true, false}) {
        if (!with_owner) wanted.uid = wanted.gid = std::nullopt;
        // Only root may give files away; who cannot keeps them.
        const auto status = act(kSetattr, setattr_arguments(handle, wanted), "SETATTR of " + what,
                                with_owner ? kNotOwner : kOk);
        if (!status) return fail(status.error());
        if (*status == kOk) return {};
    }
    return {};
}

Result<void> NfsWriter::rename_into_place(const Upload& upload, const There& temporary,
                                          const PutOptions& options) {
    const auto& path = upload.path;
    if (!options.only_if_version.empty()) {
        const auto there = stat_file(path);
        if (!there && there.error().code != ENOENT) return fail(there.error());
        if (!there || there->version != unmarked(options.only_if_version))
            return fail(ESTALE, "'" + path + "': another version is there");
    }
    const auto directory = parent_of(path, false);
    if (!directory) return fail(directory.error());
    const auto name = split_path(path).name;
    // Of an answer that was lost the second one says that there is nothing to do: then it was ours.
    const auto is_done = [&] {
        const auto there = look_up(path);
        return there && there->file.file_id == temporary.file.file_id;
    };
    if (!options.only_if_absent) {
        const auto renamed = act(kRename, rename_arguments(*directory, upload.id, *directory, name),
                                 "RENAME to '" + path + "'", kNoEntry);
        if (!renamed) return fail(renamed.error());
        if (*renamed != kOk && !is_done()) return fail(ENOENT, "'" + path + "': the upload is gone");
        return {};
    }
    const auto linked =
        act(kLink, link_arguments(temporary.handle, *directory, name), "LINK to '" + path + "'", kExists);
    if (!linked) return fail(linked.error());
    if (*linked != kOk && !is_done()) return fail(EEXIST, "'" + path + "' is there");
    return abort(upload);
}

Result<Written> NfsWriter::complete(const Upload& upload, std::span<const UploadPart> parts,
                                    const PutOptions& options) {
    if (auto ours = expect_upload(upload); !ours) return fail(ours.error());
    const auto file = look_up(beside(upload));
    if (!file) return fail(file.error());
    std::uint64_t size = 0;
    for (const auto& part : parts) size += part.size;
    if (file->file.attributes.size != size)
        return fail(EIO, "'" + upload.path + "': the temporary file has another size than its parts");
    if (auto set = set_attributes(file->handle, options, "'" + upload.path + "'"); !set)
        return fail(set.error());
    if (auto renamed = rename_into_place(upload, *file, options); !renamed) return fail(renamed.error());
    const auto there = stat_file(upload.path);
    if (!there) return fail(there.error());
    auto checksum = checksum_of_parts(parts);
    if (!checksum) return fail(checksum.error());
    return Written{there->version, std::move(*checksum), size};
}

Result<void> NfsWriter::abort(const Upload& upload) {
    const auto prefix = upload_prefix(upload.path);
    if (!prefix) return fail(prefix.error());
    if (!is_upload_name(upload.id, *prefix)) return {};
    return remove(beside(upload));
}

Result<std::vector<PendingUpload>> NfsWriter::pending(const std::string& path) {
    const auto prefix = upload_prefix(path);
    if (!prefix) return fail(prefix.error());
    std::vector<PendingUpload> found;
    std::string token;
    do {
        auto page = lister_.list(split_path(path).directory, token);
        if (!page && page.error().code == ENOENT) return found;
        if (!page) return fail(page.error());
        for (const auto& entry : page->entries) {
            if (is_upload_name(entry.name, *prefix))
                found.push_back({{path, entry.name}, entry.attributes.ctime_ns / kNsPerSecond});
        }
        token = page->next;
    } while (!token.empty());
    return found;
}

Result<Attributes> NfsWriter::stat_file(const std::string& path) {
    auto there = look_up(path);
    if (!there) return fail(there.error());
    auto& attributes = there->file.attributes;
    if (there->file.is_special || attributes.kind != ObjectKind::file)
        return fail(attributes.kind == ObjectKind::directory ? EISDIR : EEXIST,
                    "'" + path + "' is there, and is no file");
    attributes.version = version_of(there->file);
    return std::move(attributes);
}

Result<std::string> NfsWriter::md5_at(const std::string& path, const std::string& version,
                                      std::uint64_t offset, std::span<std::byte> buffer) {
    if (auto may = may_wait_for("READ"); !may) return fail(std::move(may.error()));
    const Answer<bool> answer;
    OriginRead request;
    request.path = path;
    request.version = version;
    request.offset = offset;
    request.destination = buffer;
    request.done = [answer](Result<void> result) {
        answer.give(result ? Result<bool>(true) : fail(std::move(result.error())));
    };
    reader_.read(std::move(request), deadline());
    // The buffer is in use until the read is done, which has its deadline.
    const auto read = answer.wait(Clock::now() + std::chrono::hours(24 * 365));
    if (!read) return fail(read.error());
    return md5_hex(buffer);
}

Result<std::string> NfsWriter::checksum(const std::string& path, std::uint64_t part_size) {
    const auto there = stat_file(path);
    if (!there) return fail(there.error());
    const auto size = there->size, step = part_size == 0 ? size : part_size;
    std::vector<std::byte> buffer(std::min(step, size));
    std::vector<UploadPart> parts;
    for (std::uint64_t offset = 0; offset < size || parts.empty(); offset += step) {
        const auto length = std::min(step, size - offset);
        auto digest = md5_at(path, there->version, offset, std::span(buffer).first(length));
        if (!digest || part_size == 0) return digest;
        parts.push_back({static_cast<unsigned>(parts.size() + 1), length, std::move(*digest)});
    }
    return checksum_of_parts(parts);
}

Result<void> NfsWriter::remove(const std::string& path) {
    const auto directory = parent_of(path, false);
    if (!directory) return directory.error().code == ENOENT ? Result<void>{} : fail(directory.error());
    const auto removed =
        act(kRemove, name_arguments(*directory, split_path(path).name), "REMOVE of '" + path + "'", kNoEntry);
    if (!removed) return fail(removed.error());
    return {};
}

}  // namespace tierfs::nfs
