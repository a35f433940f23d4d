// Finds the replies in the bytes of a TCP connection.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/nfs/messages.hpp"
#include "config/base/result.hpp"

namespace tierfs::nfs {

/// Of a reply: what the server made of the call, and its own part.
struct Reply {
    Acceptance acceptance;
    std::span<const std::byte> body;  ///< valid within the call that brings it; empty for a good READ
    ReadHead read;                    ///< of a good READ, whose bytes are in the call's destination
    unsigned sent = 1;  ///< so often the call was sent: an earlier one may have been carried out
};

/// Who waits for replies.
class ReplySink {
  public:
    virtual ~ReplySink() = default;

    struct Expected {
        bool is_read = false;
        std::span<std::byte> destination;  ///< of READ: at most this much may come
    };
    /// Nothing: nobody waits for that one, or no longer.
    virtual std::optional<Expected> expected(std::uint32_t xid) = 0;

    /// Once for a call that was expected. May forget the call, not this stream.
    virtual void replied(std::uint32_t xid, const Reply& reply) = 0;
};

/// Records are cut out of the stream by their marks (RFC 5531, 11); the bytes of READ go from the socket to
/// their destination without another copy, but for what comes along with the head. Nothing from the wire is
/// believed: the length of a record, of all its fragments and of what stands in them have limits. Not
/// thread-safe.
class ReplyStream {
  public:
    /// `most_data`: the most bytes that a READ asks for.
    ReplyStream(ReplySink& sink, std::size_t most_data);

    /// Where the next bytes go, the first part first. Then received() tells how many came. EIO: the peer does
    /// not speak the protocol, or the stream is out of step: the connection is of no more use.
    std::array<iovec, 2> space();
    Result<void> received(std::size_t count);

    /// Nothing more of this call's reply may be written to its destination.
    void abandon(std::uint32_t xid);

    /// Within a record, so that an end of the connection is a cut.
    [[nodiscard]] bool is_within_record() const { return phase_ != Phase::between || buffered() > 0; }

  private:
    enum class Phase : std::uint8_t {
        between,  ///< a record's first mark is to come
        head,     ///< of a record's first fragment
        message,  ///< gathered until its end
        data,     ///< of READ, to its destination
        rest,     ///< of a record that nobody wants
    };

    [[nodiscard]] std::size_t buffered() const { return end_ - begin_; }
    [[nodiscard]] std::span<const std::byte> here() const;
    Result<bool> step();
    Result<bool> take_mark();
    Result<bool> take_head();
    Result<bool> take_message();
    Result<bool> take_data();
    bool take_rest();
    Result<void> deliver(std::span<const std::byte> message);
    void consume(std::size_t count);

    ReplySink& sink_;
    const std::size_t most_record_;
    std::vector<std::byte> buffer_;
    std::size_t begin_ = 0, end_ = 0;  ///< of what is in the buffer and not looked at
    Phase phase_ = Phase::between;
    std::size_t fragment_left_ = 0, record_size_ = 0;
    bool is_last_fragment_ = true;
    std::vector<std::byte> message_;
    std::span<std::byte> data_;  ///< what is to come of the READ that is being received
    std::uint32_t xid_ = 0;
    ReadHead head_;
};

}  // namespace tierfs::nfs
