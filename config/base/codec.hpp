// Names and numbers of the codecs that bytes are compressed with. backends/extent/codec.hpp does the work.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tierfs {

/// The numbers stand on disk (backends/extent/format.hpp) and never change.
enum class Codec : std::uint8_t { none = 0, lz4 = 1, zstd = 2 };

inline constexpr std::array kCodecs{Codec::none, Codec::lz4, Codec::zstd};

/// As it is written in settings and in status.
constexpr std::string_view name_of(Codec codec) {
    return codec == Codec::lz4 ? "lz4" : codec == Codec::zstd ? "zstd" : "none";
}

constexpr std::optional<Codec> parse_codec(std::string_view name) {
    for (const Codec each : kCodecs) {
        if (name_of(each) == name) return each;
    }
    return std::nullopt;
}

/// The codec of a number that was read from a disk; nothing for one that this version does not know.
constexpr std::optional<Codec> codec_of(std::uint8_t number) {
    for (const Codec each : kCodecs) {
        if (static_cast<std::uint8_t>(each) == number) return each;
    }
    return std::nullopt;
}

}  // namespace tierfs
