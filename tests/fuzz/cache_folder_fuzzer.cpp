// floor: tiering
// A whole folder of the NVMe tier as the last run, or somebody else, left it: extents, backing files, odd
// names, and an index that may say anything. The tier is opened on it, read and written.
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "config/base/log.hpp"
#include "tests/fuzz/extent_check.hpp"
#include "tests/unit/tiering/nvme/fake_index.hpp"
#include "tiering/nvme/backing_file.hpp"
#include "tiering/nvme/nvme_core.hpp"

namespace {

using namespace tierfs;

class HeapBuffer final : public Buffer {
  public:
    explicit HeapBuffer(std::size_t size) : HeapBuffer(AlignedBuffer(size), size) {}

  private:
    HeapBuffer(AlignedBuffer memory, std::size_t size)
        : Buffer(memory.span(), size), memory_(std::move(memory)) {
        std::fill(memory_.span().begin(), memory_.span().end(), fuzz::kGoodByte);
    }
    AlignedBuffer memory_;
};

constexpr std::uint64_t kMostBytes = 200'000;

class Scene {
  public:
    Scene(FuzzedDataProvider& input, const std::filesystem::path& folder) : input_(input), folder_(folder) {
        std::filesystem::create_directories(folder / "extents");
        std::filesystem::create_directories(folder / "files/00");
    }

    void set_up() {
        while (input_.remaining_bytes() > 0 && things_++ < 8) {
            switch (input_.ConsumeIntegralInRange(0, 4)) {
                case 0:
                    add_extent();
                    break;
                case 1:
                    add_backing_file();
                    break;
                case 2:
                    add_odd_name();
                    break;
                case 3:
                    add_record();
                    break;
                default:
                    return;
            }
        }
    }

    void play() {
        NvmeOptions options;
        options.devices = {NvmePlace::at(folder_)};
        options.limit = 16 << 20;
        options.pack_max_object = 64 << 10;
        auto tier = open_nvme_tier(options, index_, {});
        fuzz::require(tier.has_value(), "a tier opens on whatever lies there");
        for (int round = 0; round < 2; ++round) {
            for (const auto& object : objects_) read(**tier, object.id, object.size);
            (*tier)->flush();
        }
        const ContentId id{input_.ConsumeIntegralInRange<std::uint64_t>(0, 3), 1};
        const auto size = input_.ConsumeIntegralInRange<std::uint64_t>(1, kMostBytes);
        (*tier)->admit(id, size, 0, std::make_shared<HeapBuffer>(size));
        (*tier)->flush();
        read(**tier, id, size);
        if (input_.ConsumeBool()) (*tier)->erase(id);
        fuzz::require((*tier)->stats().used_bytes <= options.limit, "the limit holds");
        if (input_.ConsumeBool()) {
            (*tier)->abandon();
        } else {
            (*tier)->close();
        }
    }

  private:
    struct Object {
        ContentId id;
        std::uint64_t size = 0;
    };

    void add_extent() {
        const auto number = input_.ConsumeIntegralInRange<std::uint64_t>(0, 3);
        std::vector<fuzz::GoodChunk> good;
        bool honest = false;
        const auto bytes = fuzz::make_extent(input_, good, honest);
        honest_ = honest_ && honest;
        for (const auto& chunk : good) objects_.push_back({chunk.id, chunk.size});
        fuzz::write_file(folder_ / "extents" / extent_file_name(number, fuzz::kUuid), bytes);
    }

    void add_backing_file() {
        const ContentId id{input_.ConsumeIntegralInRange<std::uint64_t>(0, 3), 1};
        const auto size = input_.ConsumeIntegralInRange<std::uint64_t>(0, kMostBytes);
        const auto paths = BackingFile::paths(folder_ / "files", id);
        const auto length =
            input_.ConsumeBool() ? size : input_.ConsumeIntegralInRange<std::uint64_t>(0, kMostBytes);
        fuzz::write_file(paths.data, std::vector<std::byte>(length, fuzz::kGoodByte));
        std::vector<std::byte> sums(4096);
        fuzz::mend_sidecar(id, sums, size);
        const auto rest = input_.ConsumeBytes<std::byte>(input_.ConsumeIntegralInRange<std::size_t>(0, 256));
        sums.insert(sums.end(), rest.begin(), rest.end());
        if (input_.ConsumeBool()) sums.resize(input_.ConsumeIntegralInRange<std::size_t>(0, sums.size()));
        if (input_.ConsumeIntegralInRange(0, 3) != 0) fuzz::write_file(paths.sums, sums);
        honest_ = false;
        objects_.push_back({id, size});
    }

    void add_odd_name() {
        const auto name = input_.ConsumeRandomLengthString(80);
        if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos ||
            name.find('\0') != name.npos)
            return;
        static constexpr std::array<const char*, 4> kFolders{"", "extents", "files", "files/00"};
        const auto path = folder_ / kFolders[input_.ConsumeIntegralInRange<std::size_t>(0, 3)] / name;
        std::error_code ignored;
        switch (input_.ConsumeIntegralInRange(0, 2)) {
            case 0:
                fuzz::write_file(path, {});
                break;
            case 1:
                std::filesystem::create_directory(path, ignored);
                break;
            default:
                std::filesystem::create_symlink("/proc/self/mem", path, ignored);
        }
    }

    void add_record() {
        const ContentId id{input_.ConsumeIntegralInRange<std::uint64_t>(0, 3), 1};
        Location location;
        location.kind = input_.ConsumeBool() ? Location::Kind::extent_entry : Location::Kind::backing_file;
        location.complete = input_.ConsumeBool();
        location.object_size = input_.ConsumeIntegralInRange<std::uint64_t>(0, kMostBytes);
        location.extent = input_.ConsumeIntegralInRange<std::uint64_t>(0, 3);
        location.extent_tag =
            input_.ConsumeBool() ? fuzz::kUuid.low : input_.ConsumeIntegral<std::uint64_t>();
        location.offset = input_.ConsumeIntegral<std::uint64_t>();
        location.sum_count =
            static_cast<std::uint32_t>(input_.ConsumeBool() ? unit_count(location.object_size, kExtentUnit)
                                                            : input_.ConsumeIntegralInRange(0, 32));
        location.sum_count = std::min<std::uint32_t>(location.sum_count, Location::kMaxSums);
        for (auto& sum : location.sums) sum = 7;
        auto record = location.encode();
        if (input_.ConsumeBool()) record = input_.ConsumeRandomLengthString(120);
        index_.put(id, std::move(record));
        objects_.push_back({id, location.object_size});
    }

    void read(NvmeTier& tier, const ContentId& id, std::uint64_t size) const {
        for (std::uint64_t offset = 0; offset < size; offset += kBlockSize) {
            (void)tier.contains(id, size, offset / kBlockSize);
            AlignedBuffer out(std::min<std::uint64_t>(kBlockSize, size - offset));
            const auto bytes = out.span().first(std::min<std::uint64_t>(kBlockSize, size - offset));
            std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
            if (!tier.read(id, size, offset, bytes) || !honest_) continue;
            fuzz::require(
                std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == fuzz::kGoodByte; }),
                "what is read is what was written");
        }
    }

    FuzzedDataProvider& input_;
    const std::filesystem::path folder_;
    tierfs::testing::FakeIndex index_;
    std::vector<Object> objects_;
    bool honest_ = true;
    int things_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string trouble = log::open(log::Level::error, "/dev/null");
    const fuzz::Folder folder;
    FuzzedDataProvider input(data, size);
    Scene scene(input, folder.path());
    scene.set_up();
    scene.play();
    return 0;
}
