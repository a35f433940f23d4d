// Index::open: opens what is there if it is ours and sound, else puts it aside and starts empty.

#include <algorithm>
#include <optional>
#include <system_error>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "tiering/index/format.hpp"
#include "tiering/index/place.hpp"
#include "tiering/index/rocks_index.hpp"
#include "tiering/index/rocks_options.hpp"

namespace tierfs {
namespace {

using namespace index_format;

/// Ids are skipped by this much when the record of the next one is lost: some may have been handed out
/// without leaving a node.
constexpr NodeId kSafetyGap = 1 << 20;

/// An open database, or why there is none.
struct Opened {
    std::unique_ptr<rocksdb::DB> database;
    std::shared_ptr<rocksdb::Cache> cache;
    rocksdb::Status status;
};

Opened open_database(const IndexOptions& options) {
    Opened opened;
    const rocksdb::Options settings = index_options(options.memory, opened.cache);
    rocksdb::DB* database = nullptr;
    if (const int code = TIERFS_FAULT("index.open"); code != 0) {
        const auto text = system_error(code, "injected").message;
        opened.status = code == ENOSPC ? rocksdb::Status::NoSpace(text) : rocksdb::Status::IOError(text);
        return opened;
    }
    opened.status = rocksdb::DB::Open(settings, options.directory.string(), &database);
    opened.database.reset(database);
    return opened;
}

bool locked_by_another(const rocksdb::Status& status) {
    if (!status.IsIOError()) return false;
    const std::string text = status.ToString();
    return text.find("While lock file") != std::string::npos ||
           text.find("lock hold by") != std::string::npos;
}

Error in_use(const IndexOptions& options) {
    return Error{EBUSY, "index " + options.directory.string() +
                            ": in use by another tierfs; unmount that one or set index.path"};
}

rocksdb::Status get(rocksdb::DB& database, std::string_view key, std::string& value) {
    return database.Get(rocksdb::ReadOptions(), slice(key), &value);
}

/// The highest node id that has a record; 0: none; nothing when that cannot be read.
std::optional<NodeId> last_node(rocksdb::DB& database) {
    rocksdb::ReadOptions options;
    options.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> it(database.NewIterator(options));
    it->SeekForPrev(number_key(kNodes, ~NodeId{0}));
    if (!it->status().ok()) return std::nullopt;
    if (!it->Valid()) return NodeId{0};
    return parse_number_key(kNodes, {it->key().data(), it->key().size()}).value_or(0);
}

NodeId first_free_node(rocksdb::DB& database, NodeId last, const std::filesystem::path& directory) {
    std::string value;
    const rocksdb::Status status = get(database, kNextNodeKey, value);
    if (status.IsNotFound() && last == 0) return kFirstNode;
    const auto next = status.ok() ? decode_next_node(value) : std::nullopt;
    if (next && *next > last) return *next;
    log::warning("index " + directory.string() + ": the next node id is lost, goes on after the last node");
    return std::max(last, kFirstNode) + kSafetyGap;
}

std::string identity_of(const IndexOptions& options) {
    return options.source + options.names;
}

/// The use of a database that opened.
struct Standing {
    std::string unusable = {};   ///< why it is not one of ours; empty: it is, or it is empty
    bool is_new = false;         ///< it is empty
    bool other_names = false;    ///< only its locations can be used
    bool is_introduced = false;  ///< it says itself whose it is, and need not be told
};

Standing standing_of(rocksdb::DB& database, const IndexOptions& options) {
    std::error_code problem;
    if (std::filesystem::exists(options.directory / kDamagedMark, problem))
        return {"blocks did not verify when it was last in use"};
    std::string layout, identity, source;
    const rocksdb::Status layout_status = get(database, kLayoutKey, layout);
    const rocksdb::Status identity_status = get(database, kIdentityKey, identity);
    if (layout_status.IsNotFound() && identity_status.IsNotFound()) {
        rocksdb::ReadOptions read;
        read.total_order_seek = true;
        const std::unique_ptr<rocksdb::Iterator> it(database.NewIterator(read));
        it->SeekToFirst();
        if (it->Valid() || !it->status().ok()) return {"it has records but no layout version"};
        return {.is_new = true};
    }
    if (!layout_status.ok() || decode_layout(layout) != kLayout) return {"its layout is of another version"};
    if (!identity_status.ok()) return {"its source cannot be read"};
    const bool knows_source = get(database, kSourceKey, source).ok();  // not one of before the key
    const bool is_of_source = knows_source && source == options.source;
    if (identity == identity_of(options) && (is_of_source || !knows_source))
        return {.is_introduced = is_of_source};
    if (!is_of_source) return {"it is of another source"};
    return {.other_names = true};
}

/// All that is known of names, in one range for each kind of record.
void forget_names(rocksdb::WriteBatch& batch) {
    for (const char kind : {kNames, kNodes, kListings}) {
        const std::string begin(1, kind), end(1, static_cast<char>(kind + 1));
        batch.DeleteRange(begin, end);
    }
}

/// Says what the index is of; it reaches the disk with all that it needs, or not at all.
Result<void> introduce(rocksdb::DB& database, const IndexOptions& options, const Standing& standing,
                       NodeId next) {
    rocksdb::WriteBatch batch;
    if (standing.other_names) {
        forget_names(batch);
        // The record may be lost; nodes, which tell what was handed out, go.
        batch.Put(slice(kNextNodeKey), encode_next_node(next));
    }
    batch.Put(slice(kLayoutKey), encode_layout(kLayout));
    batch.Put(slice(kIdentityKey), identity_of(options));
    batch.Put(slice(kSourceKey), options.source);
    const int code = TIERFS_FAULT("index.introduce");
    const rocksdb::Status status = code != 0
                                       ? rocksdb::Status::IOError(system_error(code, "injected").message)
                                       : database.Write(rocksdb::WriteOptions(), &batch);
    if (status.ok()) return {};
    return fail(EIO, "index " + options.directory.string() + ": " + status.ToString());
}

}  // namespace

Result<std::unique_ptr<Index>> Index::open(const IndexOptions& asked) {
    IndexOptions options = asked;
    std::error_code problem;
    const auto absolute = std::filesystem::absolute(asked.directory, problem).lexically_normal();
    if (problem || asked.directory.empty()) return fail(EINVAL, "index: no directory is given");
    options.directory = absolute.has_filename() ? absolute : absolute.parent_path();

    for (const bool first : {true, false}) {
        if (auto made = make_private_directory(options.directory); !made) return fail(made.error());
        Opened opened = open_database(options);
        if (locked_by_another(opened.status)) return fail(in_use(options));
        // A full disk says nothing about what is on it: the index is kept for when there is room again.
        if (opened.status.IsNoSpace()) {
            return fail(ENOSPC, "index " + options.directory.string() + ": " + opened.status.ToString());
        }
        const Standing standing =
            opened.database ? standing_of(*opened.database, options) : Standing{opened.status.ToString()};
        std::string reason = standing.unusable;
        const auto last = reason.empty() ? last_node(*opened.database) : std::nullopt;
        if (reason.empty() && !last) reason = "its last node cannot be read";
        if (reason.empty()) {
            const NodeId next = first_free_node(*opened.database, *last, options.directory);
            if (!standing.is_introduced) {
                auto done = introduce(*opened.database, options, standing, next);
                if (!done) return fail(done.error());
            }
            if (standing.other_names)
                log::info("index " + options.directory.string() +
                          ": names that were known under other settings are asked for again");
            return std::make_unique<RocksIndex>(options, std::move(opened.database), std::move(opened.cache),
                                                standing.is_new, next);
        }
        if (!first) return fail(EIO, "index " + options.directory.string() + ": " + reason);
        opened.database.reset();
        const auto aside = put_aside(options.directory);
        if (!aside) return fail(aside.error());
        log::warning("index " + options.directory.string() + ": " + reason + "; put aside as " +
                     aside->string() + " and rebuilt");
    }
    return fail(EIO, "index " + options.directory.string() + ": cannot be opened");
}

}  // namespace tierfs
