// An origin and an NVMe tier that do what a test tells them, when it tells them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/origin/object.hpp"
#include "backends/origin/origin.hpp"
#include "backends/pack/packed_source.hpp"
#include "config/base/mutex.hpp"
#include "tiering/nvme/nvme_tier.hpp"

namespace tierfs::fake {

/// What stands in an object, for whoever wants to check it. Tests go over gigabytes of it: plain loops,
/// without the checks of the sanitizers.
class Content {
  public:
    explicit Content(const std::string& path) : seed_(std::hash<std::string>{}(path)) {}

    __attribute__((no_sanitize("address", "undefined", "thread"))) void fill(
        std::uint64_t offset, std::span<std::byte> destination) const {
        std::byte* const bytes = destination.data();
        const std::size_t count = destination.size();
        for (std::size_t i = 0; i < count; ++i) bytes[i] = at(offset + i);
    }
    /// Of the object, not of the span; nullopt: all is as it should be.
    [[nodiscard]] __attribute__((no_sanitize("address", "undefined", "thread"))) std::optional<std::uint64_t>
    first_difference(std::uint64_t offset, std::span<const std::byte> found) const {
        const std::byte* const bytes = found.data();
        const std::size_t count = found.size();
        for (std::size_t i = 0; i < count; ++i) {
            if (bytes[i] != at(offset + i)) return offset + i;
        }
        return std::nullopt;
    }

  private:
    [[nodiscard]] __attribute__((always_inline, no_sanitize("address", "undefined", "thread"))) std::byte at(
        std::uint64_t offset) const {
        return static_cast<std::byte>(((offset * 0x9E3779B97F4A7C15U) ^ seed_ ^ (offset >> 7U)) >> 40U);
    }

    const std::uint64_t seed_;
};

inline std::shared_ptr<const ObjectRef> object(const std::string& path, std::uint64_t size) {
    auto made = std::make_shared<ObjectRef>();
    made->path = path;
    made->version = "v1";
    made->size = size;
    made->content = content_id("fake:", path, made->version);
    return made;
}

class FakeOrigin final : public Origin {
  public:
    enum class Mode { manual, at_once, threads };

    struct Seen {
        std::string path;
        std::uint64_t offset = 0, size = 0;
        Priority priority = Priority::demand;
        friend bool operator==(const Seen&, const Seen&) = default;
    };

    explicit FakeOrigin(Mode mode = Mode::manual, unsigned threads = 0) : mode_(mode) {
        for (unsigned i = 0; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
    }
    ~FakeOrigin() override { stop(); }

    void read(OriginRead request) override {
        Mode mode{};
        {
            MutexLock lock(mutex_);
            seen_.push_back({request.path, request.offset, request.destination.size(), request.priority});
            mode = mode_;
            if (stopped_) {
                lock.unlock();
                request.done(fail(ECANCELED, "stopped"));
                return;
            }
            if (mode != Mode::at_once) {
                waiting_.push_back(std::move(request));
                changed_.notify_one();
                return;
            }
        }
        answer(request, 0);
    }

    void set_mode(Mode mode) {
        MutexLock lock(mutex_);
        mode_ = mode;
    }
    std::vector<Seen> seen() {
        MutexLock lock(mutex_);
        return seen_;
    }
    std::atomic<std::size_t> lists = 0;  ///< pages

    std::uint64_t seen_bytes() {
        std::uint64_t sum = 0;
        for (const Seen& one : seen()) sum += one.size;
        return sum;
    }
    std::size_t waiting() {
        MutexLock lock(mutex_);
        return waiting_.size();
    }
    /// Answers the oldest (or the `index`-th) waiting request; code 0: with its bytes.
    bool complete(int code = 0, std::size_t index = 0) {
        OriginRead request;
        {
            MutexLock lock(mutex_);
            if (index >= waiting_.size()) return false;
            request = std::move(waiting_[index]);
            waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(index));
        }
        answer(request, code);
        return true;
    }
    void complete_all(int code = 0) {
        while (complete(code)) {
        }
    }

    std::string identity() const override { return "fake:"; }
    std::string kind() const override { return "fake"; }
    Result<void> check() override { return {}; }
    Result<Attributes> stat(const std::string&) override { return fail(ENOENT, "no"); }
    Result<ListPage> list(const std::string& path, const std::string& token) override {
        const auto found = listings.find(path);
        if (found == listings.end()) return fail(ENOENT, "no");
        ++lists;
        ListPage page;
        const std::size_t begin = token.empty() ? 0 : std::stoul(token);
        const std::size_t end = std::min(found->second.size(), begin + names_of_page);
        page.entries.assign(found->second.begin() + static_cast<std::ptrdiff_t>(begin),
                            found->second.begin() + static_cast<std::ptrdiff_t>(end));
        if (end < found->second.size()) page.next = std::to_string(end);
        return page;
    }
    std::size_t names_of_page = 10;
    std::map<std::string, std::vector<DirectoryEntry>> listings;  ///< by directory; set before anybody asks
    Result<std::string> read_link(const std::string&) override { return fail(ENOENT, "no"); }
    OriginStats stats() const override { return {}; }
    std::uint64_t stats_worth_listing(const std::string&) const override { return 0; }
    void stop() override {
        {
            MutexLock lock(mutex_);
            stopped_ = true;
            changed_.notify_all();
        }
        for (std::thread& worker : workers_) worker.join();
        workers_.clear();
        complete_all(ECANCELED);
    }

  private:
    static void answer(OriginRead& request, int code) {
        if (code != 0) {
            request.done(fail(code, request.path + ": made to fail"));
            return;
        }
        Content(request.path).fill(request.offset, request.destination);
        request.done({});
    }
    void work(unsigned seed) {
        std::mt19937 random(seed);
        MutexLock lock(mutex_);
        while (!stopped_) {
            if (waiting_.empty()) {
                lock.wait(changed_);
                continue;
            }
            const auto at = static_cast<std::ptrdiff_t>(random() % waiting_.size());
            OriginRead request = std::move(waiting_[static_cast<std::size_t>(at)]);
            waiting_.erase(waiting_.begin() + at);
            lock.unlock();
            answer(request, 0);
            lock.lock();
        }
    }

    Mutex mutex_;
    std::condition_variable changed_;
    Mode mode_ TIERFS_GUARDED_BY(mutex_);
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    std::deque<OriginRead> waiting_ TIERFS_GUARDED_BY(mutex_);
    std::vector<Seen> seen_ TIERFS_GUARDED_BY(mutex_);
    std::vector<std::thread> workers_;
};

class HeapBuffer final : public Buffer {
  public:
    explicit HeapBuffer(std::size_t size) : HeapBuffer(std::make_unique<std::byte[]>(size), size) {}

  private:
    HeapBuffer(std::unique_ptr<std::byte[]> memory, std::size_t size)
        : Buffer({memory.get(), size}, size), memory_(std::move(memory)) {}
    std::unique_ptr<std::byte[]> memory_;
};

/// Extents in which these objects lie side by side. Damage and errors as they are set.
class FakePack final : public PackedSource {
  public:
    std::set<std::string> damaged;  ///< paths; set before anybody asks
    std::atomic<bool> fails = false;
    std::atomic<bool> holds = false;  ///< `done` of the runs waits for release()

    /// Before anybody asks.
    void put(const std::string& path, std::uint64_t size) {
        pack::Place place;
        place.offset = 4096 + align_up(end_);
        place.stored = static_cast<std::uint32_t>(size);
        end_ = place.offset + size;
        places_[path] = place;
    }
    std::optional<pack::Place> place_of(const ObjectRef& object) override {
        const auto found = places_.find(object.path);
        return found == places_.end() ? std::nullopt : std::optional(found->second);
    }
    void read_run(const std::shared_ptr<ExtentRun>& run) override {
        for (PackedObject& packed : run->objects) {
            const auto& place = packed.place;
            const auto bytes = run->destination.subspan(place.offset - run->begin, place.stored);
            Content(packed.object->path).fill(0, bytes);
            packed.sound = !fails && !damaged.contains(packed.object->path);
        }
        {
            MutexLock lock(mutex_);
            runs_.push_back(run->objects.size());
            if (holds) return held_.push_back(run);
        }
        end(*run);
    }
    void release() {
        holds = false;
        std::vector<std::shared_ptr<ExtentRun>> held;
        {
            MutexLock lock(mutex_);
            held.swap(held_);
        }
        for (const auto& run : held) end(*run);
    }
    /// Numbers of objects.
    std::vector<std::size_t> runs() {
        MutexLock lock(mutex_);
        return runs_;
    }

  private:
    void end(ExtentRun& run) const {
        const auto done = std::move(run.done);
        done(fails ? Result<void>(fail(EIO, "no")) : Result<void>());
    }

    std::map<std::string, pack::Place> places_;
    std::uint64_t end_ = 0;
    Mutex mutex_;
    std::vector<std::size_t> runs_ TIERFS_GUARDED_BY(mutex_);
    std::vector<std::shared_ptr<ExtentRun>> held_ TIERFS_GUARDED_BY(mutex_);
};

/// Keeps blocks in a map. `hold`: buffers admitted stay held until `write_all`, as a slow writer would.
class FakeNvme final : public NvmeTier {
  public:
    static constexpr std::uint64_t kUnit = 4096;  ///< of backing files
    std::atomic<bool> holds = false;
    std::atomic<bool> lie = false;  ///< contains says yes, read says no: evicted or damaged in between

    bool read(const ContentId& id, std::uint64_t size, std::uint64_t offset,
              std::span<std::byte> out) override {
        MutexLock lock(mutex_);
        ++reads_;
        read_bytes_ += out.size();
        if (lie || offset % kUnit != 0) return false;
        const std::uint64_t end = offset + out.size();
        if (end != size && end % kUnit != 0) return false;
        for (std::uint64_t at = offset; at < end;) {
            const auto found = blocks_.find({id, at / kBlockSize});
            if (found == blocks_.end()) return false;
            const auto piece = std::span(found->second).subspan(at % kBlockSize);
            const auto length = std::min<std::uint64_t>(piece.size(), end - at);
            std::copy_n(piece.begin(), length, out.begin() + static_cast<std::ptrdiff_t>(at - offset));
            at += length;
        }
        return true;
    }
    std::optional<WholeFile> whole_file(const ContentId&, std::uint64_t) override { return std::nullopt; }
    std::shared_ptr<const void> hold(const ContentId&, std::uint64_t) override { return nullptr; }
    std::function<void()> on_contains;  ///< called once, by the next contains()

    bool contains(const ContentId& id, std::uint64_t, std::uint64_t block) override {
        if (on_contains) std::exchange(on_contains, nullptr)();
        MutexLock lock(mutex_);
        return blocks_.contains({id, block});
    }
    void admit(const ContentId& id, std::uint64_t size, std::uint64_t offset, BufferPtr data,
               DatasetNumber dataset, Codec codec) override {
        MutexLock lock(mutex_);
        codecs[id] = codec;
        owners_[id] = dataset;
        admitted_.push_back({offset, data->bytes().size(), size});
        admitted_bytes += data->bytes().size();
        if (holds) {
            held_.push_back({id, offset, std::move(data)});
        } else {
            store(id, offset, *data);
        }
    }
    std::atomic<int> packed_runs{0};
    void admit_packed(PackedObjects objects, DatasetNumber dataset) override {
        ++packed_runs;
        if (keeps_packed) {
            MutexLock lock(mutex_);
            return unwritten_.push_back({std::move(objects), dataset});
        }
        write_packed(objects, dataset);
    }
    /// Objects that came side by side wait, with their memory, until this is over.
    std::atomic<bool> keeps_packed = false;
    void write_all_packed() {
        keeps_packed = false;
        std::vector<std::pair<PackedObjects, DatasetNumber>> unwritten;
        {
            MutexLock lock(mutex_);
            unwritten.swap(unwritten_);
        }
        for (const auto& [objects, dataset] : unwritten) write_packed(objects, dataset);
    }
    void write_packed(const PackedObjects& objects, DatasetNumber dataset) {
        for (const ChunkEntry& entry : objects.entries) {
            auto one = std::make_shared<HeapBuffer>(entry.stored_length);
            std::copy_n(objects.data->bytes().begin() + entry.offset, entry.stored_length,
                        one->writable().begin());
            admit(entry.id, entry.object_size, 0, BufferPtr(std::move(one)), dataset, Codec::none);
        }
    }
    bool is_compressed(const ContentId&, std::uint64_t) override { return compressed; }
    void use_memory(std::function<BufferPtr(std::size_t)> source) override { memory = std::move(source); }
    std::atomic<bool> compressed = false;
    std::function<BufferPtr(std::size_t)> memory;
    std::map<ContentId, Codec> codecs;  ///< as they were asked for

    void admit(const ContentId& id, std::uint64_t size, std::uint64_t offset, std::vector<BufferPtr> data,
               DatasetNumber dataset, Codec codec) override {
        for (BufferPtr& one : data) {
            const std::uint64_t length = one->bytes().size();
            admit(id, size, offset, std::move(one), dataset, codec);
            offset += length;
        }
    }
    bool write_one() {
        Held one;
        {
            MutexLock lock(mutex_);
            if (held_.empty()) return false;
            one = std::move(held_.front());
            held_.pop_front();
            store(one.id, one.offset, *one.data);
        }
        return true;
    }
    void retain(DatasetNumber dataset, Retention retention) override {
        retentions[std::min<std::size_t>(dataset, kMostDatasets)] = retention;
    }
    /// An object is a file of its own if it is larger than a unit of small ones, else all share an extent.
    bool take_over(const ContentId& id, std::uint64_t size, DatasetNumber dataset,
                   DatasetNumber from) override {
        MutexLock lock(mutex_);
        if (!blocks_.contains({id, 0})) return false;
        const auto found = owners_.find(id);
        const DatasetNumber owner = found == owners_.end() ? kUnknownDataset : found->second;
        if (owner != dataset && owner != from && size <= (1U << 20U)) return false;
        owners_[id] = dataset;
        return true;
    }
    void disown(DatasetNumber dataset) override {
        if (retentions[dataset] == Retention::pinned) disowned_while_pinned = true;
        MutexLock lock(mutex_);
        std::erase_if(owners_, [&](const auto& owner) { return owner.second == dataset; });
    }
    void renew(DatasetNumber) override { ++renewals; }
    void claim(const ContentId& id, DatasetNumber dataset) override {
        MutexLock lock(mutex_);
        owners_.try_emplace(id, dataset);
    }
    std::uint64_t used_by(DatasetNumber) const override { return 0; }
    bool takes(std::uint64_t, std::uint64_t length, DatasetNumber dataset,
               std::uint64_t coming) const override {
        return retentions[dataset] == Retention::goes || admitted_bytes + coming + length <= room;
    }
    std::array<std::atomic<Retention>, kMostDatasets + 1> retentions{};  ///< the last: of what is nobody's
    std::atomic<std::uint64_t> room{UINT64_MAX};                         ///< bytes that are taken while kept
    std::atomic<std::uint64_t> admitted_bytes{0};
    std::atomic<std::uint64_t> limit{std::uint64_t{1} << 30U};
    std::atomic<int> renewals{0};
    std::atomic<bool> disowned_while_pinned{false};  ///< what was being written then stays
    bool is_kept() const { return retentions[0] != Retention::goes; }
    /// Which dataset it was admitted for, or claimed by; unknown: neither.
    DatasetNumber owner_of(const ContentId& id) {
        MutexLock lock(mutex_);
        const auto found = owners_.find(id);
        return found == owners_.end() ? kUnknownDataset : found->second;
    }
    void flush() override {}
    void relieve() override {}
    void erase(const ContentId&) override {}
    TierStats stats() const override {
        TierStats stats;
        stats.limit_bytes = limit;
        stats.used_bytes = admitted_bytes;
        return stats;
    }
    std::uint64_t checksum_errors() const override { return 0; }
    void close() override {}

    struct Admitted {
        std::uint64_t offset = 0, length = 0, size = 0;
        friend bool operator==(const Admitted&, const Admitted&) = default;
    };
    std::vector<Admitted> admitted() {
        MutexLock lock(mutex_);
        return admitted_;
    }
    std::uint64_t reads() {
        MutexLock lock(mutex_);
        return reads_;
    }
    std::uint64_t read_bytes() {
        MutexLock lock(mutex_);
        return read_bytes_;
    }
    /// Puts bytes of an object there as if they had been read once.
    void put(const ObjectRef& object, std::uint64_t first, std::uint64_t blocks) {
        MutexLock lock(mutex_);
        for (std::uint64_t block = first; block < first + blocks; ++block) {
            const std::uint64_t begin = block * kBlockSize;
            std::vector<std::byte> bytes(std::clamp(object.size, begin, begin + kBlockSize) - begin);
            Content(object.path).fill(begin, bytes);
            blocks_[{object.content, block}] = std::move(bytes);
        }
    }

  private:
    struct Held {
        ContentId id;
        std::uint64_t offset = 0;
        BufferPtr data;
    };
    void store(const ContentId& id, std::uint64_t offset, const Buffer& data) TIERFS_REQUIRES(mutex_) {
        const auto bytes = data.bytes();
        for (std::uint64_t at = 0; at < bytes.size(); at += kBlockSize) {
            const auto piece = bytes.subspan(at, std::min<std::uint64_t>(kBlockSize, bytes.size() - at));
            blocks_[{id, (offset + at) / kBlockSize}] = {piece.begin(), piece.end()};
        }
    }

    Mutex mutex_;
    std::vector<std::pair<PackedObjects, DatasetNumber>> unwritten_ TIERFS_GUARDED_BY(mutex_);
    std::map<ContentId, DatasetNumber> owners_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::pair<ContentId, std::uint64_t>, std::vector<std::byte>> blocks_ TIERFS_GUARDED_BY(mutex_);
    std::deque<Held> held_ TIERFS_GUARDED_BY(mutex_);
    std::vector<Admitted> admitted_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t reads_ TIERFS_GUARDED_BY(mutex_) = 0, read_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs::fake
