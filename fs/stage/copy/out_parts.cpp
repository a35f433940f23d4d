// Large files: parts, their order, and what happens after the last.
#include <xxhash.h>

#include <algorithm>
#include <ctime>

#include "config/base/json_text.hpp"
#include "fs/stage/copy/out_upload.hpp"

namespace tierfs::stage {

Result<bool> OutUpload::resume(OutJob& job) {
    const auto found = way_.journal.pending().find(job.path);
    if (found == way_.journal.pending().end()) return false;
    const auto& pending = found->second;
    const Upload upload{job.path, pending.id};
    if (pending.source_version != job.source.attributes().version || pending.size != job.size ||
        pending.part_size != job.part_size) {
        if (auto gone = way_.writer.abort(upload); !gone) return fail(noted(gone.error()));
        return false;
    }
    auto parts = way_.writer.parts(upload, job.part_size);
    if (!parts && parts.error().code == ENOENT) return false;
    if (!parts) return fail(noted(parts.error()));
    job.upload = upload;
    for (auto& part : *parts) job.there.insert_or_assign(part.number, std::move(part));
    return true;
}

Result<void> OutUpload::start_large(std::shared_ptr<OutJob> job) {
    const auto resumed = resume(*job);
    if (!resumed) return fail(resumed.error());
    if (!*resumed) {
        job->begun_s = std::time(nullptr);
        if (auto kept = way_.journal.intend(job->path, job->begun_s); !kept)
            return fail(noted({ECANCELED, kept.error().message}));
        auto upload = way_.writer.begin(job->path, job->options);
        if (!upload) return fail(noted(upload.error()));
        job->upload = std::move(*upload);
        const OutPending pending{job->path, job->source.attributes().version, job->upload.id, job->size,
                                 job->part_size};
        if (auto kept = way_.journal.began(pending); !kept)
            return fail(noted({ECANCELED, kept.error().message}));
    }
    {
        const MutexLock lock(job->mutex);
        job->left = job->parts;
        job->done.resize(job->parts);
        job->digests.resize(job->parts);
    }
    const MutexLock lock(mutex_);
    for (unsigned number = 0; number < job->parts; ++number) parts_.push_back({job, number});
    changed_.notify_all();
    return {};
}

void OutUpload::send_part(const Part& part, AlignedBuffer& buffer) {
    auto& job = *part.job;
    bool pointless = false;
    {
        const MutexLock lock(job.mutex);
        pointless = job.failed.has_value();
    }
    auto sent = pointless ? fail(ECANCELED, "another part failed") : try_part(job, part.number, buffer);
    bool last = false;
    {
        const MutexLock lock(job.mutex);
        if (sent) {
            job.done[part.number] = std::move(*sent);
        } else if (!job.failed) {
            job.failed = sent.error();
        }
        last = --job.left == 0;
    }
    if (!sent) job.sums.give_up();
    way_.observer.progress(std::min(job.part_size, job.size - part.number * job.part_size));
    if (last) finish(job, buffer);
}

Result<UploadPart> OutUpload::try_part(OutJob& job, unsigned number, AlignedBuffer& buffer) {
    const std::uint64_t offset = number * job.part_size;
    const auto size = static_cast<std::size_t>(std::min(job.part_size, job.size - offset));
    make_room(buffer, size);
    if (auto read = job.source.read(buffer, offset, size); !read) return fail(read.error());
    const auto bytes = buffer.span().first(size);
    auto digest = md5_hex(bytes);
    if (!digest) return fail(digest.error());
    {
        const MutexLock lock(job.mutex);
        job.digests[number] = *digest;
    }
    if (!job.sums.add(number, bytes)) return fail(ECANCELED, "another part failed");
    const auto there = job.there.find(number + 1);
    if (there != job.there.end() && there->second.size == size && there->second.checksum == *digest) {
        const MutexLock lock(job.mutex);
        ++job.found_parts;
        return there->second;
    }
    auto sent = way_.writer.part(job.upload, number + 1, offset, bytes, *digest);
    if (!sent) return fail(noted(sent.error()));
    const MutexLock lock(job.mutex);
    job.sent_bytes += size;
    return sent;
}

void OutUpload::drop_doubles(const OutJob& job) {
    if (job.begun_s == 0 || way_.destination.stats().retries == 0) return;
    const auto pending = way_.writer.pending(job.path);
    if (!pending) return;  // not everybody may list them: a rule of the bucket drops them one day
    for (const auto& upload : *pending) {
        if (upload.begun_s >= job.begun_s - kClockSlack) (void)way_.writer.abort(upload.upload);
    }
}

void OutUpload::finish(OutJob& job, AlignedBuffer& buffer) {
    auto fate = try_finish(job, buffer);
    if (fate) {
        arrived(std::move(*fate));
        return;
    }
    const int code = fate.error().code;
    // An upload of bytes that are no more, or one that the destination has lost, cannot be gone on with.
    if (code == ESTALE || code == ENOENT) {
        if (way_.writer.abort(job.upload)) (void)way_.journal.ended(job.path);
    }
    failed(job.path, job.size, fate.error());
}

Result<OutUpload::Fate> OutUpload::try_finish(OutJob& job, AlignedBuffer& buffer) {
    std::vector<UploadPart> parts, local;
    Fate fate;
    {
        const MutexLock lock(job.mutex);
        if (job.failed) return fail(*job.failed);
        parts = job.done;
        for (unsigned i = 0; i < job.parts; ++i) local.push_back({i + 1, parts[i].size, job.digests[i]});
        fate.fate = job.found_parts > 0 ? OutFate::resumed : OutFate::sent;
        fate.sent_bytes = job.sent_bytes;
        const MutexLock all(mutex_);
        summary_.parts_found += job.found_parts;
    }
    if (auto same = job.source.expect_unchanged(way_.root); !same) return fail(same.error());
    const auto expected = checksum_of_parts(local);
    if (!expected) return fail(expected.error());
    auto written = way_.writer.complete(job.upload, parts, job.options);
    if (!written) return fail(noted(written.error()));
    (void)way_.journal.ended(job.path);  // else the next run finds that the upload is gone
    drop_doubles(job);
    fate.record = record_of(job.source, job.path);
    fate.record.xxh3 = job.sums.xxh3();
    fate.record.crc32c = job.sums.crc32c();
    if (auto good = verify(job.path, *written, *expected, fate.record.xxh3, buffer); !good)
        return fail(good.error());
    fate.written = std::move(*written);
    return fate;
}

Result<void> OutUpload::verify(const std::string& path, const Written& written, const std::string& expected,
                               std::uint64_t xxh3, AlignedBuffer& buffer) {
    // Another checksum may be another kind of checksum (encryption by KMS): then the bytes decide.
    if (way_.options.verify == OutVerify::checksums && written.checksum == expected) return {};
    Result<Written> there = written;
    if (written.version.empty()) {
        const auto found = way_.writer.stat_file(path);
        if (!found) return fail(noted(found.error()));
        there->version = found->version;
    }
    const auto hash = read_back(path, *there, buffer);
    if (!hash) return fail(noted(hash.error()));
    if (*hash == xxh3) return {};
    const auto gone = way_.writer.remove(path);
    return fail(
        EIO, "'" + printable(path) + "': the destination holds other bytes than were sent" +
                 (gone ? "; they were removed" : ", and they could not be removed: " + gone.error().message));
}

Result<std::uint64_t> OutUpload::read_back(const std::string& path, const Written& written,
                                           AlignedBuffer& buffer) {
    struct Slot {
        Mutex mutex;
        std::condition_variable ready;
        std::optional<Result<void>> result TIERFS_GUARDED_BY(mutex);
    };
    make_room(buffer, std::min<std::uint64_t>(kChunkBytes, written.size));
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash(XXH3_createState(),
                                                                               &XXH3_freeState);
    if (!hash) return fail(ENOMEM, "no memory for a checksum");
    XXH3_64bits_reset(hash.get());
    for (std::uint64_t offset = 0; offset < written.size; offset += kChunkBytes) {
        const auto size = static_cast<std::size_t>(std::min(kChunkBytes, written.size - offset));
        const auto slot = std::make_shared<Slot>();
        OriginRead request;
        request.path = path;
        request.version = written.version;
        request.offset = offset;
        request.destination = buffer.span().first(size);
        request.done = [slot](Result<void> result) {
            const MutexLock lock(slot->mutex);
            slot->result = std::move(result);
            slot->ready.notify_all();
        };
        way_.destination.read(std::move(request));
        MutexLock lock(slot->mutex);
        while (!slot->result) lock.wait(slot->ready);
        if (!*slot->result)
            return fail(slot->result->error().within("reading back '" + printable(path) + "'"));
        XXH3_64bits_update(hash.get(), buffer.data(), size);
    }
    return XXH3_64bits_digest(hash.get());
}

}  // namespace tierfs::stage
