#include "fs/stage/copy/out_upload.hpp"

#include <algorithm>
#include <ctime>

#include "config/base/json_text.hpp"

namespace tierfs::stage {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};

/// What one file meets all would meet: another try is for when somebody has mended it.
bool is_fatal(int code) {
    switch (code) {
        case EACCES:
        case EPERM:
        case EROFS:
        case ENOSPC:
        case EDQUOT:
        case ETIMEDOUT:
        case EHOSTUNREACH:
        case ECANCELED:
            return true;
        default:
            return false;
    }
}

PutOptions options_for(const Attributes& attributes) {
    PutOptions options;
    options.attributes = FileAttributes{attributes.mode, attributes.uid, attributes.gid, attributes.mtime_ns};
    return options;
}

/// Absent, or not ours to look at: then writing tells.
bool means_absent(const Error& error) {
    return error.code == ENOENT || error.code == EACCES;
}

}  // namespace

void make_room(AlignedBuffer& buffer, std::uint64_t size) {
    if (buffer.size() < size) buffer = AlignedBuffer(size);
}

OutUpload::OutUpload(OutWay way, std::vector<SourceFile> files)
    : way_(std::move(way)), files_(std::move(files)) {}

Result<void> OutUpload::run() {
    std::vector<std::thread> threads;
    {
        const MutexLock lock(mutex_);
        running_ = way_.options.workers;
    }
    for (unsigned i = 0; i < way_.options.workers; ++i) threads.emplace_back([this] { work(); });
    bool stopped = false;
    {
        MutexLock lock(mutex_);
        while (running_ > 0) {
            lock.wait_for(changed_, kLookInterval);
            // What is on the wire would keep its worker for as long as its deadline is away.
            if (!stopped && ends()) {
                stopped = true;
                lock.unlock();
                way_.destination.stop();
                lock.lock();
                changed_.notify_all();
            }
        }
    }
    for (auto& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    if (way_.stop.requested()) return fail(ECANCELED, "interrupted: the same command goes on from here");
    if (fatal_) return fail(*fatal_);
    return {};
}

std::map<std::string, ManifestRecord, std::less<>> OutUpload::records() {
    const MutexLock lock(mutex_);
    return records_;
}

OutSummary OutUpload::summary() {
    const MutexLock lock(mutex_);
    return summary_;
}

void OutUpload::work() {
    AlignedBuffer buffer;
    MutexLock lock(mutex_);
    for (;;) {
        while (!ends() && nothing_to_take() && busy_ > 0) lock.wait(changed_);
        if (ends() || nothing_to_take()) break;
        ++busy_;
        if (!parts_.empty()) {
            const Part part = std::move(parts_.front());
            parts_.pop_front();
            lock.unlock();
            send_part(part, buffer);
        } else {
            const auto& file = files_[next_file_++];
            lock.unlock();
            start_file(file, buffer);
        }
        lock.lock();
        --busy_;
        changed_.notify_all();
    }
    --running_;
    changed_.notify_all();
}

Error OutUpload::noted(Error error) {
    if (is_fatal(error.code)) {
        const MutexLock lock(mutex_);
        if (!fatal_) fatal_ = error;
        changed_.notify_all();
    }
    return error;
}

ManifestRecord OutUpload::record_of(const OutSource& source, const std::string& path) const {
    const auto& attributes = source.attributes();
    ManifestRecord record;
    record.path = path;
    record.size = attributes.size;
    record.source = way_.source;
    record.source_version = attributes.version;
    record.mtime_ns = attributes.mtime_ns;
    record.mode = attributes.mode;
    record.time = std::time(nullptr);
    return record;
}

void OutUpload::start_file(const SourceFile& file, AlignedBuffer& buffer) {
    if (!file.link.empty()) {
        ManifestRecord record;
        record.path = file.path;
        record.source = way_.source;
        record.source_version = file.attributes.version;
        record.mtime_ns = file.attributes.mtime_ns;
        record.mode = file.attributes.mode;
        record.link = file.link;
        record.time = file.attributes.mtime_ns / 1'000'000'000;
        const MutexLock lock(mutex_);
        ++summary_.links;
        records_.insert_or_assign(file.path, std::move(record));
        return;
    }
    if (const auto started = start(file, buffer); !started) {
        failed(file.path, file.attributes.size, started.error());
        way_.observer.progress(file.attributes.size);
    }
}

Result<void> OutUpload::start(const SourceFile& file, AlignedBuffer& buffer) {
    auto source = OutSource::open(way_.root, file.path);
    if (!source) return fail(source.error());
    const auto size = source->attributes().size;
    const auto part_size = part_size_for(size, way_.options.part_size, way_.writer.limits());
    if (!part_size) return fail(part_size.error());
    auto there = is_there(*source, file.path, *part_size, buffer);
    if (!there) return fail(there.error());
    if (*there && way_.options.verify == OutVerify::full) {
        const auto hash = read_back(file.path, (*there)->written, buffer);
        if (!hash) return fail(noted(hash.error()));
        if (*hash != (*there)->record.xxh3) there->reset();  // the checksum lied: it is sent again
    }
    if (*there) {
        arrived(std::move(**there));
        way_.observer.progress(file.attributes.size);
        return {};
    }
    if (size <= *part_size) {
        auto sent = send_small(*source, file.path, buffer);
        if (!sent) return fail(sent.error());
        arrived(std::move(*sent));
        way_.observer.progress(file.attributes.size);
        return {};
    }
    auto job = std::make_shared<OutJob>(file.path, std::move(*source));
    job->size = size;
    job->part_size = *part_size;
    job->parts = static_cast<unsigned>((size + *part_size - 1) / *part_size);
    job->options = options_for(job->source.attributes());
    return start_large(std::move(job));
}

Result<std::optional<OutUpload::Fate>> OutUpload::is_there(const OutSource& source, const std::string& path,
                                                           std::uint64_t part_size, AlignedBuffer& buffer) {
    const std::optional<Fate> no;
    const auto known = way_.journal.done().find(path);
    if (way_.fresh) return no;
    const auto there = way_.writer.stat_file(path);
    if (!there && !means_absent(there.error())) return fail(noted(there.error()));
    if (!there || there->size != source.attributes().size) return no;
    if (known != way_.journal.done().end() &&
        known->second.record.source_version == source.attributes().version &&
        known->second.version == there->version) {
        const auto& done = known->second;
        return Fate{OutFate::skipped, done.record, {done.version, done.checksum, done.record.size}, 0};
    }
    auto same = compare(source, path, *there, part_size, buffer);
    if (same) return std::move(*same);
    if (same.error().code == ENODATA) return no;
    return fail(same.error());
}

Result<OutUpload::Fate> OutUpload::compare(const OutSource& source, const std::string& path,
                                           const Attributes& there, std::uint64_t part_size,
                                           AlignedBuffer& buffer) {
    const auto size = source.attributes().size;
    const bool at_once = size <= part_size;
    const auto theirs = way_.writer.checksum(path, at_once ? 0 : part_size);
    if (!theirs) return fail(means_absent(theirs.error()) ? Error{ENODATA, ""} : noted(theirs.error()));
    OutSums sums;
    std::vector<UploadPart> parts;
    for (std::uint64_t offset = 0; offset < size || parts.empty(); offset += part_size) {
        if (way_.stop.requested()) return fail(ECANCELED, "interrupted");
        const auto length = static_cast<std::size_t>(std::min(part_size, size - offset));
        make_room(buffer, length);
        if (auto read = source.read(buffer, offset, length); !read) return fail(read.error());
        const auto bytes = buffer.span().first(length);
        auto digest = md5_hex(bytes);
        if (!digest) return fail(digest.error());
        sums.add(static_cast<unsigned>(parts.size()), bytes);
        parts.push_back({static_cast<unsigned>(parts.size() + 1), length, std::move(*digest)});
    }
    const auto ours = at_once ? Result<std::string>(parts.front().checksum) : checksum_of_parts(parts);
    if (!ours) return fail(ours.error());
    if (*ours != *theirs) return fail(ENODATA, "");
    if (auto same = source.expect_unchanged(way_.root); !same) return fail(same.error());
    Fate fate{OutFate::skipped, record_of(source, path), {there.version, *theirs, size}, 0};
    fate.record.xxh3 = sums.xxh3();
    fate.record.crc32c = sums.crc32c();
    return fate;
}

Result<OutUpload::Fate> OutUpload::send_small(const OutSource& source, const std::string& path,
                                              AlignedBuffer& buffer) {
    const auto size = static_cast<std::size_t>(source.attributes().size);
    make_room(buffer, size);
    if (auto read = source.read(buffer, 0, size); !read) return fail(read.error());
    if (auto same = source.expect_unchanged(way_.root); !same) return fail(same.error());
    const auto bytes = buffer.span().first(size);
    const auto digest = md5_hex(bytes);
    if (!digest) return fail(digest.error());
    OutSums sums;
    sums.add(0, bytes);
    // A kill leaves the temporary file of a directory or an NFS server behind: the next run looks for it.
    if (way_.destination.kind() != "s3") {
        if (auto kept = way_.journal.intend(path, std::time(nullptr), false); !kept)
            return fail(noted({ECANCELED, kept.error().message}));
    }
    auto written = way_.writer.put(path, bytes, options_for(source.attributes()), *digest);
    if (!written) return fail(noted(written.error()));
    if (auto good = verify(path, *written, *digest, sums.xxh3(), buffer); !good) return fail(good.error());
    Fate fate{OutFate::sent, record_of(source, path), std::move(*written), size};
    fate.record.xxh3 = sums.xxh3();
    fate.record.crc32c = sums.crc32c();
    return fate;
}

void OutUpload::arrived(Fate fate) {
    const OutDone done{fate.record, fate.written.version, fate.written.checksum};
    const auto known = way_.journal.done().find(fate.record.path);
    if (known == way_.journal.done().end() || known->second != done) {
        if (auto kept = way_.journal.finished(done); !kept) noted({ECANCELED, kept.error().message});
    }
    // Completed by a run that was killed before it could say so, or put there by somebody else meanwhile.
    const auto pending = way_.journal.pending().find(fate.record.path);
    if (fate.fate == OutFate::skipped && pending != way_.journal.pending().end()) {
        if (way_.writer.abort({pending->first, pending->second.id})) (void)way_.journal.ended(pending->first);
    }
    OutEvent event;
    event.path = fate.record.path;
    event.fate = fate.fate;
    event.size = fate.record.size;
    event.sent_bytes = fate.sent_bytes;
    event.checksum = fate.written.checksum;
    {
        const MutexLock lock(mutex_);
        summary_.sent_bytes += fate.sent_bytes;
        ++(fate.fate == OutFate::skipped   ? summary_.skipped
           : fate.fate == OutFate::resumed ? summary_.resumed
                                           : summary_.sent);
        records_.insert_or_assign(fate.record.path, std::move(fate.record));
    }
    way_.observer.file(event);
}

void OutUpload::failed(const std::string& path, std::uint64_t size, const Error& error) {
    {
        const MutexLock lock(mutex_);
        ++summary_.failed;
        // That the run ends is told once; the files that it caught under way are not at fault.
        if (ends()) return;
    }
    OutEvent event;
    event.path = path;
    event.fate = OutFate::failed;
    event.size = size;
    event.error = error.message;
    way_.observer.file(event);
}

}  // namespace tierfs::stage
