// The store against a function: byte (object, version, offset). Reads of every shape are in flight together,
// the origin answers late, out of order, wrongly or never, versions change, memory is short, and some readers
// keep what they got.
#include <list>
#include <map>

#include "tests/unit/model.hpp"
#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/store/store_impl.hpp"

namespace tierfs::fake {
namespace store_model_test {

constexpr unsigned kObjects = 6;

std::uint64_t size_of(unsigned number) {
    constexpr std::uint64_t kSizes[kObjects] = {0, 1, 5000, 200'000, 3 * kBlockSize, 5 * kMiB + 77};
    return kSizes[number];
}

/// Answers when told to. A request for a version that is no longer there fails, as If-Match does.
class ModelOrigin final : public Origin {
  public:
    void read(OriginRead request) override {
        {
            MutexLock lock(mutex_);
            if (!stopped_) {
                waiting_.push_back(std::move(request));
                return;
            }
        }
        request.done(fail(ECANCELED, "stopped"));
    }
    std::size_t waiting() {
        MutexLock lock(mutex_);
        return waiting_.size();
    }
    /// Two requests under way for the same byte of the same version.
    bool overlap() {
        MutexLock lock(mutex_);
        for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
            for (auto other = std::next(one); other != waiting_.end(); ++other) {
                if (one->path == other->path && one->version == other->version &&
                    one->offset < other->offset + other->destination.size() &&
                    other->offset < one->offset + one->destination.size())
                    return true;
            }
        }
        return false;
    }
    bool answer(unsigned which, int code) {
        OriginRead request;
        {
            MutexLock lock(mutex_);
            if (waiting_.empty()) return false;
            auto place = waiting_.begin();
            std::advance(place, which % waiting_.size());
            request = std::move(*place);
            waiting_.erase(place);
            if (code == 0 && request.version != current_[request.path]) code = ESTALE;
        }
        if (code != 0) {
            // What a failed request left in the memory must never be seen.
            std::fill(request.destination.begin(), request.destination.end(), std::byte{0xEE});
            request.done(fail(code, "made to fail"));
            return true;
        }
        Content(request.path + request.version).fill(request.offset, request.destination);
        request.done({});
        return true;
    }
    void set_version(const std::string& path, const std::string& version) {
        MutexLock lock(mutex_);
        current_[path] = version;
    }
    void stop() override {
        {
            MutexLock lock(mutex_);
            stopped_ = true;
        }
        while (answer(0, ECANCELED)) {
        }
    }

    std::string identity() const override { return "model:"; }
    std::string kind() const override { return "model"; }
    Result<void> check() override { return {}; }
    Result<Attributes> stat(const std::string&) override { return fail(ENOENT, "no"); }
    Result<ListPage> list(const std::string&, const std::string&) override { return fail(ENOENT, "no"); }
    Result<std::string> read_link(const std::string&) override { return fail(ENOENT, "no"); }
    OriginStats stats() const override { return {}; }
    std::uint64_t stats_worth_listing(const std::string&) const override { return 0; }

  private:
    Mutex mutex_;
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    std::list<OriginRead> waiting_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, std::string> current_ TIERFS_GUARDED_BY(mutex_);
};

struct Shape {
    std::uint64_t arena = 0, ram = 0, window = 0;
    bool nvme = false;
};

class StoreModel {
  public:
    explicit StoreModel(const Shape& shape) : shape_(shape) {
        Settings settings;
        settings.origin_deadline = std::chrono::minutes(5);
        settings.pack_max_object = kMiB;
        settings.prefetch_window = shape.window;
        MemoryPlan plan;
        plan.limit = plan.data = shape.arena;
        plan.ram_tier = shape.ram;
        auto opened = Store::open(settings, plan, origin_, shape.nvme ? &nvme_ : nullptr);
        RC_ASSERT(opened.has_value());
        store_.reset(static_cast<TieredStore*>(opened->release()));
        arena_ = store_->arena().weak_from_this();
        for (unsigned number = 0; number < kObjects; ++number) replace(number, 0);
    }
    ~StoreModel() { stop(); }

    void run(const model::Command& command) {
        const unsigned number = command.a % kObjects;
        switch (command.kind) {
            case 0:
                start(number, (std::uint64_t{command.b} * 97) % (size_of(number) + 2),
                      1 + (command.c * 5U) % 131072);
                break;
            case 1:  // a stream: from where the last read of this object ended
                start(number, next_[number], 1 + command.c % 131072);
                break;
            case 2:
                origin_.answer(command.a, 0);
                break;
            case 3:
                failed_ = origin_.answer(command.a, command.b % 2 == 0 ? EIO : ETIMEDOUT) || failed_;
                break;
            case 4:
                if (!pending_.empty()) collect(command.b % pending_.size(), false);
                break;
            case 5:
                replace(number, versions_[number] + 1);
                break;
            case 6:
                nvme_.holds = command.b % 2 == 0;
                while (!nvme_.holds && nvme_.write_one()) {
                }
                break;
            case 7:
                (void)nvme_.write_one();
                break;
            case 8:
                kept_.clear();
                break;
            case 9:
                nvme_.lie = shape_.nvme && command.b % 2 == 0;
                break;
            default:
                stop();
        }
        if (!shape_.nvme) RC_ASSERT(!origin_.overlap());
        RC_ASSERT(store_->stats().data_memory_bytes <= shape_.arena);
    }

    void finish() {
        kept_.clear();
        while (!pending_.empty()) {
            collect(0, true);
            kept_.clear();  // who keeps its answer may keep others waiting
        }
        while (origin_.answer(0, 0)) {  // readahead that is still under way
        }
        while (nvme_.write_one()) {
        }
        const StoreStats stats = store_->stats();
        RC_ASSERT(stats.ram_bytes + stats.nvme_bytes + stats.origin_bytes == stats.read_bytes);
        RC_ASSERT(stats.read_bytes == bytes_);
        RC_ASSERT(stats.read_errors == errors_);
        RC_ASSERT(stats.read_requests == reads_);
        if (!stopped_ && !shape_.nvme) RC_ASSERT(stats.data_memory_bytes <= stats.ram.used_bytes);
        stop();
        store_.reset();
        RC_ASSERT(arena_.expired());  // no buffer is left anywhere
    }

  private:
    struct Read {
        PendingPtr pending;
        std::shared_ptr<const ObjectRef> object;
        std::uint64_t offset = 0;
        std::uint32_t length = 0;
    };

    void replace(unsigned number, unsigned version) {
        versions_[number] = version;
        auto made = std::make_shared<ObjectRef>();
        made->path = "object" + std::to_string(number);
        made->version = "v" + std::to_string(version);
        made->size = size_of(number);
        made->content = content_id("model:", made->path, made->version);
        origin_.set_version(made->path, made->version);
        // The one before stays readable by who has it open.
        if (objects_[number] && version % 3 != 0) old_ = objects_[number];
        objects_[number] = std::move(made);
    }

    void start(unsigned number, std::uint64_t offset, std::uint32_t length) {
        const bool of_old = old_ && length % 11 == 0;
        Read read{std::make_shared<Pending>(), of_old ? old_ : objects_[number], offset, length};
        ++reads_;
        store_->read(read.object, offset, length,
                     [pending = read.pending](Result<ReadReply> result) { pending->set(std::move(result)); });
        next_[number] = std::min(offset + length, read.object->size);
        if (next_[number] == read.object->size) next_[number] = 0;
        pending_.push_back(std::move(read));
    }

    /// Looks at an answer when it is there; `drive`: makes it come.
    void collect(std::size_t which, bool drive) {
        const auto place = pending_.begin() + static_cast<std::ptrdiff_t>(which);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        while (drive && !place->pending->done()) {
            RC_ASSERT(std::chrono::steady_clock::now() < deadline);
            nvme_.write_one();
            if (!origin_.answer(0, 0)) std::this_thread::yield();
            keep_no_other(which);
        }
        if (!place->pending->done()) return;
        const Read read = std::move(*place);
        pending_.erase(place);
        Result<ReadReply>& result = read.pending->wait();
        RC_ASSERT(read.pending->calls() == 1);
        if (result) {
            check(*result, read);
            kept_.push_back(std::move(*result));
            if (kept_.size() > 2 || shape_.arena < kMiB) kept_.erase(kept_.begin());
        } else {
            ++errors_;
            check_error(result.error().code, read);
        }
        read.pending->forget();
    }
    /// Answers that nobody looked at hold memory that the one waited for may need.
    void keep_no_other(std::size_t which) {
        for (std::size_t i = 0; i < pending_.size(); ++i) {
            if (i == which || !pending_[i].pending->done() ||
                looked_at_.count(pending_[i].pending.get()) != 0)
                continue;
            Result<ReadReply>& result = pending_[i].pending->wait();
            if (!result) continue;
            check(*result, pending_[i]);
            bytes_ -= length_of(pending_[i]);  // counted when it is collected
            looked_at_.insert(pending_[i].pending.get());
            result->owners.clear();
            result->pieces.clear();
        }
    }

    static std::uint64_t length_of(const Read& read) {
        const std::uint64_t end = std::min(read.object->size, read.offset + read.length);
        return end > read.offset ? end - read.offset : 0;
    }

    void check(const ReadReply& reply, const Read& read) {
        bytes_ += length_of(read);
        if (looked_at_.count(read.pending.get()) != 0) return;
        std::uint64_t at = read.offset;
        bool right = true;
        const std::string name = read.object->path + read.object->version;
        for (const auto piece : reply.pieces) {
            right = right && !Content(name).first_difference(at, piece);
            at += piece.size();
        }
        RC_ASSERT(right);
        RC_ASSERT(at == read.offset + length_of(read));
        RC_ASSERT(reply.pieces.size() == reply.owners.size());
    }

    /// Each error has its reason.
    void check_error(int code, const Read& read) const {
        switch (code) {
            case EIO:
            case ETIMEDOUT:
                RC_ASSERT(failed_);
                break;
            case ESTALE:
                RC_ASSERT(read.object->version != objects_[number_of(read)]->version);
                break;
            case ECANCELED:
                RC_ASSERT(stopped_);
                break;
            case EINVAL:
                RC_ASSERT(length_of(read) > shape_.arena / 2);
                break;
            default:
                RC_FAIL("an error that nobody made: " + std::to_string(code));
        }
    }
    static unsigned number_of(const Read& read) {
        return static_cast<unsigned>(read.object->path.back() - '0');
    }

    void stop() {
        if (stopped_) return;
        stopped_ = true;
        origin_.stop();
        store_->stop(std::chrono::hours(24));
    }

    const Shape shape_;
    ModelOrigin origin_;
    FakeNvme nvme_;
    std::unique_ptr<TieredStore> store_;
    std::weak_ptr<const Arena> arena_;
    unsigned versions_[kObjects] = {};
    std::shared_ptr<const ObjectRef> objects_[kObjects], old_;
    std::uint64_t next_[kObjects] = {};
    std::vector<Read> pending_;
    std::vector<ReadReply> kept_;
    std::set<const Pending*> looked_at_;
    std::uint64_t bytes_ = 0, errors_ = 0, reads_ = 0;
    bool failed_ = false, stopped_ = false;
};

void run_all(const Shape& shape, const model::Commands& commands) {
    StoreModel store(shape);
    for (const auto& command : commands) store.run(command);
    store.finish();
}

constexpr int kLongest = 250;
//                                        read stream ok bad look new hold write drop lie stop
const std::vector<unsigned> kUsual = {8, 8, 14, 1, 10, 1, 1, 2, 1, 1, 0};

TEST(StoreModelTest, GivesRightBytesWithAndWithoutTheNvmeTier) {
    model::check(30, [] {
        const Shape shape{*rc::gen::element(8 * kMiB, 64 * kMiB), *rc::gen::element(0UL, 2 * kMiB, 64 * kMiB),
                          8 * kMiB, *rc::gen::arbitrary<bool>()};
        run_all(shape, *model::commands(kLongest, kUsual));
    });
}

TEST(StoreModelTest, SoWithTinyMemory) {
    model::check(30, [] {
        const Shape shape{*rc::gen::element(4UL * kBlockSize, 9UL * kBlockSize, kMiB),
                          *rc::gen::element(0UL, 2UL * kBlockSize, kMiB), *rc::gen::element(0UL, kMiB),
                          *rc::gen::arbitrary<bool>()};
        run_all(shape, *model::commands(kLongest, kUsual));
    });
}

TEST(StoreModelTest, SoWithFailuresAndNewVersions) {
    model::check(30, [] {
        const Shape shape{*rc::gen::element(kMiB, 16 * kMiB), *rc::gen::element(0UL, kMiB), 4 * kMiB,
                          *rc::gen::arbitrary<bool>()};
        run_all(shape, *model::commands(kLongest, {8, 8, 8, 5, 10, 4, 1, 2, 1, 1, 0}));
    });
}

TEST(StoreModelTest, AnswersAllWhenItStopsInTheMiddle) {
    model::check(30, [] {
        const Shape shape{*rc::gen::element(4UL * kBlockSize, 8 * kMiB), kMiB, 4 * kMiB,
                          *rc::gen::arbitrary<bool>()};
        run_all(shape, *model::commands(kLongest / 2, {8, 8, 6, 1, 4, 1, 1, 2, 1, 1, 1}));
    });
}

}  // namespace store_model_test
}  // namespace tierfs::fake
