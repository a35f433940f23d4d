#include "tiering/index/rocks_index.hpp"

#include <rocksdb/convenience.h>

#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "tiering/index/format.hpp"
#include "tiering/index/place.hpp"

#if defined(__SANITIZE_THREAD__)
#define TIERFS_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIERFS_UNDER_TSAN 1
#endif
#endif

namespace tierfs {
namespace {

using namespace index_format;

constexpr NodeId kReservedRun = 4096;

std::string_view view(const rocksdb::Slice& text) {
    return {text.data(), text.size()};
}

bool cache_is_full(const rocksdb::Status& status) {
    return status.IsMemoryLimit() || status.IsIncomplete();
}

/// What a fault point makes of an errno: EBADMSG is a block that does not verify.
[[maybe_unused]] rocksdb::Status injected(int code) {
    if (code == EBADMSG) return rocksdb::Status::Corruption("block checksum mismatch");
    const auto text = system_error(code, "injected").message;
    return code == ENOSPC ? rocksdb::Status::NoSpace(text) : rocksdb::Status::IOError(text);
}

std::string after_kind(char kind) {
    return std::string(1, static_cast<char>(kind + 1));
}

}  // namespace

void RocksBatch::put_name(NodeId parent, std::string_view name, const NameRecord& record) {
    batch_.Put(name_key(parent, name), encode(record));
}
void RocksBatch::erase_name(NodeId parent, std::string_view name) {
    batch_.Delete(name_key(parent, name));
}
void RocksBatch::put_node(NodeId node, const NodeRecord& record) {
    batch_.Put(number_key(kNodes, node), encode(record));
}
void RocksBatch::erase_node(NodeId node) {
    batch_.Delete(number_key(kNodes, node));
}
void RocksBatch::put_listing(NodeId directory, const ListingRecord& record) {
    batch_.Put(number_key(kListings, directory), encode(record));
}
void RocksBatch::erase_listing(NodeId directory) {
    batch_.Delete(number_key(kListings, directory));
}
void RocksBatch::put_location(const ContentId& id, std::string_view location) {
    batch_.Put(location_key(id), slice(location));
}
void RocksBatch::erase_location(const ContentId& id) {
    batch_.Delete(location_key(id));
}

RocksIndex::RocksIndex(const IndexOptions& options, std::unique_ptr<rocksdb::DB> database,
                       std::shared_ptr<rocksdb::Cache> cache, bool is_new, NodeId next)
    : directory_(options.directory),
      database_(std::move(database)),
      cache_(std::move(cache)),
      is_new_(is_new),
      next_(next),
      reserved_(next) {}

RocksIndex::~RocksIndex() {
    rocksdb::CancelAllBackgroundWork(database_.get(), true);
}

Error RocksIndex::failed(const rocksdb::Status& status, std::string_view doing) const {
    return Error{EIO, "index " + directory_.string() + ": " + std::string(doing) + ": " + status.ToString()};
}

void RocksIndex::count_garbled(std::string_view what) {
    listings_doubtful_ = true;
    const auto count = ++garbled_;
    log::warning("index " + directory_.string() + ": a garbled record of a " + std::string(what) +
                 " is taken as absent (" + std::to_string(count) + " so far)");
}

void RocksIndex::found_damage(const rocksdb::Status& status) {
    listings_doubtful_ = true;
    if (damaged_.exchange(true)) return;
    log::error("index " + directory_.string() + ": " + status.ToString() +
               "; what is lost is asked of the origin again, the index is rebuilt at the next mount");
    mark_damaged(directory_);
}

template <typename T, typename Decode>
Result<std::optional<T>> RocksIndex::find(const std::string& key, std::string_view what, Decode decode) {
    rocksdb::PinnableSlice value;
    rocksdb::ReadOptions options;
    auto* family = database_->DefaultColumnFamily();
    rocksdb::Status status = database_->Get(options, family, key, &value);
    if (const int code = TIERFS_FAULT("index.get"); code != 0) status = injected(code);
    if (cache_is_full(status)) {
        value.Reset();
        options.fill_cache = false;
        status = database_->Get(options, family, key, &value);
    }
    if (status.IsNotFound()) return std::optional<T>();
    if (status.IsCorruption()) {
        found_damage(status);
        return std::optional<T>();
    }
    if (!status.ok()) return fail(failed(status, "reading a " + std::string(what)));
    std::optional<T> record = decode(view(value));
    if (!record) count_garbled(what);
    return record;
}

Result<std::optional<NameRecord>> RocksIndex::find_name(NodeId parent, std::string_view name) {
    return find<NameRecord>(name_key(parent, name), "name", decode_name);
}

Result<std::optional<NodeRecord>> RocksIndex::find_node(NodeId node) {
    return find<NodeRecord>(number_key(kNodes, node), "node", decode_node);
}

std::size_t RocksIndex::pass_over(std::span<const NodeId> nodes,
                                  const std::function<void(NodeId, NodeRecord)>& each) {
    constexpr int kStepsForASeek = 8;  // so many cost less than one
    const std::string end = after_kind(kNodes);
    const rocksdb::Slice upper = slice(end);
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &upper;
    options.total_order_seek = true;  // each node is a prefix of its own
    const std::unique_ptr<rocksdb::Iterator> it(database_->NewIterator(options));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::string key = number_key(kNodes, nodes[i]);
        for (int step = 0; it->Valid() && it->key().compare(key) < 0 && step < kStepsForASeek; ++step)
            it->Next();
        if (!it->Valid() || it->key().compare(key) < 0) it->Seek(key);
        if (!it->status().ok() || TIERFS_FAULT("index.pass") != 0) return i;
        if (!it->Valid() || it->key() != rocksdb::Slice(key)) continue;
        if (auto record = decode_node(view(it->value()))) {
            each(nodes[i], std::move(*record));
        } else {
            count_garbled("node");
        }
    }
    return nodes.size();
}

Result<void> RocksIndex::find_nodes(std::span<const NodeId> nodes,
                                    const std::function<void(NodeId, NodeRecord)>& each) {
    // What the pass stumbled over, find_node tells from damage, a full cache and a failing disk.
    for (const NodeId node : nodes.subspan(pass_over(nodes, each))) {
        auto record = find_node(node);
        if (!record) return fail(std::move(record.error()));
        if (*record) each(node, std::move(**record));
    }
    return {};
}

Result<std::optional<ListingRecord>> RocksIndex::find_listing(NodeId directory) {
    if (listings_doubtful_) return std::optional<ListingRecord>();
    return find<ListingRecord>(number_key(kListings, directory), "listing", decode_listing);
}

Result<std::optional<std::string>> RocksIndex::find_location(const ContentId& id) {
    return find<std::string>(location_key(id), "location",
                             [](std::string_view value) { return std::optional<std::string>(value); });
}

Result<void> RocksIndex::scan(std::string from, const std::string& end, bool one_prefix,
                              const std::function<bool(std::string_view, std::string_view)>& each) {
    const rocksdb::Slice upper = slice(end);
    for (bool fill_cache : {true, false}) {
        rocksdb::ReadOptions options;
        options.iterate_upper_bound = &upper;
        options.fill_cache = fill_cache;
        options.prefix_same_as_start = one_prefix;
        options.total_order_seek = !one_prefix;
        const std::unique_ptr<rocksdb::Iterator> it(database_->NewIterator(options));
        for (it->Seek(from); it->Valid(); it->Next()) {
            from.assign(it->key().data(), it->key().size());
            from += '\0';
            if (!each(view(it->key()), view(it->value()))) return {};
        }
        if (const int code = TIERFS_FAULT("index.scan"); code != 0)
            return fail(failed(injected(code), "reading records"));
        if (it->status().ok()) return {};
        if (it->status().IsCorruption()) found_damage(it->status());
        if (!cache_is_full(it->status()) || !fill_cache) return fail(failed(it->status(), "reading records"));
    }
    return {};
}

Result<void> RocksIndex::for_each_name(NodeId parent, std::string_view after,
                                       const std::function<bool(std::string_view, const NameRecord&)>& each) {
    std::string from = name_key(parent, after);
    if (!after.empty()) from += '\0';
    const std::string end = parent == ~NodeId{0} ? after_kind(kNames) : number_key(kNames, parent + 1);
    return scan(std::move(from), end, true, [&](std::string_view key, std::string_view value) {
        const auto record = decode_name(value);
        if (!record) count_garbled("name");
        return !record || each(key.substr(kPrefixBytes), *record);
    });
}

Result<void> RocksIndex::for_each_location(
    const std::function<bool(const ContentId&, std::string_view)>& each) {
    return scan(std::string(1, kLocations), after_kind(kLocations), false,
                [&](std::string_view key, std::string_view value) {
                    const auto id = parse_location_key(key);
                    if (!id) count_garbled("location");
                    return !id || each(*id, value);
                });
}

Result<void> RocksIndex::for_each_listing(const std::function<bool(NodeId, const ListingRecord&)>& each) {
    return scan(std::string(1, kListings), after_kind(kListings), false,
                [&](std::string_view key, std::string_view value) {
                    const auto directory = parse_number_key(kListings, key);
                    const auto record = decode_listing(value);
                    if (!directory || !record) count_garbled("listing");
                    return !directory || !record || each(*directory, *record);
                });
}

std::unique_ptr<IndexBatch> RocksIndex::batch() {
    return std::make_unique<RocksBatch>();
}

Result<void> RocksIndex::commit(std::unique_ptr<IndexBatch> batch) {
    // Only batch() makes batches, so the type is known.
    auto& writes = static_cast<RocksBatch&>(*batch).writes();
    if (writes.Count() == 0) return {};
    const rocksdb::Status status = write(writes);
    if (!status.ok()) return fail(failed(status, "writing"));
    return {};
}

rocksdb::Status RocksIndex::write(rocksdb::WriteBatch& writes) {
    if (const int code = TIERFS_FAULT("index.put"); code != 0) return injected(code);
#ifdef TIERFS_UNDER_TSAN
    // One writer may write the batches of others. How they hand them over cannot be seen by ThreadSanitizer
    // in a library that was built without it, so that there it is one at a time.
    const MutexLock lock(one_writer_);
#endif
    return database_->Write(rocksdb::WriteOptions(), &writes);
}

Result<NodeId> RocksIndex::allocate_node() {
    MutexLock lock(mutex_);
    while (next_ == reserved_) {
        if (reserving_) {
            lock.wait(reserved_more_);
            continue;
        }
        reserving_ = true;
        const NodeId end = reserved_ + kReservedRun;
        lock.unlock();
        rocksdb::WriteBatch batch;
        batch.Put(slice(kNextNodeKey), encode_next_node(end));
        const rocksdb::Status status = write(batch);
        lock.lock();
        reserving_ = false;
        if (status.ok()) reserved_ = end;
        reserved_more_.notify_all();
        if (!status.ok()) return fail(failed(status, "reserving node ids"));
    }
    return next_++;
}

std::uint64_t RocksIndex::memory_bytes() const {
    std::uint64_t total = cache_->GetUsage();
    for (const char* property : {"rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem"}) {
        std::uint64_t bytes = 0;
        if (database_->GetIntProperty(property, &bytes)) total += bytes;
    }
    return total;
}

}  // namespace tierfs
