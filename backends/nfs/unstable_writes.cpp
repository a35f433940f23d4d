#include "backends/nfs/unstable_writes.hpp"

#include <algorithm>

#include "config/base/delivery.hpp"
#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr unsigned kMostAttempts = 4;          ///< of writes whose server is started anew
constexpr std::uint64_t kSlowest = 256 << 10;  ///< bytes a second, as Origin's writers have it

}  // namespace

void WriteBudget::take(std::uint64_t bytes) {
    for (;;) {
        {
            MutexLock lock(mutex_);
            if (used_ == 0 || used_ + bytes <= limit_) {
                used_ += bytes;
                return;
            }
        }
        if (const auto file = largest()) {
            file->commit();  // what fails is told to those who have it open
            continue;
        }
        MutexLock lock(mutex_);
        lock.wait_for(changed_, std::chrono::milliseconds(50));
    }
}

void WriteBudget::give(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
    changed_.notify_all();
}

void WriteBudget::add(const std::shared_ptr<UnstableWrites>& file) {
    const MutexLock lock(mutex_);
    std::erase_if(files_, [](const auto& known) { return known.expired(); });
    files_.push_back(file);
}

std::shared_ptr<UnstableWrites> WriteBudget::largest() {
    std::vector<std::shared_ptr<UnstableWrites>> files;
    {
        const MutexLock lock(mutex_);
        for (const auto& known : files_) {
            if (auto file = known.lock()) files.push_back(std::move(file));
        }
    }
    std::shared_ptr<UnstableWrites> found;
    std::uint64_t most = 0;
    for (auto& file : files) {
        const auto bytes = file->bytes();
        if (bytes <= most) continue;
        most = bytes;
        found = std::move(file);
    }
    return found;
}

UnstableWrites::~UnstableWrites() {
    budget_.give(bytes_);
}

void UnstableWrites::write(std::span<const std::byte> bytes, std::uint64_t offset, std::size_t most) {
    while (!bytes.empty()) {
        const auto part = bytes.first(std::min(bytes.size(), most));
        budget_.take(part.size());
        add(part, offset);
        bytes = bytes.subspan(part.size());
        offset += part.size();
    }
}

void UnstableWrites::add(std::span<const std::byte> bytes, std::uint64_t offset) {
    auto piece = std::make_shared<Piece>();
    piece->offset = offset;
    piece->bytes.assign(bytes.begin(), bytes.end());
    MutexLock lock(mutex_);
    while (is_sending_again_ || overlaps_one_on_its_way(offset, bytes.size())) lock.wait(changed_);
    piece->number = ++last_;
    pieces_.push_back(piece);
    bytes_ += bytes.size();
    // Early, so that there is room again before the budget is spent.
    const bool commits =
        !is_committing_ && !is_lost_ && bytes_ > budget_.limit() / 4 && pieces_.front()->is_answered;
    auto commit = commits ? begin_commit() : Call{};
    lock.unlock();
    send(piece, 0);
    if (commits) client_.start(std::move(commit));
}

// Calls over several connections overtake each other.
bool UnstableWrites::overlaps_one_on_its_way(std::uint64_t offset, std::size_t size) {
    return std::any_of(pieces_.begin(), pieces_.end(), [&](const PiecePtr& piece) {
        return !piece->is_answered && piece->offset < offset + size &&
               offset < piece->offset + piece->bytes.size();
    });
}

bool UnstableWrites::is_on_its_way(std::uint64_t up_to) const {
    return std::any_of(pieces_.begin(), pieces_.end(),
                       [&](const PiecePtr& piece) { return piece->number <= up_to && !piece->is_answered; });
}

Clock::time_point UnstableWrites::deadline() const {
    return Clock::now() + deadline_ + std::chrono::seconds(bytes_ / kSlowest);
}

void UnstableWrites::send(const PiecePtr& piece, std::size_t from) {
    const auto rest = std::span<const std::byte>(piece->bytes).subspan(from);
    Call call;
    call.procedure = kWrite;
    call.arguments = write_arguments(handle_, piece->offset + from, static_cast<std::uint32_t>(rest.size()));
    call.payload = rest;
    {
        const MutexLock lock(mutex_);
        call.deadline = deadline();
    }
    call.done = [self = shared_from_this(), piece, from](Result<Reply> answer) {
        self->answered(piece, from, answer);
    };
    client_.start(std::move(call));
}

void UnstableWrites::answered(const PiecePtr& piece, std::size_t from, const Result<Reply>& answer) {
    const auto left = piece->bytes.size() - from;
    std::optional<Error> problem;
    WriteReply reply;
    if (!answer) {
        problem = answer.error().within("WRITE");
    } else {
        XdrReader in(answer->body);
        reply = read_write(in);
        if (!in.ok() || (reply.status == kOk && (reply.count == 0 || reply.count > left))) {
            problem = Error{EIO, "WRITE: the reply makes no sense"};
        } else if (reply.status != kOk) {
            problem = Error{to_errno(reply.status), "WRITE: " + status_name(reply.status)};
        }
    }
    MutexLock lock(mutex_);
    if (problem) {
        note(std::move(*problem));
        drop(piece);
        changed_.notify_all();
        return;
    }
    client_.counters().bytes_written += reply.count;
    piece->verifier = from == 0 || piece->verifier == reply.verifier ? reply.verifier : std::string();
    if (reply.count < left) {
        lock.unlock();
        return send(piece, from + reply.count);
    }
    piece->is_answered = true;
    changed_.notify_all();
}

Call UnstableWrites::begin_commit() {
    is_committing_ = true;
    std::uint64_t up_to = 0;
    for (const auto& piece : pieces_) {
        if (!piece->is_answered) break;
        up_to = piece->number;
    }
    Call call;
    call.procedure = kCommit;
    call.arguments = commit_arguments(handle_, 0, 0);
    call.deadline = deadline();
    call.done = [self = shared_from_this(), up_to](Result<Reply> answer) { self->committed(up_to, answer); };
    return call;
}

void UnstableWrites::committed(std::uint64_t up_to, const Result<Reply>& answer) {
    std::optional<Error> problem;
    WriteReply reply;
    if (!answer) {
        problem = answer.error().within("COMMIT");
    } else {
        XdrReader in(answer->body);
        reply = read_commit(in);
        if (!in.ok()) {
            problem = Error{EIO, "COMMIT: the reply makes no sense"};
        } else if (reply.status != kOk) {
            problem = Error{to_errno(reply.status), "COMMIT: " + status_name(reply.status)};
        }
    }
    const MutexLock lock(mutex_);
    is_committing_ = false;
    if (problem) note(std::move(*problem));
    std::vector<PiecePtr> covered;
    for (const auto& piece : pieces_) {
        if (piece->number > up_to) break;
        covered.push_back(piece);
    }
    // All or none: an older write must not be sent again over a newer one that is safe.
    const bool is_lost = !problem && std::any_of(covered.begin(), covered.end(), [&](const PiecePtr& piece) {
        return piece->verifier != reply.verifier;
    });
    if (is_lost) {
        is_lost_ = true;
    } else {
        for (const auto& piece : covered) drop(piece);
    }
    changed_.notify_all();
}

void UnstableWrites::send_again() {
    MutexLock lock(mutex_);
    while (is_on_its_way(last_)) lock.wait(changed_);
    log::warning("nfs: the server was started anew: " + std::to_string(bytes_) +
                 " bytes that were not committed are written again");
    is_lost_ = false;
    const auto pieces = pieces_;
    for (const auto& piece : pieces) {
        piece->is_answered = false;
        lock.unlock();
        send(piece, 0);
        lock.lock();
        while (overlaps_one_on_its_way(piece->offset, piece->bytes.size())) lock.wait(changed_);
    }
    is_sending_again_ = false;
    changed_.notify_all();
}

void UnstableWrites::settle() {
    if (!may_wait_for("WRITE")) return;
    MutexLock lock(mutex_);
    const auto up_to = last_;
    while (is_on_its_way(up_to)) lock.wait(changed_);
}

void UnstableWrites::commit() {
    auto may = may_wait_for("COMMIT");
    MutexLock lock(mutex_);
    if (!may) return note(std::move(may.error()));
    const auto up_to = last_;
    for (unsigned attempts = 0; !pieces_.empty() && pieces_.front()->number <= up_to;) {
        if (is_committing_ || is_sending_again_ || is_on_its_way(up_to)) {
            lock.wait(changed_);
        } else if (!is_lost_) {
            auto call = begin_commit();
            lock.unlock();
            client_.start(std::move(call));
            lock.lock();
        } else if (attempts++ < kMostAttempts) {
            is_sending_again_ = true;
            lock.unlock();
            send_again();
            lock.lock();
        } else {
            note(Error{EIO, "WRITE: the server is started anew too often"});
            const auto pieces = pieces_;
            for (const auto& piece : pieces) drop(piece);
            is_lost_ = false;
        }
    }
}

void UnstableWrites::drop(const PiecePtr& piece) {
    const auto found = std::find(pieces_.begin(), pieces_.end(), piece);
    if (found == pieces_.end()) return;
    pieces_.erase(found);
    bytes_ -= piece->bytes.size();
    budget_.give(piece->bytes.size());
}

void UnstableWrites::note(Error problem) {
    ++problems_;
    last_problem_ = std::move(problem);
}

Result<void> UnstableWrites::problem(std::uint64_t& told) {
    const MutexLock lock(mutex_);
    if (told == problems_) return {};
    told = problems_;
    return fail(last_problem_);
}

std::uint64_t UnstableWrites::problems() {
    const MutexLock lock(mutex_);
    return problems_;
}

std::uint64_t UnstableWrites::bytes() {
    const MutexLock lock(mutex_);
    return bytes_;
}

}  // namespace tierfs::nfs
