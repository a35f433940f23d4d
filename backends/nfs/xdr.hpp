// XDR (RFC 4506): what the messages of ONC RPC and NFS are written in. Big-endian words of four bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tierfs::nfs {

/// Appends values to a text.
class XdrWriter {
  public:
    void u32(std::uint32_t value) {
        for (int shift = 24; shift >= 0; shift -= 8) text_ += static_cast<char>(value >> shift & 0xff);
    }
    void u64(std::uint64_t value) {
        u32(static_cast<std::uint32_t>(value >> 32));
        u32(static_cast<std::uint32_t>(value));
    }
    void flag(bool value) { u32(value ? 1 : 0); }
    /// Bytes without their number, filled up to a multiple of four.
    void fixed(std::string_view bytes) {
        text_ += bytes;
        text_.append(-bytes.size() & 3U, '\0');
    }
    /// Their number, then the bytes.
    void opaque(std::string_view bytes) {
        u32(static_cast<std::uint32_t>(bytes.size()));
        fixed(bytes);
    }
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

/// Takes values out of bytes that anybody may have made: past the end, or past a limit, everything is zero
/// and empty, and ok() is false for good.
class XdrReader {
  public:
    explicit XdrReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    [[nodiscard]] bool ok() const { return ok_; }
    [[nodiscard]] std::size_t left() const { return rest_.size(); }
    [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
    void refuse() {
        ok_ = false;
        rest_ = {};
    }

    std::uint32_t u32() {
        const auto four = take(4);
        if (four.size() < 4) return 0;
        std::uint32_t value = 0;
        for (const auto byte : four) value = value << 8 | std::to_integer<std::uint32_t>(byte);
        return value;
    }
    std::uint64_t u64() {
        const std::uint64_t high = u32();
        return high << 32 | u32();
    }
    /// Only 0 and 1 are truth values (RFC 4506, 4.4).
    bool flag() {
        const auto value = u32();
        if (value > 1) refuse();
        return value == 1 && ok_;
    }
    std::string_view fixed(std::size_t size) {
        const auto bytes = take(size);
        take(-size & 3U);
        if (!ok_) return {};
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    /// Refuses more than `most` bytes.
    std::string_view opaque(std::size_t most) {
        const std::size_t size = u32();
        if (size > most) refuse();
        return ok_ ? fixed(size) : std::string_view();
    }

  private:
    std::span<const std::byte> take(std::size_t size) {
        if (size > rest_.size()) refuse();
        if (!ok_) return {};
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    std::span<const std::byte> rest_;
    bool ok_ = true;
};

}  // namespace tierfs::nfs
