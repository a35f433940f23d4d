// Answers what a name leads to: from what is known while that is fresh, else by asking the origin.
// Internal to fs/metadata.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "config/base/worker_pool.hpp"
#include "fs/metadata/flights.hpp"
#include "fs/metadata/lister.hpp"
#include "fs/metadata/merger.hpp"
#include "fs/metadata/node_table.hpp"
#include "fs/metadata/outage.hpp"
#include "fs/metadata/turns.hpp"
#include "fs/metadata/validity.hpp"

namespace tierfs {

/// Thread-safe; the callbacks of `ask` run on workers. The root is the name "" in the parent 0.
class Asker {
  public:
    using Answer = Result<NodeView>;

    Asker(NodeTable& table, Merger& merger, const Freshness& freshness, const Validity& validity,
          Origin& origin, WorkerPool& workers, const Patience& patience, Turns& turns, InvalidationSink& sink,
          Outage& outage)
        : table_(table),
          merger_(merger),
          freshness_(freshness),
          validity_(validity),
          origin_(origin),
          workers_(workers),
          patience_(patience),
          turns_(turns),
          sink_(sink),
          outage_(outage) {}

    /// Made later than the Asker, since each knows the other. Before any question.
    void set_lister(Lister& lister) { lister_ = &lister; }

    /// A fresh answer out of memory or index; nothing when the origin must be asked.
    std::optional<Answer> known(NodeId parent, const std::string& name);

    /// Asks the origin, together with all who ask the same now. While it does not answer: what was known, at once and on
    /// this thread.
    void ask(NodeId parent, const std::string& name, std::function<void(const Answer&)> done);

    /// What this node's name leads to is to be asked afresh; the kernel is told to forget the entry.
    void distrust(NodeId node);
    /// See Namespace::renewed.
    void renew(NodeId directory, const std::vector<Namespace::Renewed>& names);
    /// Whether `distrust` was called for it and no answer came since.
    [[nodiscard]] bool is_distrusted(NodeId node, const NodeRecord& record);

    /// How the kernel may keep a node that its name leads to; zero when it is not fresh.
    Result<NodeView> view(NodeId node, const NodeRecord& record);

    /// See Namespace.
    std::chrono::milliseconds absent_for(NodeId parent, const std::string& name);

  private:
    /// Questions about names of one directory that memory and index could not answer.
    struct Unanswered {
        std::int64_t since_ns = 0;
        std::uint64_t count = 0;
    };

    /// A question, and when it was asked.
    struct Question {
        NameKey key;
        std::int64_t asked = 0;
    };

    void work(const Question& question, bool canceled);
    void stat(const Question& question, bool canceled);
    void after_first_page(const Question& question, const Result<bool>& complete);
    Answer ask_origin(const NameKey& key);
    Answer take_in_root(Result<Attributes> attributes, std::int64_t started);
    Answer take_in(const NameKey& key, const std::string& path, Result<Attributes> attributes,
                   std::int64_t started);
    Answer take_in_present(Changes& changes, const NameKey& key, const std::string& path,
                           Attributes attributes, std::int64_t started);
    Answer take_in_absent(Changes& changes, const NameKey& key, std::int64_t started);
    /// The origin cannot be asked: what was fresh once is served a while longer.
    Answer stale(const NameKey& key, const Error& error);
    bool is_listing_worth_it(NodeId directory);
    /// What the index says of a name; of the root where `parent` is 0.
    Result<std::optional<Known>> recorded(NodeId parent, const std::string& name);
    void commit_distrust(NodeId node);
    /// Of those of `names` that lead somewhere, where to; in the order of `names`, 0 for the others.
    Result<std::vector<NodeId>> commit_renewal(NodeId directory,
                                               const std::vector<Namespace::Renewed>& names);

    NodeTable& table_;
    Merger& merger_;
    const Freshness& freshness_;
    const Validity& validity_;
    Origin& origin_;
    WorkerPool& workers_;
    const Patience& patience_;
    Turns& turns_;
    InvalidationSink& sink_;
    Outage& outage_;
    Lister* lister_ = nullptr;

    Flights<NameKey, Answer, NameKeyHash> flights_;
    Mutex mutex_;
    std::unordered_map<NodeId, Unanswered> unanswered_ TIERFS_GUARDED_BY(mutex_);
    std::unordered_set<NodeId> distrusted_ TIERFS_GUARDED_BY(mutex_);
    std::atomic<std::size_t> distrusted_count_{0};
    std::atomic<std::uint64_t> doubts_committed_{0};
};

}  // namespace tierfs
