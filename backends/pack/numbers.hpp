// The numbers of a pack's index (format.hpp) as bytes. Internal to backends/pack and fs/pack.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tierfs::pack {

constexpr std::uint64_t zigzag(std::uint64_t value) {
    return (value << 1U) ^ ((value >> 63U) != 0 ? ~std::uint64_t{0} : 0);
}
constexpr std::uint64_t unzigzag(std::uint64_t value) {
    return (value >> 1U) ^ ((value & 1U) != 0 ? ~std::uint64_t{0} : 0);
}

inline void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>(0x80U | (value & 0x7FU)));
    out.push_back(static_cast<char>(value));
}
/// The difference of two numbers, which may wrap around.
inline void put_signed(std::string& out, std::uint64_t difference) {
    put_varint(out, zigzag(difference));
}
template <typename T>
void put_fixed(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes bytes from the front. After the first that was not there, good() is false and all else is 0 or
/// empty.
class Cursor {
  public:
    explicit Cursor(std::string_view bytes) : rest_(bytes) {}

    std::string_view take(std::uint64_t count) {
        if (count > rest_.size()) return spoil();
        const auto taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(rest_.front());
            rest_.remove_prefix(1);
            value |= std::uint64_t{byte & 0x7FU} << shift;
            if ((byte & 0x80U) == 0) return value;
        }
        spoil();
        return 0;
    }
    std::uint64_t difference() { return unzigzag(varint()); }
    template <typename T>
    T fixed() {
        T value{};
        const auto bytes = take(sizeof value);
        if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    /// A run of bytes with its length before it.
    std::string_view text() { return take(varint()); }

    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }
    [[nodiscard]] std::size_t left() const { return rest_.size(); }
    std::string_view spoil() {
        good_ = false;
        rest_ = {};
        return {};
    }

  private:
    std::string_view rest_;
    bool good_ = true;
};

}  // namespace tierfs::pack
