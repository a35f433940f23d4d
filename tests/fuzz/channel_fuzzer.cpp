// floor: fs
// Messages between supervisor and daemon. Input: one packet.
#include <sys/socket.h>

#include "fs/daemon/channel.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    static auto ends = Channel::make();
    fuzz::require(ends.has_value(), "a channel can be made");
    if (size == 0) return 0;  // of a socket that keeps packets apart, an empty one is the end
    if (::send(ends->first.descriptor(), data, size, MSG_DONTWAIT) < 0) return 0;
    const auto message = ends->second.receive();
    fuzz::require(message.has_value() && !message->descriptor, "a packet is a message");
    fuzz::require(message->text.size() < 16384 && static_cast<std::uint8_t>(message->kind) == data[0],
                  "of its kind");
    // Passed on, it is the same.
    fuzz::require(ends->first.send(message->kind, message->text), "a message is sent");
    const auto again = ends->second.receive();
    fuzz::require(again && again->kind == message->kind && again->text == message->text, "and arrives");
    return 0;
}
