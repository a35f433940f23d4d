// The index against maps, over clean ends, kills, and a write-ahead log that lost its end.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/unit/model.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {
namespace index_model_test {

namespace fs = std::filesystem;

/// Everything that an index is asked for here, as values that can be compared.
struct Contents {
    std::map<std::pair<NodeId, std::string>, NodeId> names;
    std::map<NodeId, std::string> nodes;  ///< what the record says, as text
    std::map<NodeId, std::uint64_t> listings;
    std::map<ContentId, std::string> locations;
    friend bool operator==(const Contents&, const Contents&) = default;
};

std::string name_of(unsigned number) {
    static const std::string kNames[] = {
        "a", "a\xff", "a.b", "B", std::string("a\0", 2), "long" + std::string(250, 'x')};
    return kNames[number % std::size(kNames)];
}

std::string text_of(const NodeRecord& record) {
    return std::to_string(record.parent) + "/" + record.name + " " + record.attributes.version + " " +
           std::to_string(record.attributes.size) + " " + std::to_string(record.content.low) + " " +
           std::to_string(record.checked_ns);
}

class IndexModel {
  public:
    IndexModel() {
        std::string path = (fs::temp_directory_path() / "tierfs-index-model-XXXXXX").string();
        RC_ASSERT(::mkdtemp(path.data()) != nullptr);
        root_ = path;
        directory_ = root_ / "index0";
        open();
        RC_ASSERT(index_->is_new());
    }
    ~IndexModel() {
        index_.reset();
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    void run(const model::Command& command) {
        switch (command.kind) {
            case 0:
            case 1:
                change(command);
                break;
            case 2:
                commit();
                break;
            case 3:
                allocate();
                break;
            case 4:
                batch_.reset();
                pending_ = committed_.back();
                index_.reset();
                open();
                break;
            case 5:
                kill();
                break;
            default:
                cut(command);
        }
    }
    void finish() {
        commit();
        compare(committed_.back());
        list();
    }

  private:
    void open() {
        auto opened = Index::open({.directory = directory_, .memory = 4 << 20, .source = "dir:/x"});
        RC_ASSERT(opened.has_value());
        index_ = std::move(*opened);
        if (is_open_before_) RC_ASSERT(!index_->is_new());
        is_open_before_ = true;
        committed_ = {committed_.back()};
        compare(committed_.back());
    }

    void change(const model::Command& command) {
        if (!batch_) batch_ = index_->batch();
        const bool erase = command.c % 4 == 0;
        const NodeId parent = 1 + command.a % 3, node = kFirstNode + command.b % 5;
        const std::string name = name_of(command.b);
        switch (command.a / 3 % 4) {
            case 0:
                erase ? batch_->erase_name(parent, name)
                      : batch_->put_name(parent, name, {node, ObjectKind::file});
                if (erase) pending_.names.erase({parent, name});
                if (!erase) pending_.names[{parent, name}] = node;
                break;
            case 1: {
                NodeRecord record;
                record.parent = parent;
                record.name = name;
                record.attributes.version = "v" + std::to_string(command.c);
                record.attributes.size = std::uint64_t{command.c} << 20U;
                record.content = {command.a, command.b};
                record.checked_ns = -1 + static_cast<std::int64_t>(command.c);
                erase ? batch_->erase_node(node) : batch_->put_node(node, record);
                if (erase) pending_.nodes.erase(node);
                if (!erase) pending_.nodes[node] = text_of(record);
                break;
            }
            case 2:
                erase ? batch_->erase_listing(node) : batch_->put_listing(node, {1, command.c, {}});
                if (erase) pending_.listings.erase(node);
                if (!erase) pending_.listings[node] = command.c;
                break;
            default: {
                const ContentId id{command.a % 2, command.b % 5};
                const std::string location(command.c % 700, static_cast<char>(command.c));
                erase ? batch_->erase_location(id) : batch_->put_location(id, location);
                if (erase) pending_.locations.erase(id);
                if (!erase) pending_.locations[id] = location;
            }
        }
        compare_one(command);  // what is not committed is not seen
    }

    void commit() {
        if (!batch_) return;
        RC_ASSERT(index_->commit(std::move(batch_)).has_value());
        batch_.reset();
        committed_.push_back(pending_);
        compare(pending_);
    }

    void allocate() {
        const auto node = index_->allocate_node();
        RC_ASSERT(node.has_value());
        RC_ASSERT(*node >= kFirstNode);
        RC_ASSERT(allocated_.insert(*node).second);
    }

    /// The process dies: what the kernel has of the files is all that is left, and what was gathered is lost.
    void kill() {
        const fs::path copy = copy_as_it_is();
        replace(copy);
        open();
    }

    /// The machine dies: the end of the log may never have reached the disk. What is left is what some commit
    /// left behind, never half of one.
    void cut(const model::Command& command) {
        const fs::path copy = copy_as_it_is();
        fs::path log;
        for (const auto& entry : fs::directory_iterator(copy)) {
            if (entry.path().extension() == ".log" && entry.path() > log) log = entry.path();
        }
        RC_ASSERT(!log.empty());
        const auto size = fs::file_size(log);
        // Mostly in what the last commits wrote.
        const std::uint64_t from = command.a % 4 == 0 ? 0 : size - std::min<std::uintmax_t>(size, 2000);
        fs::resize_file(log, from + (std::uint64_t{command.b} * 65536 + command.c) % (size - from + 1));
        replace(copy);
        auto opened = Index::open({.directory = directory_, .memory = 4 << 20, .source = "dir:/x"});
        RC_ASSERT(opened.has_value());
        index_ = std::move(*opened);
        const Contents found = read();
        const auto match = std::find(committed_.rbegin(), committed_.rend(), found);
        RC_ASSERT(match != committed_.rend());
        committed_ = {found};
        pending_ = found;
        allocated_.clear();  // the record of the last one may be cut away too
    }

    /// The files as they are at one moment: a copy during which RocksDB made or dropped some is made again.
    fs::path copy_as_it_is() {
        const auto state = [&] {
            std::map<std::string, std::uintmax_t> sizes;
            std::error_code gone;
            for (const auto& entry : fs::directory_iterator(directory_))
                sizes[entry.path().filename()] = entry.file_size(gone);
            return sizes;
        };
        for (;;) {
            const fs::path copy = root_ / ("index" + std::to_string(++copies_));
            const auto before = state();
            std::error_code problem;
            fs::copy(directory_, copy, fs::copy_options::recursive, problem);
            if (!problem && state() == before) return copy;
            fs::remove_all(copy);
        }
    }

    void replace(const fs::path& copy) {
        batch_.reset();
        index_.reset();
        fs::remove_all(directory_);
        directory_ = copy;
        pending_ = committed_.back();
    }

    Contents read() const {
        Contents found;
        for (unsigned i = 0; i < 6; ++i) {
            for (NodeId parent = 1; parent <= 3; ++parent) {
                const auto name = index_->find_name(parent, name_of(i));
                RC_ASSERT(name.has_value());
                if (*name) found.names[{parent, name_of(i)}] = (*name)->node;
            }
        }
        for (NodeId node = kFirstNode; node < kFirstNode + 5; ++node) {
            const auto record = index_->find_node(node);
            RC_ASSERT(record.has_value());
            if (*record) found.nodes[node] = text_of(**record);
            const auto listing = index_->find_listing(node);
            RC_ASSERT(listing.has_value());
            if (*listing) found.listings[node] = (*listing)->entries;
        }
        for (std::uint64_t i = 0; i < 10; ++i) {
            const ContentId id{i % 2, i / 2};
            const auto location = index_->find_location(id);
            RC_ASSERT(location.has_value());
            if (*location) found.locations[id] = **location;
        }
        return found;
    }
    void compare(const Contents& expected) const { RC_ASSERT(read() == expected); }
    void compare_one(const model::Command& command) const {
        const NodeId parent = 1 + command.a % 3;
        const auto name = index_->find_name(parent, name_of(command.b));
        RC_ASSERT(name.has_value());
        const auto known = committed_.back().names.find({parent, name_of(command.b)});
        RC_ASSERT(name->has_value() == (known != committed_.back().names.end()));
        if (*name) RC_ASSERT((*name)->node == known->second);
    }
    /// The scans find what the single questions find, in order.
    void list() const {
        for (NodeId parent = 1; parent <= 3; ++parent) {
            for (const std::string& after : {std::string(), name_of(0), name_of(2)}) {
                std::vector<std::pair<std::string, NodeId>> found, expected;
                const auto done = index_->for_each_name(
                    parent, after, [&](std::string_view name, const NameRecord& record) {
                        found.emplace_back(std::string(name), record.node);
                        return true;
                    });
                RC_ASSERT(done.has_value());
                for (const auto& [key, node] : committed_.back().names) {
                    if (key.first == parent && key.second > after) expected.emplace_back(key.second, node);
                }
                RC_ASSERT(found == expected);
            }
        }
        std::map<ContentId, std::string> locations;
        RC_ASSERT(index_
                      ->for_each_location([&](const ContentId& id, std::string_view text) {
                          return locations.emplace(id, std::string(text)).second;
                      })
                      .has_value());
        RC_ASSERT(locations == committed_.back().locations);
    }

    fs::path root_, directory_;
    std::unique_ptr<Index> index_;
    std::unique_ptr<IndexBatch> batch_;
    bool is_open_before_ = false;
    unsigned copies_ = 0;
    std::vector<Contents> committed_{Contents()};  ///< after each commit since the index was opened
    Contents pending_;                             ///< with what `batch_` holds
    std::set<NodeId> allocated_;
};

TEST(IndexModelTest, KeepsWhatWasCommittedAndBatchesWhole) {
    model::check_commands(8, 120, {10, 10, 8, 2, 1, 1, 1}, [](const model::Commands& commands) {
        IndexModel index;
        for (const auto& command : commands) index.run(command);
        index.finish();
    });
}

}  // namespace index_model_test
}  // namespace tierfs
