// floor: backends
// Replies of an NFS server. Input: how the bytes are cut, then the stream of a connection on which some calls
// wait.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>

#include "backends/nfs/reply_stream.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;
using namespace tierfs::nfs;

/// READs wait under even numbers, everything else under odd ones.
class Sink final : public ReplySink {
  public:
    std::optional<Expected> expected(std::uint32_t xid) override {
        if (xid > 64) return std::nullopt;
        return xid % 2 == 0 ? Expected{true, std::span(room).first(room.size() - 16)} : Expected{};
    }
    void replied(std::uint32_t xid, const Reply& reply) override {
        if (xid % 2 == 0) {
            fuzz::require(reply.acceptance.code != 0 || reply.read.length <= room.size() - 16 ||
                              reply.read.status != kOk,
                          "no more than was asked for");
            return;
        }
        const auto parse = [&](auto read) {
            XdrReader in(reply.body);
            return read(in);
        };
        parse(read_lookup);
        parse(read_getattr);
        parse(read_readlink);
        parse(read_fsinfo);
        parse(read_mount);
        parse(read_exports);
        for (const auto& entry : parse(read_readdirplus).entries)
            fuzz::require(entry.handle.size() <= kLongestHandle, "a handle has a limit");
    }
    std::vector<std::byte> room = std::vector<std::byte>(5000);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider input(data, size);
    const auto step = input.ConsumeIntegralInRange<std::size_t>(1, 5000);
    const auto bytes = input.ConsumeRemainingBytes<std::uint8_t>();
    Sink sink;
    ReplyStream stream(sink, 1 << 20);
    for (std::size_t at = 0; at < bytes.size();) {
        std::size_t took = 0;
        for (const auto& part : stream.space()) {
            const auto count = std::min({part.iov_len, step - took, bytes.size() - at});
            if (count > 0) std::memcpy(part.iov_base, bytes.data() + at, count);
            at += count;
            took += count;
        }
        fuzz::require(took > 0, "there is room for more");
        if (!stream.received(took)) break;
    }
    for (std::size_t i = sink.room.size() - 16; i < sink.room.size(); ++i)
        fuzz::require(sink.room[i] == std::byte{0}, "nothing is written past the destination");
    return 0;
}
