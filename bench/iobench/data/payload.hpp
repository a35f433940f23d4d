// The contents of generated files: what a decoder of the format accepts, of exactly the size asked for, and a
// function of (seed, size) alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

using Bytes = std::vector<std::byte>;

enum class Kind { jpeg, npz, tfrecord, random };

/// ".jpg", ".npz", ".tfrecord", ".bin".
std::string_view extension(Kind kind);

/// The least and the largest size of a file of this kind, bytes.
struct SizeRange {
    std::uint64_t least, most;
};
SizeRange size_range(Kind kind);

/// EINVAL with the allowed range when a file of this kind cannot have this size.
Result<void> check_size(Kind kind, std::uint64_t size);

/// A baseline JPEG (ITU-T T.81, JFIF) of a seeded picture: smooth colours with noise over them. About nine
/// tenths or more of it is picture, the rest a comment (COM) of random bytes that makes the size exact. 1 KiB
/// … 64 MiB.
Result<Bytes> make_jpeg(std::uint64_t seed, std::uint64_t size);

/// What numpy.savez(f, x=array) writes: one stored member x.npy, a one-dimensional uint8 array of random
/// bytes (formats: PKWARE APPNOTE 6.3, numpy.lib.format 1.0). 512 bytes … 2 GiB.
Result<Bytes> make_npz(std::uint64_t seed, std::uint64_t size);

/// One record of a TFRecord file (tensorflow.org/tutorials/load_data/tfrecord): length, data and their masked
/// CRC-32C; `size` bytes with this framing. A file of records is one after another. 16 bytes … 2 GiB.
Result<Bytes> make_tfrecord(std::uint64_t seed, std::uint64_t size);

/// Any of the four; random: 0 bytes … 2 GiB in one piece.
Result<Bytes> make_payload(Kind kind, std::uint64_t seed, std::uint64_t size);

}  // namespace tierfs::iobench
