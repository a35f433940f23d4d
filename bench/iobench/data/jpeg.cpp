// jpeglib.h needs FILE and size_t declared before it.
#include <cstddef>
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "bench/iobench/data/payload.hpp"
#include "bench/iobench/data/random.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::iobench {

namespace {

constexpr std::uint64_t kHeaders = 640;  // tables and headers of a baseline JPEG, roughly
constexpr double kBytesPerPixel = 0.6;   // what photographs at ordinary quality take
constexpr std::size_t kCommentAt = 20;   // behind SOI and JFIF's APP0, which has to come first
constexpr std::uint64_t kLeastSegment = 4, kMostSegment = 65537;

struct Picture {
    unsigned width = 0, height = 0;
    std::vector<JSAMPLE> rgb;
};

/// Colours that change smoothly over a coarse grid, with noise of a fixed strength on top: compresses like a
/// photograph.
Picture paint(std::uint64_t seed, std::uint64_t size) {
    const double pixels = static_cast<double>(size - std::min(size - 256, kHeaders)) / kBytesPerPixel;
    Picture picture;
    picture.width = std::max(8U, static_cast<unsigned>(std::sqrt(pixels * 4 / 3)));
    picture.height = std::max(8U, static_cast<unsigned>(pixels / picture.width));
    picture.rgb.resize(std::size_t{3} * picture.width * picture.height);
    constexpr unsigned kGrid = 6;
    std::array<std::array<std::array<int, 3>, kGrid + 1>, kGrid + 1> corner;
    Random random(seed);
    for (auto& row : corner)
        for (auto& colour : row)
            for (int& value : colour) value = 24 + static_cast<int>(random.below(208));
    auto* out = picture.rgb.data();
    for (unsigned y = 0; y < picture.height; ++y) {
        const unsigned gy = y * kGrid / picture.height, fy = y * kGrid * 256U / picture.height - gy * 256U;
        for (unsigned x = 0; x < picture.width; ++x) {
            const unsigned gx = x * kGrid / picture.width, fx = x * kGrid * 256U / picture.width - gx * 256U;
            const std::uint64_t noise = random.next();
            for (unsigned c = 0; c < 3; ++c) {
                const int top = corner[gy][gx][c] * static_cast<int>(256 - fx) +
                                corner[gy][gx + 1][c] * static_cast<int>(fx);
                const int low = corner[gy + 1][gx][c] * static_cast<int>(256 - fx) +
                                corner[gy + 1][gx + 1][c] * static_cast<int>(fx);
                const int value = (top * static_cast<int>(256 - fy) + low * static_cast<int>(fy)) / 65536 +
                                  static_cast<int>((noise >> (8 * c)) & 31) - 16;
                *out++ = static_cast<JSAMPLE>(std::clamp(value, 0, 255));
            }
        }
    }
    return picture;
}

/// libjpeg reports errors by a function that must not return; this one jumps back to compress().
struct ErrorManager {
    jpeg_error_mgr base;
    std::jmp_buf back;
    char text[JMSG_LENGTH_MAX];
};

void jump_back(j_common_ptr info) {
    void* manager = info->err;  // `base` is the first member
    auto* errors = static_cast<ErrorManager*>(manager);
    info->err->format_message(info, errors->text);
    std::longjmp(errors->back, 1);
}

/// Owns nothing that a longjmp could leak: the output buffer is the caller's to free(), on failure too.
bool compress(const Picture& picture, int quality, ErrorManager& errors, unsigned char*& out,
              unsigned long& size) {
    jpeg_compress_struct info{};
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = jump_back;
    if (setjmp(errors.back) != 0) {
        jpeg_destroy_compress(&info);
        return false;
    }
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &out, &size);
    info.image_width = picture.width;
    info.image_height = picture.height;
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    info.dct_method = JDCT_ISLOW;  // the exact one: the same bytes with and without SIMD
    jpeg_set_quality(&info, quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        const std::size_t at = std::size_t{3} * picture.width * info.next_scanline;
        JSAMPROW row = const_cast<JSAMPROW>(picture.rgb.data() + at);
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    return true;
}

Result<Bytes> encode(const Picture& picture, int quality) {
    auto errors = std::make_unique<ErrorManager>();
    unsigned char* out = nullptr;
    unsigned long size = 0;
    const bool done = compress(picture, quality, *errors, out, size);
    Bytes bytes(done ? size : 0);
    if (done) std::memcpy(bytes.data(), out, size);
    std::free(out);
    if (!done) return fail(EIO, std::string("libjpeg: ") + errors->text);
    return bytes;
}

bool fits(std::uint64_t encoded, std::uint64_t size) {
    return encoded == size || encoded + kLeastSegment <= size;
}

/// Comment segments of random bytes, `size` bytes in all: 0, or at least one segment.
Bytes comments(std::uint64_t seed, std::uint64_t size) {
    Bytes bytes(size);
    random_bytes(seed, 0, bytes);
    for (std::uint64_t at = 0; at < size;) {
        std::uint64_t segment = std::min(size - at, kMostSegment);
        const std::uint64_t rest = size - at - segment;
        if (rest > 0 && rest < kLeastSegment) segment -= kLeastSegment;
        const std::uint64_t length = segment - 2;
        bytes[at] = std::byte{0xff};
        bytes[at + 1] = std::byte{0xfe};
        bytes[at + 2] = static_cast<std::byte>(length >> 8);
        bytes[at + 3] = static_cast<std::byte>(length & 0xff);
        at += segment;
    }
    return bytes;
}

/// The highest quality at which a picture of about this size fits: the size rounded down to six binary
/// digits, so that a dataset of many sizes takes few searches. It belongs to the size alone, so that the
/// order of the files does not matter.
Result<int> usual_quality(std::uint64_t exact) {
    constexpr int kKeptBits = 6;
    const int dropped = std::max(0, static_cast<int>(std::bit_width(exact)) - kKeptBits);
    const std::uint64_t size = exact >> dropped << dropped;
    static Mutex mutex;
    static std::map<std::uint64_t, int> known;
    {
        MutexLock lock(mutex);
        if (auto found = known.find(size); found != known.end()) return found->second;
    }
    const Picture sample = paint(0, size);
    int low = 1, high = 98;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        auto encoded = encode(sample, middle);
        if (!encoded) return fail(encoded.error());
        if (encoded->size() + encoded->size() / 64 + kLeastSegment <= size) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    MutexLock lock(mutex);
    return known.emplace(size, low).first->second;
}

}  // namespace

Result<Bytes> make_jpeg(std::uint64_t seed, std::uint64_t size) {
    if (auto checked = check_size(Kind::jpeg, size); !checked) return fail(checked.error());
    const auto start = usual_quality(size);
    if (!start) return fail(start.error());
    const Picture picture = paint(seed, size);
    for (int quality = *start; quality >= 1; quality -= quality > 3 ? 2 : 1) {
        auto encoded = encode(picture, quality);
        if (!encoded) return fail(encoded.error());
        if (!fits(encoded->size(), size)) continue;
        const Bytes padding = comments(derive_seed(seed, 1), size - encoded->size());
        encoded->insert(encoded->begin() + kCommentAt, padding.begin(), padding.end());
        return encoded;
    }
    return fail(EINVAL, "no JPEG of " + std::to_string(size) + " bytes can be made: choose a larger size");
}

}  // namespace tierfs::iobench
