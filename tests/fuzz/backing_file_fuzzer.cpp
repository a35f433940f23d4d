// floor: tiering
// A backing file and its sidecar. Input: flags, sizes, the sidecar's header and checksums; the header is put
// in order when the flags say so.
#include "tests/fuzz/extent_check.hpp"
#include "tiering/nvme/backing_file.hpp"

namespace {

using namespace tierfs;

constexpr ContentId kId{0x0123456789abcdefU, 0xfedcba9876543210U};
constexpr std::size_t kHeader = 4096;
constexpr std::uint64_t kMostBytes = 300'000;

/// A range as NvmeTier::read gives it.
void check_read(const BackingFile& file, std::uint64_t block) {
    const auto offset = block * kBlockSize;
    if (offset >= file.size()) return;
    const auto length = std::min<std::uint64_t>(kBlockSize, file.size() - offset);
    AlignedBuffer out(length);
    std::fill(out.span().begin(), out.span().end(), std::byte{0xEE});
    const auto outcome = file.read(offset, out.span().first(length));
    fuzz::require(outcome != ReadOutcome::hit || file.present(block).value(), "what is absent is never read");
    fuzz::require(outcome != ReadOutcome::failed, "a file in memory can be read");
}

void use(const BackingFile& file, FuzzedDataProvider& input) {
    fuzz::require(file.size() != 0 && file.allocated().has_value(), "a backing file is not empty");
    const auto present = file.count_present().value();
    fuzz::require(present <= block_count(file.size()), "no more blocks than there are");
    for (std::uint64_t block = 0; block <= block_count(file.size()); ++block) check_read(file, block);
    const auto block = input.ConsumeIntegralInRange<std::uint64_t>(0, block_count(file.size()) - 1);
    const auto offset = block * kBlockSize;
    const auto length = std::min<std::uint64_t>(kBlockSize, file.size() - offset);
    AlignedBuffer data(length);
    std::fill(data.span().begin(), data.span().end(), std::byte{input.ConsumeIntegral<std::uint8_t>()});
    const std::span<const std::byte> piece = data.span().first(length);
    fuzz::require(file.write(offset, std::span(&piece, 1)).has_value(), "a block can be written");
    AlignedBuffer out(length);
    fuzz::require(file.present(block).value() &&
                      file.read(offset, out.span().first(length)) == ReadOutcome::hit &&
                      std::equal(piece.begin(), piece.end(), out.data()),
                  "and is read back");
    fuzz::require(file.clear(block, 1).has_value() && !file.present(block).value(),
                  "a cleared block is absent");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz::Folder folder;
    FuzzedDataProvider input(data, size);
    const auto paths = BackingFile::paths(folder.path(), kId);
    std::filesystem::create_directory(paths.data.parent_path());
    const auto stated = input.ConsumeIntegralInRange<std::uint64_t>(0, kMostBytes);
    const auto real =
        input.ConsumeBool() ? stated : input.ConsumeIntegralInRange<std::uint64_t>(0, kMostBytes);
    const bool mend = input.ConsumeBool(), huge = input.ConsumeBool(), padded = input.ConsumeBool();
    const auto fill = input.ConsumeIntegral<std::uint8_t>();
    const auto rest = input.ConsumeRemainingBytes<std::uint8_t>();

    fuzz::write_file(paths.data, std::vector<std::byte>(padded ? align_up(real) : real, std::byte{fill}));
    std::vector<std::byte> sums(rest.size() + (mend ? kHeader : std::size_t{0}));
    std::transform(rest.begin(), rest.end(), sums.end() - static_cast<std::ptrdiff_t>(rest.size()),
                   [](std::uint8_t byte) { return std::byte{byte}; });
    if (mend)
        fuzz::mend_sidecar(kId, std::span(sums).first(kHeader), huge ? ~std::uint64_t{0} - stated : stated);
    fuzz::write_file(paths.sums, sums);

    FuzzedDataProvider more(data, size);
    if (const auto file = BackingFile::open(folder.path(), kId)) {
        fuzz::require(mend || rest.size() >= kHeader, "a file without a header is none");
        use(*file, more);
    } else {
        fuzz::require(!file.error().message.empty(), "an error says what it is");
    }
    fuzz::require(BackingFile::remove(folder.path(), kId).has_value(), "files can be removed");
    return 0;
}
