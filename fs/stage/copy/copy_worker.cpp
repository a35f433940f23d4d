#include "fs/stage/copy/copy_worker.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "config/base/json_text.hpp"
#include "config/base/time.hpp"

namespace tierfs::stage {

namespace {

constexpr std::size_t kMostFiles = 128;
/// A quick source has answered meanwhile: its files then share little memory.
constexpr std::size_t kFilesBetweenLooks = 8;
constexpr std::chrono::milliseconds kLook{200};
constexpr unsigned kMostVersions = 4;
/// So many failures one after the other are no longer about files: the source or the network is away.
constexpr unsigned kMostFailures = 16;

bool is_full(int code) {
    return code == ENOSPC || code == EDQUOT;
}

}  // namespace

JobQueue::JobQueue(std::vector<CopyJob> jobs)
    : jobs_(std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end())) {}

std::optional<CopyJob> JobQueue::take() {
    const MutexLock lock(mutex_);
    if (jobs_.empty() || abandoned_) return std::nullopt;
    CopyJob job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
}

void JobQueue::put_back(CopyJob job) {
    const MutexLock lock(mutex_);
    jobs_.push_back(std::move(job));
}

void JobQueue::abandon() {
    abandoned_ = true;
}

CopyWorker::CopyWorker(const CopyContext& context, std::size_t memory)
    : context_(context),
      memory_(memory, [this](std::span<std::byte> slab) { writer_.add_memory(slab); }),
      writer_(memory_.most_slabs(), context.use_ring) {}

CopyWorker::~CopyWorker() = default;

void CopyWorker::run() {
    for (;;) {
        fill();
        if (active_.empty()) return;
        look(kLook);
        if (!stopping()) continue;
        for (auto file = active_.begin(); file != active_.end();) {
            File& one = *file++;  // settle() may remove it
            if (!one.error) one.error = Error{ECANCELED, "stopped"};
            drop_ready(one);
            settle(one);
        }
    }
}

void CopyWorker::fill() {
    for (auto file = active_.begin(); file != active_.end();) {
        File& one = *file++;                       // it may end and go
        if (pump(one) && !one.is_asked()) return;  // no memory now
    }
    for (std::size_t started = 0; active_.size() < kMostFiles && !stopping(); ++started) {
        auto job = context_.queue.take();
        if (!job) return;
        const std::size_t before = active_.size();
        start(std::move(*job));
        if (active_.size() > before && !active_.back().is_asked()) return;
        if (started % kFilesBetweenLooks == 0) look({});
    }
}

/// Takes what has ended.
void CopyWorker::look(std::chrono::milliseconds patience) {
    for (const auto& done : writer_.wait(patience)) on_write(done);
    take_reads();
}

void CopyWorker::start(CopyJob job) {
    if (!job.file.link.empty()) return make_link(std::move(job));
    if (job.is_whole && finish_whole(job)) return;
    auto fd = open_part(job);
    if (!fd) return give_up(std::move(job), fd.error());
    active_.emplace_back();
    File& file = active_.back();
    file.job = std::move(job);
    file.fd = std::move(*fd);
    if (context_.check_md5) file.digest = SourceDigest::of(file.job.file.attributes.version);
    pump(file);
}

Result<FileDescriptor> CopyWorker::open_finished(const Destination& destination, const CopyJob& job) {
    if (!job.under_final_name) {
        const auto place = destination.place_of(job.part);
        return open_direct(place.folder, place.name);
    }
    bool made = false;
    const auto parent = open_parent(destination.root(), job.record.path, false, made);
    if (!parent) return fail(parent.error());
    return open_direct(parent->get(), name_in_parent(job.record.path));
}

/// An earlier run had written it; its bytes are believed when they have the sums that were noted.
bool CopyWorker::finish_whole(CopyJob& job) {
    const Destination& destination = context_.destinations[job.destination];
    auto fd = open_finished(destination, job);
    if (fd) {
        const auto same =
            compare_content(fd->get(), job.record, [this] { return context_.stop.requested(); });
        if (!same && same.error().code == ECANCELED) return true;
        if (same && same->empty()) {
            context_.reporter.totals().bytes_reused += job.record.size;
            context_.reporter.totals().bytes_done += job.record.size;
            ManifestRecord record = job.record;
            auto& committer = *context_.committers[job.destination];
            committer.give({std::move(job), std::move(*fd), std::move(record)});
            return true;
        }
    }
    job.replaces = job.replaces || job.under_final_name;
    job.is_whole = job.under_final_name = false;
    return false;
}

void CopyWorker::make_link(CopyJob job) {
    const Destination& destination = context_.destinations[job.destination];
    destination.remove_part(job.part);
    const auto place = destination.place_of(job.part);
    if (::symlinkat(job.file.link.c_str(), place.folder, place.name.c_str()) != 0)
        return give_up(std::move(job), system_error(errno, "making a symbolic link"));
    ManifestRecord record;
    record.path = job.file.path;
    record.source = context_.source;
    record.source_version = job.file.attributes.version;
    record.mtime_ns = job.file.attributes.mtime_ns;
    record.link = job.file.link;
    record.device = destination.facts().device;
    auto& committer = *context_.committers[job.destination];
    committer.give({std::move(job), FileDescriptor(), std::move(record)});
}

Result<FileDescriptor> CopyWorker::open_part(CopyJob& job) {
    const Destination& destination = context_.destinations[job.destination];
    const std::uint64_t size = job.file.attributes.size;
    const auto place = destination.place_of(job.part);
    if (!job.unfinished.pieces.empty()) {
        constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
        FileDescriptor fd(::openat(place.folder, place.name.c_str(), kFlags | O_DIRECT));
        if (!fd && errno == EINVAL) fd.reset(::openat(place.folder, place.name.c_str(), kFlags));
        struct stat status {};
        if (fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
            static_cast<std::uint64_t>(status.st_size) >= size)
            return fd;
        job.unfinished.pieces.clear();
    }
    auto made = create_shaped(place.folder, place.name, size, destination.facts().kind);
    if (!made && made.error().code == EEXIST) {
        destination.remove_part(job.part);
        made = create_shaped(place.folder, place.name, size, destination.facts().kind);
    }
    if (!made) return fail(made.error());
    if (size > kPieceBytes) {
        const UnfinishedPart file{job.file.path, job.file.attributes.version, size, {}};
        if (auto noted = context_.journals[job.destination].begin(job.part, file); !noted)
            return fail(noted.error());
    }
    return std::move(made->fd);
}

/// Asks for as many pieces as there is memory for.
void CopyWorker::ask(File& file) {
    while (!file.is_asked() && !stopping()) {
        const std::uint64_t length = std::min(kPieceBytes, file.size() - file.next);
        const auto memory = memory_.take(length);
        if (memory.empty()) return;
        Piece piece{file.next, length, memory, false, false};
        file.next += length;
        piece.is_reused = piece.is_ready = read_from_part(file, piece);
        file.pieces.push_back(piece);
        if (!piece.is_reused) read_from_source(file, file.pieces.back());
    }
}

bool CopyWorker::pump(File& file) {
    for (;;) {
        const std::uint64_t before = file.next;
        ask(file);
        if (!advance(file)) return false;
        if (file.next == before || file.is_asked()) return true;
    }
}

bool CopyWorker::read_from_part(File& file, Piece& piece) {
    const auto mark = file.job.unfinished.pieces.find(piece.offset);
    if (mark == file.job.unfinished.pieces.end() || mark->second.length != piece.length) return false;
    const ssize_t got =
        ::pread(file.fd.get(), piece.memory.data(), piece.memory.size(), static_cast<off_t>(piece.offset));
    return got >= 0 && static_cast<std::size_t>(got) >= piece.length;
}

void CopyWorker::read_from_source(File& file, const Piece& piece) {
    ++file.reads;
    OriginRead read;
    read.path = file.job.file.path;
    read.version = file.job.file.attributes.version;
    read.offset = piece.offset;
    read.destination = piece.memory.first(piece.length);
    read.priority = Priority::fill;
    read.done = [this, &file, offset = piece.offset](Result<void> result) {
        {
            const MutexLock lock(inbox_.mutex);
            const bool is_first = inbox_.done.empty();  // else a wake is on its way
            inbox_.done.push_back({&file, offset, std::move(result)});
            // Within the lock: the worker may be gone as soon as it has taken this.
            if (is_first) writer_.wake();
        }
    };
    context_.origin.read(std::move(read));
}

void CopyWorker::take_reads() {
    std::vector<Inbox::Done> done;
    {
        const MutexLock lock(inbox_.mutex);
        done.swap(inbox_.done);
    }
    for (const auto& one : done) on_read(*one.file, one.offset, one.result);
}

void CopyWorker::on_read(File& file, std::uint64_t offset, const Result<void>& result) {
    --file.reads;
    const auto piece = std::find_if(file.pieces.begin(), file.pieces.end(),
                                    [&](const Piece& one) { return one.offset == offset; });
    if (piece == file.pieces.end()) return;
    piece->is_ready = true;
    if (result) {
        context_.reporter.totals().bytes_from_source += piece->length;
    } else if (!file.error) {
        file.error = result.error();
    }
    advance(file);
}

bool CopyWorker::advance(File& file) {
    while (!file.error && !file.pieces.empty() && file.pieces.front().is_ready) {
        Piece& piece = file.pieces.front();
        const auto data = piece.memory.first(piece.length);
        if (piece.is_reused) {
            const std::uint32_t noted = file.job.unfinished.pieces.at(piece.offset).crc32c;
            if (file.sums.chunk_crc_with(data) != noted) {
                piece.is_reused = piece.is_ready = false;
                read_from_source(file, piece);
                return true;
            }
        }
        file.sums.add(data);
        if (file.digest) file.digest->add(data);
        if (piece.is_reused) {
            context_.reporter.totals().bytes_reused += piece.length;
            context_.reporter.totals().bytes_done += piece.length;
            memory_.give_back(piece.memory);
        } else {
            write(file, piece);
        }
        file.pieces.pop_front();
    }
    if (file.error) drop_ready(file);
    return settle(file);
}

void CopyWorker::write(File& file, const Piece& piece) {
    // The last block goes out whole: zeros behind the end, which the exact size then hides.
    std::memset(piece.memory.data() + piece.length, 0, piece.memory.size() - piece.length);
    const std::uint64_t token = ++next_token_;
    const PieceMark mark{piece.offset, static_cast<std::uint32_t>(piece.length), file.sums.chunk_crc()};
    writes_.emplace(token, Write{&file, mark, piece.memory});
    ++file.writes;
    writer_.write(file.fd.get(), piece.memory, piece.offset, token);
}

void CopyWorker::on_write(const WriteDone& done) {
    const auto found = writes_.find(done.token);
    if (found == writes_.end()) return;
    const Write one = found->second;
    writes_.erase(found);
    File& file = *one.file;
    --file.writes;
    memory_.give_back(one.memory);
    const CopyJob& job = file.job;
    if (done.code != 0) {
        if (!file.error) {
            file.error =
                system_error(done.code, "writing in " + context_.destinations[job.destination].path());
        }
    } else {
        context_.reporter.totals().bytes_done += one.mark.length;
        if (file.size() > kPieceBytes) {
            const auto noted = context_.journals[job.destination].piece(job.part, one.mark);
            if (!noted && !file.error) file.error = noted.error();
        }
    }
    if (file.error) drop_ready(file);
    settle(file);
}

void CopyWorker::drop_ready(File& file) {
    for (auto piece = file.pieces.begin(); piece != file.pieces.end();) {
        if (piece->is_ready) {
            memory_.give_back(piece->memory);
            piece = file.pieces.erase(piece);
        } else {
            ++piece;
        }
    }
}

bool CopyWorker::settle(File& file) {
    if (file.reads != 0 || file.writes != 0 || !file.pieces.empty()) return true;
    if (!file.error && file.next < file.size()) return true;
    if (!file.error) complete(file);
    if (file.error) give_up(std::move(file.job), *file.error);
    active_.remove_if([&](const File& one) { return &one == &file; });
    return false;
}

Result<void> CopyWorker::give_final_look(File& file, ManifestRecord& record) {
    const int fd = file.fd.get();
    const Attributes& attributes = file.job.file.attributes;
    // Also where the size is right already: with an extent size hint there are blocks behind the end.
    const bool is_exact = file.size() == align_up(file.size()) && file.size() < kHintFrom;
    if (!is_exact && ::ftruncate(fd, static_cast<off_t>(file.size())) != 0)
        return fail(system_error(errno, "setting its size"));
    // Neither set-user-ID nor the like: who stages is not who owned it.
    constexpr std::uint32_t kPermissions = 0777;
    record.mode = attributes.mode & kPermissions;
    if (::fchmod(fd, record.mode) != 0) return fail(system_error(errno, "setting its mode"));
    const timespec times[2] = {to_timespec(attributes.mtime_ns), to_timespec(attributes.mtime_ns)};
    if (::futimens(fd, times) != 0) return fail(system_error(errno, "setting its time"));
    return {};
}

void CopyWorker::complete(File& file) {
    if (file.digest && !file.digest->matches()) {
        file.error =
            Error{EILSEQ,
                  "its bytes do not have the MD5 that its ETag says (where objects are encrypted with "
                  "a key of KMS, the ETag is no MD5)"};
        return;
    }
    file.sums.end();
    ManifestRecord record;
    record.path = file.job.file.path;
    record.size = file.size();
    record.source = context_.source;
    record.source_version = file.job.file.attributes.version;
    record.mtime_ns = file.job.file.attributes.mtime_ns;
    record.xxh3 = file.sums.xxh3();
    record.crc32c = file.sums.chunks();
    record.device = context_.destinations[file.job.destination].facts().device;
    auto done = give_final_look(file, record);
    if (done) done = context_.journals[file.job.destination].whole(file.job.part, record);
    if (!done) {
        file.error = done.error();
        return;
    }
    context_.queue.count_success();
    const std::size_t destination = file.job.destination;
    context_.committers[destination]->give({std::move(file.job), std::move(file.fd), std::move(record)});
}

/// The source has another version now: that one is copied, whole.
bool CopyWorker::try_new_version(CopyJob& job) {
    if (job.attempts + 1 >= kMostVersions) return false;
    auto now = context_.origin.stat(job.file.path);
    if (!now || now->kind != ObjectKind::file || now->version == job.file.attributes.version) return false;
    Totals& totals = context_.reporter.totals();
    ++totals.files_changed;
    totals.bytes_planned += now->size;
    totals.bytes_planned -= job.file.attributes.size;
    context_.reporter.warning("'" + printable(job.file.path) +
                              "' changed at the source while it was copied: the new version is copied whole");
    job.file.attributes = std::move(*now);
    job.part = part_name(job.file.path, context_.source, job.file.attributes.version);
    job.unfinished = {};
    ++job.attempts;
    context_.queue.put_back(std::move(job));
    return true;
}

void CopyWorker::give_up(CopyJob job, const Error& error) {
    if (error.code == ECANCELED && stopping()) return;  // the next run goes on with the part
    const Destination& destination = context_.destinations[job.destination];
    const std::string part = job.part;
    const std::string path = job.file.path;
    const bool may_resume =
        job.file.attributes.size > kPieceBytes && error.code != ESTALE && error.code != EILSEQ;
    if (error.code == ESTALE && try_new_version(job)) {
        destination.remove_part(part);
        return;
    }
    if (!may_resume) destination.remove_part(part);
    if (is_full(error.code)) {
        if (context_.queue.is_abandoned()) return;
        context_.queue.abandon();
        context_.reporter.failed(
            path, Error{error.code, "no space is left in " + destination.path() +
                                        ": what is staged stays; make room and give the same command again"});
        return;
    }
    context_.reporter.failed(path, error);
    if (context_.queue.count_failure() >= kMostFailures && !context_.queue.is_abandoned()) {
        context_.queue.abandon();
        context_.reporter.error("given up after " + std::to_string(kMostFailures) +
                                " failures one after the other: is the source away? The same command goes on "
                                "where this one ended");
    }
}

}  // namespace tierfs::stage
