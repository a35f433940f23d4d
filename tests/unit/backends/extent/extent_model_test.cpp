// An extent file that was cut, zeroed or scribbled on: what a scan finds is what was written, and it finds
// all that it can find.
#include <filesystem>
#include <optional>

#include "backends/disk/disk_file.hpp"
#include "backends/extent/chunk_writer.hpp"
#include "backends/extent/scan.hpp"
#include "tests/unit/model.hpp"

namespace tierfs {
namespace extent_model_test {

namespace fs = std::filesystem;

constexpr std::uint64_t kRoom = 2 << 20;
const ExtentUuid kUuid{77, 88};

std::byte byte_of(const ContentId& id, std::uint64_t at) {
    return static_cast<std::byte>((id.low * 131 + at * 7 + at / 251) % 256);
}

struct Written {
    ContentId id;
    std::uint64_t begin = 0, size = 0;  ///< in the file
    std::size_t chunk = 0;
};
struct Chunk {
    std::uint64_t begin = 0, table_end = 0, end = 0;
    bool cut = false, table_hurt = false, zeroed = false;  ///< zeroed: its first page
};

class ExtentModel {
  public:
    ExtentModel() {
        std::string path = (fs::temp_directory_path() / "tierfs-extent-model-XXXXXX").string();
        RC_ASSERT(::mkdtemp(path.data()) != nullptr);
        root_ = path;
        auto file = DiskFile::open(root_ / "extent", {.write = true, .create = true});
        RC_ASSERT(file.has_value());
        file_.emplace(std::move(*file));
        RC_ASSERT(file_->truncate(kRoom).has_value());
        writer_.start(kRoom);
    }
    ~ExtentModel() {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    /// Kinds 0 to 2 add an entry, 3 ends a chunk; the others do harm, when all is written.
    void run(const model::Command& command) {
        if (command.kind == 3) flush();
        if (command.kind < 3) {
            constexpr std::uint64_t kSizes[] = {4000, 70000, 300000};
            add(1 + (std::uint64_t{command.a} * 65536 + command.b) % kSizes[command.kind]);
        }
    }
    void harm(const model::Command& command) {
        if (end_ == 0) return;
        const std::uint64_t at = (std::uint64_t{command.a} * 65536 + command.b) % end_;
        switch (command.kind) {
            case 4:
                cut(at);
                break;
            case 5:
                hurt(at / kDiskAlignment * kDiskAlignment, kDiskAlignment, true, command);
                break;
            case 6:
                hurt(at, 1, false, command);
                break;
            case 7:  // in a table: rarer by chance than it is bad
                if (!chunks_.empty())
                    hurt(chunks_[at % chunks_.size()].begin + command.c % 200, 1, false, command);
                break;
            default:
                break;
        }
    }

    void check() {
        std::vector<bool> found(written_.size(), false);
        std::uint64_t tables = 0, last = 0;
        const auto scan = scan_extent(*file_, kUuid, [&](const ChunkTable& table) {
            RC_ASSERT(table.offset >= last);
            last = table.end();
            ++tables;
            for (const ChunkEntry& entry : table.entries) check_entry(table, entry, found);
            return true;
        });
        RC_ASSERT(scan.has_value());
        RC_ASSERT(scan->chunks == tables);
        RC_ASSERT(scan->end == last);
        bool stopped = false, all = true;
        for (std::size_t at = 0; at < written_.size(); ++at) {
            const Chunk& chunk = chunks_[written_[at].chunk];
            // A page of zeros where a table is looked for is where the writer stopped.
            stopped = stopped || chunk.zeroed;
            const bool expected = !chunk.cut && !chunk.table_hurt && !stopped;
            if (expected) RC_ASSERT(found[at]);
            if (chunk.cut || chunk.table_hurt) RC_ASSERT(!found[at]);
            all = all && expected;
        }
        if (all) RC_ASSERT(scan->intact);
    }
    void flush() {
        if (writer_.empty()) return;
        const auto bytes = writer_.finish(kUuid, static_cast<std::uint32_t>(chunks_.size()), end_);
        const ChunkTable& table = writer_.table();
        RC_ASSERT(file_->write(bytes, end_).has_value());
        for (std::size_t i = 0; i < table.entries.size(); ++i) {
            const ChunkEntry& entry = table.entries[i];
            written_.push_back(
                {entry.id, table.data_offset() + entry.offset, entry.object_size, chunks_.size()});
        }
        chunks_.push_back({end_, table.data_offset(), table.end()});
        end_ = table.end();
        writer_.start(kRoom - end_);
    }

  private:
    void add(std::uint64_t size) {
        const ContentId id{size, ++next_id_};
        std::vector<std::byte> bytes(size);
        for (std::uint64_t at = 0; at < size; ++at) bytes[at] = byte_of(id, at);
        // In two pieces, as buffers of a large read come.
        const std::span<const std::byte> all(bytes);
        const std::span<const std::byte> pieces[] = {all.first(size / 3), all.subspan(size / 3)};
        if (writer_.add(id, pieces)) return;
        flush();
        (void)writer_.add(id, pieces);  // or the extent is full
    }

    void cut(std::uint64_t at) {
        RC_ASSERT(file_->truncate(at).has_value());
        end_ = std::min(end_, at);
        for (Chunk& chunk : chunks_) chunk.cut = chunk.cut || chunk.end > at;
    }

    void hurt(std::uint64_t begin, std::uint64_t length, bool zero, const model::Command& command) {
        if (begin + length > end_) return;
        AlignedBuffer page(kDiskAlignment);
        const std::uint64_t at = begin / kDiskAlignment * kDiskAlignment;
        const auto got = file_->read(page.span(), at);
        RC_ASSERT(got.has_value());
        const std::vector<std::byte> before(page.span().begin(), page.span().end());
        for (std::uint64_t i = 0; i < length; ++i) {
            std::byte& byte = page.span()[begin - at + i];
            byte = zero ? std::byte{0} : byte ^ static_cast<std::byte>(1U << (command.c % 8));
        }
        if (std::equal(before.begin(), before.end(), page.span().begin())) return;
        RC_ASSERT(file_->write(page.span().first(*got), at).has_value());
        const bool all_zero = std::all_of(page.span().begin(), page.span().end(),
                                          [](std::byte b) { return b == std::byte{0}; });
        for (Chunk& chunk : chunks_) {
            if (begin < chunk.table_end && begin + length > chunk.begin) chunk.table_hurt = true;
            if (at == chunk.begin && all_zero) chunk.zeroed = true;
        }
        for (const Written& entry : written_) {
            if (begin < entry.begin + entry.size && begin + length > entry.begin)
                damaged_.push_back(entry.id);
        }
    }

    void check_entry(const ChunkTable& table, const ChunkEntry& entry, std::vector<bool>& found) const {
        const auto place = std::find_if(written_.begin(), written_.end(),
                                        [&](const Written& one) { return one.id == entry.id; });
        RC_ASSERT(place != written_.end());
        RC_ASSERT(table.data_offset() + entry.offset == place->begin);
        RC_ASSERT(entry.object_size == place->size);
        found[static_cast<std::size_t>(place - written_.begin())] = true;
        bool verifies = true, right = true;
        AlignedBuffer buffer(align_up(place->size) + kDiskAlignment);
        const std::uint64_t skip = place->begin % kDiskAlignment;
        const auto got = file_->read(buffer.span(), place->begin - skip);
        RC_ASSERT(got.has_value() && *got >= skip + place->size);
        const auto bytes = buffer.span().subspan(skip, place->size);
        for (std::uint64_t unit = 0; unit < entry.sums.size(); ++unit) {
            const auto part = bytes.subspan(
                unit * kExtentUnit, std::min<std::uint64_t>(kExtentUnit, place->size - unit * kExtentUnit));
            verifies = verifies && unit_checksum(entry.id, unit, kExtentUnit, part) == entry.sums[unit];
        }
        for (std::uint64_t at = 0; at < place->size; ++at)
            right = right && bytes[at] == byte_of(entry.id, at);
        RC_ASSERT(verifies == right);
        const bool damaged = std::find(damaged_.begin(), damaged_.end(), entry.id) != damaged_.end();
        if (!damaged) RC_ASSERT(right);
    }

    fs::path root_;
    std::optional<DiskFile> file_;
    ChunkWriter writer_;
    std::uint64_t end_ = 0, next_id_ = 0;
    std::vector<Chunk> chunks_;
    std::vector<Written> written_;
    std::vector<ContentId> damaged_;
};

TEST(ExtentModelTest, AScanFindsWhatIsWholeAndNothingElse) {
    model::check(60, [] {
        const auto writes = *model::commands(60, {6, 2, 1, 3, 0, 0, 0, 0});
        const auto harms = *model::commands(6, {0, 0, 0, 0, 1, 3, 3, 2});
        ExtentModel extent;
        for (const auto& command : writes) extent.run(command);
        extent.flush();
        extent.check();
        for (const auto& command : harms) {
            extent.harm(command);
            extent.check();
        }
    });
}

}  // namespace extent_model_test
}  // namespace tierfs
