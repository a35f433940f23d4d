#include "bench/iobench/data/payload.hpp"

#include <string>

#include "bench/iobench/data/random.hpp"

namespace tierfs::iobench {

namespace {

std::string name_of(Kind kind) {
    switch (kind) {
        case Kind::jpeg:
            return "jpeg";
        case Kind::npz:
            return "npz";
        case Kind::tfrecord:
            return "tfrecord";
        case Kind::random:
            break;
    }
    return "random";
}

}  // namespace

SizeRange size_range(Kind kind) {
    switch (kind) {
        case Kind::jpeg:
            return {1024, 64ULL << 20};
        case Kind::npz:
            return {512, 2ULL << 30};
        case Kind::tfrecord:
            return {16, 2ULL << 30};
        case Kind::random:
            break;
    }
    return {0, 2ULL << 30};
}

std::string_view extension(Kind kind) {
    switch (kind) {
        case Kind::jpeg:
            return ".jpg";
        case Kind::npz:
            return ".npz";
        case Kind::tfrecord:
            return ".tfrecord";
        case Kind::random:
            break;
    }
    return ".bin";
}

Result<void> check_size(Kind kind, std::uint64_t size) {
    const SizeRange range = size_range(kind);
    if (size >= range.least && size <= range.most) return {};
    return fail(EINVAL, "a " + name_of(kind) + " file of " + std::to_string(size) +
                            " bytes: choose a size from " + std::to_string(range.least) + " to " +
                            std::to_string(range.most));
}

Result<Bytes> make_payload(Kind kind, std::uint64_t seed, std::uint64_t size) {
    if (auto checked = check_size(kind, size); !checked) return fail(checked.error());
    if (kind == Kind::jpeg) return make_jpeg(seed, size);
    if (kind == Kind::npz) return make_npz(seed, size);
    if (kind == Kind::tfrecord) return make_tfrecord(seed, size);
    Bytes bytes(size);
    random_bytes(seed, 0, bytes);
    return bytes;
}

}  // namespace tierfs::iobench
