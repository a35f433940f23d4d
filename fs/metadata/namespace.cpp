#include "fs/metadata/namespace.hpp"

#include <algorithm>
#include <utility>

#include "config/base/worker_pool.hpp"
#include "fs/metadata/asker.hpp"
#include "fs/metadata/collector.hpp"
#include "fs/metadata/directory_reader.hpp"
#include "fs/metadata/lister.hpp"
#include "fs/metadata/node_table.hpp"
#include "fs/metadata/open_namespace.hpp"
#include "fs/metadata/outage.hpp"
#include "fs/metadata/turns.hpp"
#include "fs/metadata/validity.hpp"

namespace tierfs {
namespace {

/// Targets of symbolic links are kept in at most this many bytes. A node is one version of a link, so its
/// target does not change.
constexpr std::uint64_t kLinkBytes = 1 << 20;

Error unknown_node(NodeId node) {
    return Error{ESTALE, "node " + std::to_string(node) + ": not known"};
}

bool cannot_exist(const std::string& name) {
    return name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
           name.find('\0') != std::string::npos;
}

/// Only puts the parts together; each part says what it does.
class NamespaceOfOrigin final : public Namespace {
  public:
    NamespaceOfOrigin(const NamespaceOptions& options, Index& index, Origin& origin, InvalidationSink& sink,
                      NodeId session)
        : origin_(origin),
          freshness_(options.ttl, options.serves_stale, options.now),
          patience_(options.origin_deadline, options.waiting_clock),
          table_(index, options.memory, origin.identity(), sink, options.rules),
          merger_(table_, freshness_, hidden_, session),
          validity_(table_, freshness_, options.rules),
          outage_(origin, workers_),
          asker_(table_, merger_, freshness_, validity_, origin, workers_, patience_, turns_, sink, outage_),
          lister_(table_, merger_, freshness_, validity_, hidden_, origin, workers_, patience_, turns_,
                  [this](NodeId directory) { asker_.distrust(directory); }),
          reader_(table_, freshness_, validity_, asker_, lister_, outage_),
          collector_(index, hidden_, workers_, session),
          links_(kLinkBytes),
          access_lists_(kLinkBytes),
          workers_(options.workers, options.most_workers) {
        asker_.set_lister(lister_);
    }
    ~NamespaceOfOrigin() override { workers_.stop(); }

    Result<void> start() {
        auto summed = table_.index().for_each_listing([this](NodeId, const ListingRecord& listing) {
            hidden_.add(listing.hidden);
            return true;
        });
        if (summed) collector_.start();
        return summed;
    }

    void lookup(NodeId parent, std::string name, std::function<void(Result<NodeView>)> done) override {
        if (name.size() > kLongestName) return done(fail(ENAMETOOLONG, "a name has more than 255 bytes"));
        if (cannot_exist(name)) return done(fail(ENOENT, "no file can have that name"));
        if (auto problem = no_directory(parent)) return done(fail(std::move(*problem)));
        if (auto answer = asker_.known(parent, name)) return done(std::move(*answer));
        asker_.ask(parent, name, std::move(done));
    }

    void attributes(NodeId node, std::function<void(Result<NodeView>)> done) override {
        const auto record = table_.node(node);
        if (!record) return done(fail(record.error()));
        if (!*record) return done(fail(unknown_node(node)));
        const auto current = table_.is_current(node, **record);
        if (!current) return done(fail(current.error()));
        // Its name leads elsewhere or nowhere by now: who has it open goes on with what it was.
        const NodeView old{node, (*record)->inode, (*record)->attributes, std::chrono::milliseconds(0)};
        if (!*current) return done(old);
        if (auto answer = asker_.known((*record)->parent, (*record)->name); answer && is_of(*answer, node)) {
            return done(std::move(*answer));
        }
        asker_.ask((*record)->parent, (*record)->name, [old, done = std::move(done)](const auto& answer) {
            const bool has_changed = answer ? answer->node != old.node : answer.error().code == ENOENT;
            done(has_changed && old.node != kRootNode ? Result<NodeView>(old) : answer);
        });
    }

    void read_directory(NodeId directory, std::uint64_t after, std::size_t limit,
                        std::function<void(Result<std::vector<DirectoryItem>>)> done) override {
        if (auto problem = no_directory(directory)) return done(fail(std::move(*problem)));
        reader_.read(directory, after, limit, std::move(done));
    }

    void read_ahead(NodeId directory, std::uint64_t after, std::size_t limit) override {
        reader_.read_ahead(directory, after, limit);
    }

    void read_link(NodeId node, std::function<void(Result<std::string>)> done) override {
        const auto record = table_.node(node);
        if (!record) return done(fail(record.error()));
        if (!*record) return done(fail(unknown_node(node)));
        if ((*record)->attributes.kind != ObjectKind::symlink) {
            return done(fail(EINVAL, "node " + std::to_string(node) + ": is no symbolic link"));
        }
        if (auto target = links_.get(node)) return done(std::move(*target));
        if (!link_flights_.board(node, std::move(done))) return;
        workers_.post([this, node, asked = patience_.now()](bool canceled) {
            link_flights_.land(node, canceled
                                         ? Result<std::string>(fail(ECANCELED, "the mount is being stopped"))
                                         : ask_link(node, asked));
        });
    }

    void statistics(std::function<void(const Result<struct statvfs>&)> done) override {
        if (!origin_.has_statistics()) return done(fail(EOPNOTSUPP, "the source has no measure"));
        if (outage_.is_on()) return done(fail(Patience::error()));
        if (!statistics_flights_.board(0, std::move(done))) return;
        workers_.post([this, asked = patience_.now()](bool canceled) {
            using Answer = Result<struct statvfs>;
            statistics_flights_.land(0, canceled ? Answer(fail(ECANCELED, "the mount is being stopped"))
                                        : patience_.is_over(asked) ? Answer(fail(Patience::error()))
                                                                   : origin_.statistics());
        });
    }

    void xattr(NodeId node, std::string name, std::function<void(const Result<std::string>&)> done) override {
        ask_of_path<std::string>(
            node, std::move(done),
            [this, name = std::move(name)](const std::string& path) { return origin_.xattr(path, name); });
    }

    void xattr_names(NodeId node,
                     std::function<void(const Result<std::vector<std::string>>&)> done) override {
        ask_of_path<std::vector<std::string>>(
            node, std::move(done), [this](const std::string& path) { return origin_.xattr_names(path); });
    }

    // A list is one of a version, which has the time of the inode's last change in it, as a directory's attributes
    // have: it is known for as long as these stay. One that came with another version is none of this node's.
    void access_list(NodeId node, std::function<void(const Result<std::string>&)> done) override {
        const auto record = table_.node(node);
        if (!record) return done(fail(record.error()));
        if (!*record) return done(fail(unknown_node(node)));
        const auto& attributes = (*record)->attributes;
        if (attributes.acl == 0) return done(fail(ENODATA, "no access control list"));
        const auto known = access_lists_.get(node);
        if (known && known->ctime_ns == attributes.ctime_ns) return done(known->list);
        ask_of_path<std::string>(
            node, std::move(done),
            [this, node, ctime_ns = attributes.ctime_ns](const std::string& path) -> Result<std::string> {
                auto list = origin_.xattr(path, "system.posix_acl_access");
                if (!list && list.error().code != ENODATA) return list;
                const auto now = origin_.stat(path);
                if (!now) return fail(now.error());
                if (!list || now->ctime_ns != ctime_ns) {
                    asker_.distrust(node);
                    return fail(ESTALE, "'" + path + "' has changed");
                }
                access_lists_.put(node, {ctime_ns, *list}, list->size());
                return list;
            });
    }

    [[nodiscard]] std::string path_of(NodeId node, const std::string& name) override {
        const auto path = table_.path(node);
        if (!path) return name;
        return path->empty() ? name : name.empty() ? *path : *path + "/" + name;
    }

    Result<std::shared_ptr<const ObjectRef>> object(NodeId node) override { return table_.object(node); }

    void version_gone(NodeId node) override { asker_.distrust(node); }

    void renewed(const std::string& directory, const std::vector<Renewed>& names) override {
        if (const auto node = table_.node_of(directory)) asker_.renew(*node, names);
    }

    [[nodiscard]] bool keeps_listing(NodeId directory) override { return validity_.keeps_listing(directory); }

    [[nodiscard]] std::chrono::milliseconds negative_ttl() const override {
        return freshness_.negative_ttl();
    }

    [[nodiscard]] std::chrono::milliseconds absent_for(NodeId parent, const std::string& name) override {
        return asker_.absent_for(parent, name);
    }

    [[nodiscard]] NamespaceStats stats() const override {
        return {table_.known_nodes(), table_.files_by_rule(), hidden_.get()};
    }

    [[nodiscard]] FileSizes file_sizes() const override { return table_.sizes().get(); }

    void stop() override { workers_.stop(); }

  private:
    static bool is_of(const Result<NodeView>& answer, NodeId node) { return answer && answer->node == node; }

    std::optional<Error> no_directory(NodeId node) {
        const auto record = table_.node(node);
        if (!record) return record.error();
        if (!*record) return unknown_node(node);
        if ((*record)->attributes.kind == ObjectKind::directory) return std::nullopt;
        return Error{ENOTDIR, "node " + std::to_string(node) + ": is no directory"};
    }

    /// Asks what nothing is kept of, on a worker.
    template <typename T, typename Question>
    void ask_of_path(NodeId node, std::function<void(const Result<T>&)> done, Question question) {
        if (!origin_.has_xattrs()) return done(fail(EOPNOTSUPP, "the source has no extended attributes"));
        if (outage_.is_on()) return done(fail(Patience::error()));
        workers_.post([this, node, done = std::move(done), question = std::move(question),
                       asked = patience_.now()](bool canceled) {
            if (canceled) return done(fail(ECANCELED, "the mount is being stopped"));
            if (patience_.is_over(asked)) return done(fail(Patience::error()));
            const auto path = table_.path(node);
            if (!path) return done(fail(path.error()));
            done(question(*path));
        });
    }

    Result<std::string> ask_link(NodeId node, std::int64_t asked) {
        if (patience_.is_over(asked)) return fail(Patience::error());
        const auto path = table_.path(node);
        if (!path) return fail(path.error());
        auto target = origin_.read_link(*path);
        if (target) links_.put(node, *target, target->size());
        return target;
    }

    Origin& origin_;
    const Freshness freshness_;
    const Patience patience_;
    HiddenTotals hidden_;
    mutable NodeTable table_;
    Turns turns_;
    Merger merger_;
    Validity validity_;
    Outage outage_;
    Asker asker_;
    Lister lister_;
    DirectoryReader reader_;
    Collector collector_;
    ShardedLru<NodeId, std::string> links_;
    Flights<NodeId, Result<std::string>> link_flights_;
    Flights<int, Result<struct statvfs>> statistics_flights_;
    struct AccessList {
        std::int64_t ctime_ns = 0;
        std::string list;
    };
    ShardedLru<NodeId, AccessList> access_lists_;
    WorkerPool workers_;  ///< last: its threads use all of the above
};

}  // namespace

Result<std::unique_ptr<Namespace>> open_namespace(const NamespaceOptions& options, Index& index,
                                                  Origin& origin, InvalidationSink& sink) {
    NamespaceOptions filled = options;
    if (!filled.now) {
        filled.now = [] {
            return std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                .count();
        };
    }
    if (!filled.waiting_clock) {
        filled.waiting_clock = [] {
            return std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::steady_clock::now().time_since_epoch())
                .count();
        };
    }
    // A session is a number greater than that of any session before: node ids are never used again.
    if (filled.session == 0) {
        const auto session = index.allocate_node();
        if (!session) return fail(session.error());
        filled.session = *session;
    }
    auto names = std::make_unique<NamespaceOfOrigin>(filled, index, origin, sink, filled.session);
    if (auto started = names->start(); !started) return fail(started.error());
    return names;
}

Result<std::unique_ptr<Namespace>> Namespace::open(const Settings& settings, std::uint64_t memory,
                                                   Index& index, Origin& origin, InvalidationSink& sink,
                                                   NodeId session) {
    NamespaceOptions options;
    options.session = session;
    options.ttl = settings.metadata_ttl;
    // Who has names checked against the source wants its error.
    options.serves_stale = settings.metadata_stale && settings.pack_staleness != "check";
    options.rules = std::make_shared<DatasetRules>(settings.datasets, settings.dataset_class);
    options.memory = memory;
    // Of memory.limit: each may hold a page of a listing, of 4 MiB at most, and what is made of it.
    constexpr std::uint64_t kMemoryOfWorker = 8 << 20;
    options.most_workers = static_cast<unsigned>(std::clamp<std::uint64_t>(
        settings.memory_limit / kMemoryOfWorker, options.workers, options.most_workers));
    options.origin_deadline = settings.origin_deadline;
    return open_namespace(options, index, origin, sink);
}

}  // namespace tierfs
