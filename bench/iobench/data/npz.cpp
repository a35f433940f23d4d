#include <zlib.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "bench/iobench/data/payload.hpp"
#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::string_view kMember = "x.npy";
constexpr std::uint64_t kLocalHeader = 30, kCentralHeader = 46, kEnd = 22, kArrayHeader = 128;
constexpr std::uint64_t kOverhead = kLocalHeader + kCentralHeader + 2 * kMember.size() + kEnd + kArrayHeader;
constexpr std::uint64_t kDosDate =
    0x0021;  // 1 January 1980, the format's own zero: the same bytes on every day

/// Writes little-endian fields one after another; the caller has made room.
class Fields {
  public:
    explicit Fields(std::byte* at) : at_(at) {}
    Fields& put(std::uint64_t value, unsigned bytes) {
        for (unsigned i = 0; i < bytes; ++i) *at_++ = static_cast<std::byte>(value >> (8 * i));
        return *this;
    }
    Fields& put(std::string_view text) {
        std::memcpy(at_, text.data(), text.size());
        at_ += text.size();
        return *this;
    }

  private:
    std::byte* at_;
};

std::string array_header(std::uint64_t length) {
    std::string text = "\x93NUMPY";
    text += std::string("\x01\x00", 2);
    const std::uint64_t dictionary = kArrayHeader - text.size() - 2;
    text += static_cast<char>(dictionary & 0xff);
    text += static_cast<char>(dictionary >> 8);
    text += "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(length) + ",), }";
    text.resize(kArrayHeader - 1, ' ');
    return text + '\n';
}

/// The fields that the local and the central header share, from "version needed" to the length of the extra
/// field.
void shared_fields(Fields& fields, std::uint64_t crc, std::uint64_t bytes) {
    fields.put(20, 2).put(0, 2).put(0, 2).put(0, 2).put(kDosDate, 2).put(crc, 4).put(bytes, 4).put(bytes, 4);
    fields.put(kMember.size(), 2).put(0, 2);
}

}  // namespace

Result<Bytes> make_npz(std::uint64_t seed, std::uint64_t size) {
    if (auto checked = check_size(Kind::npz, size); !checked) return fail(checked.error());
    Bytes bytes(size);
    const std::uint64_t length = size - kOverhead, member = kArrayHeader + length;
    const std::uint64_t data_at = kLocalHeader + kMember.size(), central_at = data_at + member;
    Fields(&bytes[data_at]).put(array_header(length));
    random_bytes(seed, 0, std::span(bytes).subspan(data_at + kArrayHeader, length));

    const void* data = &bytes[data_at];
    const std::uint64_t crc = crc32_z(0, static_cast<const Bytef*>(data), member);
    Fields local(bytes.data());
    local.put(0x04034b50, 4);
    shared_fields(local, crc, member);
    local.put(kMember);
    Fields central(&bytes[central_at]);
    central.put(0x02014b50, 4).put(20, 2);
    shared_fields(central, crc, member);
    // no comment, disk 0, no attributes, local header at 0
    central.put(0, 2).put(0, 2).put(0, 2).put(0, 4).put(0, 4).put(kMember);
    // end of the central directory: disks 0 and 0, one entry here, one in all
    central.put(0x06054b50, 4).put(0, 2).put(0, 2).put(1, 2).put(1, 2);
    central.put(kCentralHeader + kMember.size(), 4).put(central_at, 4).put(0, 2);
    return bytes;
}

}  // namespace tierfs::iobench
