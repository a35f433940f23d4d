#include "backends/nfs/reply_stream.hpp"

#include <algorithm>
#include <cstring>

namespace tierfs::nfs {
namespace {

constexpr std::size_t kBuffer = 128 << 10;
/// Of replies without data: READDIRPLUS is asked for less.
constexpr std::size_t kMostMessage = 1 << 20;
constexpr std::uint32_t kLastFragment = 0x80000000U;

}  // namespace

ReplyStream::ReplyStream(ReplySink& sink, std::size_t most_data)
    : sink_(sink), most_record_(std::max(kMostMessage, most_data) + kLongestReadHead), buffer_(kBuffer) {}

std::span<const std::byte> ReplyStream::here() const {
    return std::span(buffer_).subspan(begin_, std::min(buffered(), fragment_left_));
}

void ReplyStream::consume(std::size_t count) {
    begin_ += count;
    fragment_left_ -= count;
    if (begin_ == end_) begin_ = end_ = 0;
}

std::array<iovec, 2> ReplyStream::space() {
    std::array<iovec, 2> parts{};
    if (phase_ == Phase::data && buffered() == 0)
        parts[0] = {data_.data(), std::min(data_.size(), fragment_left_)};
    if (begin_ > 0 && buffer_.size() - end_ < kBuffer / 2) {
        std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                  buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
        end_ -= begin_;
        begin_ = 0;
    }
    parts[1] = {buffer_.data() + end_, buffer_.size() - end_};
    return parts;
}

Result<void> ReplyStream::received(std::size_t count) {
    if (phase_ == Phase::data && buffered() == 0) {
        const auto direct = std::min({count, data_.size(), fragment_left_});
        data_ = data_.subspan(direct);
        fragment_left_ -= direct;
        count -= direct;
    }
    end_ += count;
    for (;;) {
        const auto more = step();
        if (!more) return fail(more.error());
        if (!*more) return {};
    }
}

/// Whether there may be more to do.
Result<bool> ReplyStream::step() {
    if (fragment_left_ == 0) {
        if (phase_ == Phase::data && data_.empty()) return take_data();
        return take_mark();
    }
    switch (phase_) {
        case Phase::head:
            return take_head();
        case Phase::message:
            return take_message();
        case Phase::data:
            return take_data();
        default:
            return take_rest();
    }
}

Result<bool> ReplyStream::take_mark() {
    if (phase_ != Phase::between && is_last_fragment_) {
        if (phase_ == Phase::data) return fail(EIO, "a reply ends before its data");
        if (phase_ == Phase::message) {
            const auto message = std::move(message_);
            message_.clear();
            if (auto delivered = deliver(message); !delivered) return fail(delivered.error());
        }
        phase_ = Phase::between;
    }
    if (buffered() < 4) return false;
    XdrReader in(std::span<const std::byte>(buffer_).subspan(begin_, 4));
    const auto mark = in.u32();
    begin_ += 4;
    if (begin_ == end_) begin_ = end_ = 0;
    is_last_fragment_ = (mark & kLastFragment) != 0;
    fragment_left_ = mark & ~kLastFragment;
    if (phase_ == Phase::between) {
        phase_ = Phase::head;
        record_size_ = 0;
    }
    record_size_ += fragment_left_;
    if (fragment_left_ == 0 || record_size_ > most_record_)
        return fail(EIO, "a record of " + std::to_string(record_size_) + " bytes");
    return true;
}

Result<bool> ReplyStream::take_head() {
    if (here().size() < std::min(fragment_left_, kLongestReadHead)) return false;
    XdrReader in(here());
    xid_ = in.u32();
    const auto call = sink_.expected(xid_);
    phase_ = !in.ok() || !call ? Phase::rest : Phase::message;
    if (!call || !call->is_read || !in.ok()) return true;
    const auto acceptance = read_acceptance(in);
    if (acceptance.code != 0) return true;
    head_ = read_read_head(in);
    if (!in.ok() || head_.status != kOk) return true;  // take_message judges
    if (head_.length > call->destination.size()) return fail(EIO, "more data than was asked for");
    const auto padding = -static_cast<std::size_t>(head_.length) & 3U;
    const auto after = fragment_left_ - (here().size() - in.left());
    if (is_last_fragment_ && after != head_.length + padding)
        return fail(EIO, "a reply whose data do not fill it");
    consume(here().size() - in.left());
    data_ = call->destination.first(head_.length);
    phase_ = Phase::data;
    return true;
}

Result<bool> ReplyStream::take_data() {
    const auto piece = here().first(std::min(here().size(), data_.size()));
    std::copy(piece.begin(), piece.end(), data_.begin());
    data_ = data_.subspan(piece.size());
    consume(piece.size());
    if (!data_.empty()) return fragment_left_ == 0;
    phase_ = Phase::rest;
    sink_.replied(xid_, Reply{{}, {}, head_});
    return true;
}

Result<bool> ReplyStream::take_message() {
    const auto piece = here();
    if (piece.empty()) return false;
    if (message_.empty() && is_last_fragment_ && piece.size() == fragment_left_) {
        const auto delivered = deliver(piece);
        phase_ = Phase::rest;
        if (!delivered) return fail(delivered.error());
        consume(piece.size());
        return true;
    }
    message_.insert(message_.end(), piece.begin(), piece.end());
    consume(piece.size());
    return true;
}

bool ReplyStream::take_rest() {
    const auto piece = here();
    consume(piece.size());
    return !piece.empty();
}

Result<void> ReplyStream::deliver(std::span<const std::byte> message) {
    XdrReader in(message);
    const auto xid = in.u32();
    const auto call = sink_.expected(xid);
    if (!call) return {};
    Reply reply;
    reply.acceptance = read_acceptance(in);
    if (!in.ok()) return fail(EIO, "what came is no reply");
    if (call->is_read && reply.acceptance.code == 0) {
        reply.read = read_read_head(in);
        const auto data = reply.read.status == kOk ? in.fixed(reply.read.length) : std::string_view();
        if (!in.ok() || data.size() > call->destination.size())
            return fail(EIO, "a reply that READ cannot have");
        if (!data.empty()) std::memcpy(call->destination.data(), data.data(), data.size());
    } else {
        reply.body = in.rest();
    }
    sink_.replied(xid, reply);
    return {};
}

void ReplyStream::abandon(std::uint32_t xid) {
    if (phase_ != Phase::data || xid_ != xid) return;
    data_ = {};
    phase_ = Phase::rest;
}

}  // namespace tierfs::nfs
