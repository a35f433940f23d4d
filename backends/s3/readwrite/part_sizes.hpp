// Sizes and places of the parts of an object whose own size is not known yet.
#pragma once

#include <cstdint>

#include "backends/s3/readwrite/byte_ranges.hpp"

namespace tierfs::s3 {

/// Parts of 8 MiB, and after each thousand of them of twice the size: 10,000 parts, as many as S3 takes, hold
/// 7.8 TiB, more than the 5 TiB of its largest object, and none is above 4 GiB.
struct PartSizes {
    static constexpr std::uint64_t kFirst = std::uint64_t{8} << 20U;
    static constexpr unsigned kStep = 1000, kMost = 10000;
    static constexpr std::uint64_t kLargestObject = std::uint64_t{5} << 40U;

    /// Of part `number`, from 1.
    static constexpr ByteRange range(unsigned number) {
        const unsigned step = (number - 1) / kStep, within = (number - 1) % kStep;
        const std::uint64_t size = kFirst << step;
        const std::uint64_t begin = kFirst * kStep * ((std::uint64_t{1} << step) - 1) + within * size;
        return {begin, begin + size};
    }
    /// The part that holds the byte at `offset`; offset < kLargestObject.
    static constexpr unsigned number(std::uint64_t offset) {
        unsigned step = 0;
        while (range((step + 1) * kStep + 1).begin <= offset) ++step;
        const auto first = range(step * kStep + 1);
        return step * kStep + 1 + static_cast<unsigned>((offset - first.begin) / (first.end - first.begin));
    }
};

}  // namespace tierfs::s3
