// The namespace against the history of the origin: an answer is what was true at some moment within
// metadata.ttl, and a node names one version of one path for ever.
#include <deque>

#include "tests/unit/fs/metadata/names_fixture.hpp"
#include "tests/unit/model.hpp"

namespace tierfs {
namespace names_model_test {

using std::chrono::milliseconds;

/// What stood at a path, from when on. Only what an answer shows.
struct Truth {
    bool there = false;
    ObjectKind kind = ObjectKind::file;
    std::string version;
    std::uint64_t size = 0;
    friend bool operator==(const Truth&, const Truth&) = default;
};

/// A file may come under the name of a directory and the other way round; what is below goes with it.
class NamesModel : public NamesFixture {
  public:
    NamesModel(milliseconds ttl, std::size_t page) : ttl_(ttl) {
        SetUp();
        origin_->set_page_size(page);
        for (const auto& path : paths()) history_[path].push_back({now_.load(), Truth()});
        open(ttl_);
    }
    ~NamesModel() override { TearDown(); }
    void TestBody() override {}

    void run(const model::Command& command) {
        const std::string& path = paths()[command.a % paths().size()];
        switch (command.kind) {
            case 0:
                mutate(path, command);
                break;
            case 1:
                walk(path);
                break;
            case 2:
                list(path, 1 + command.b % 4);
                break;
            case 3:
                pass(milliseconds(1 + command.b % (ttl_.count() + ttl_.count() / 2 + 2)));
                break;
            case 4:
                forget(command);
                break;
            case 5:
                down_ = command.b % 2 == 0;
                origin_->fail_with(down_ ? ETIMEDOUT : 0);
                ever_down_ = ever_down_ || down_;
                break;
            case 6:
                reopen(ttl_);
                break;
            default:
                ask_again(command);
        }
    }

    /// When the origin answers again and the TTL has passed, all is as it is there.
    void finish() {
        origin_->fail_with(0);
        down_ = false;
        pass(ttl_ * 2 + milliseconds(10));
        for (const auto& path : paths()) {
            history_[path] = {{0, truth_of(path)}};
        }
        settled_ = true;
        for (const auto& path : paths()) walk(path);
        list("", 3);
    }

  private:
    static const std::vector<std::string>& paths() {
        static const std::vector<std::string> all = [] {
            std::vector<std::string> made;
            for (const std::string first : {"a", "b", "c"}) {
                made.push_back(first);
                for (const std::string second : {"a", "b"}) {
                    made.push_back(first + "/" + second);
                    made.push_back(first + "/" + second + "/c");
                }
            }
            return made;
        }();
        return all;
    }

    Truth truth_of(const std::string& path) {
        const auto tree = origin_->tree();
        const auto found = tree.find(path);
        if (found == tree.end()) return {};
        return {true, found->second.kind, found->second.version, found->second.size};
    }

    void mutate(const std::string& path, const model::Command& command) {
        pass(milliseconds(command.c % 2));
        // No file may stand on the way.
        for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
            const Truth above = truth_of(path.substr(0, slash));
            if (above.there && above.kind == ObjectKind::file) origin_->remove(path.substr(0, slash));
        }
        const Truth now = truth_of(path);
        switch (command.b % 4) {
            case 0:
                origin_->remove(path);
                break;
            case 1:
                if (now.there && now.kind == ObjectKind::directory) break;
                origin_->put_directory(path, 1);
                if (now.there) {
                    origin_->remove(path);
                    origin_->put_directory(path, 1);
                }
                break;
            default:
                if (now.there && now.kind == ObjectKind::directory) origin_->remove(path);
                origin_->put(path, "v" + std::to_string(command.c % 5), command.c % 5);
        }
        for (const auto& each : paths()) {
            auto& past = history_[each];
            const Truth truth = truth_of(each);
            if (!(past.back().second == truth)) past.push_back({now_.load(), truth});
        }
    }

    /// Whether `seen` held at some moment of the last `span`.
    bool was_true(const std::string& path, milliseconds span,
                  const std::function<bool(const Truth&)>& seen) const {
        const auto& past = history_.at(path);
        const std::int64_t from = now_.load() - span.count() * 1'000'000;
        for (std::size_t i = 0; i < past.size(); ++i) {
            const bool over = i + 1 < past.size() && past[i + 1].first < from;
            if (!over && seen(past[i].second)) return true;
        }
        return false;
    }
    /// An origin that cannot be asked lets old answers live for one more TTL.
    milliseconds span() const { return settled_ ? milliseconds(0) : ever_down_ ? ttl_ * 2 : ttl_; }

    void walk(const std::string& path) {
        NodeId node = kRootNode;
        for (std::size_t at = 0; at < path.size();) {
            const std::size_t slash = std::min(path.find('/', at), path.size());
            const std::string walked = path.substr(0, slash);
            const View view = lookup(node, path.substr(at, slash - at));
            if (!view) {
                refuse(view.error(), walked);
                return;
            }
            check(*view, walked);
            if (view->attributes.kind != ObjectKind::directory) return;
            node = view->node;
            at = slash + 1;
        }
    }

    void refuse(const Error& error, const std::string& path) const {
        if (error.code == ENOENT) {
            RC_ASSERT(was_true(path, span(), [](const Truth& truth) { return !truth.there; }));
        } else if (error.code == ESTALE || error.code == ENOTDIR) {
            // Its directory went, or became a file, while it was walked.
            RC_ASSERT(path.find('/') != std::string::npos);
        } else {
            RC_ASSERT(down_);
            RC_ASSERT(error.code == ETIMEDOUT);
        }
    }

    void check(const NodeView& view, const std::string& path) {
        const auto seen = [&](const Truth& truth) {
            return truth.there && truth.kind == view.attributes.kind &&
                   truth.version == view.attributes.version && truth.size == view.attributes.size;
        };
        RC_ASSERT(was_true(path, span(), seen));
        RC_ASSERT(view.valid_for <= ttl_);
        remember(view, path);
    }
    void remember(const NodeView& view, const std::string& path) {
        const std::string meaning = path + "|" + view.attributes.version + "|" +
                                    std::to_string(static_cast<int>(view.attributes.kind));
        const auto [known, is_new] = meanings_.try_emplace(view.node, meaning);
        RC_ASSERT(known->second == meaning);
        if (is_new) nodes_.push_back(view.node);
        if (view.attributes.kind == ObjectKind::file) {
            const auto object = names_->object(view.node);
            RC_ASSERT(object.has_value());
            RC_ASSERT((*object)->content == content_id("fake:/", path, view.attributes.version));
        }
    }

    void list(const std::string& path, std::size_t limit) {
        NodeId node = kRootNode;
        for (std::size_t at = 0; at < path.size();) {
            const std::size_t slash = std::min(path.find('/', at), path.size());
            const View view = lookup(node, path.substr(at, slash - at));
            if (!view || view->attributes.kind != ObjectKind::directory) return;
            node = view->node;
            at = slash + 1;
        }
        std::set<std::string> found;
        std::set<std::uint64_t> cookies;
        const std::string prefix = path.empty() ? "" : path + "/";
        std::uint64_t after = 0;
        for (;;) {
            const auto items = read(node, after, limit);
            if (!items) {
                refuse_listing(items.error(), path);
                return;
            }
            RC_ASSERT(items->size() <= limit);
            for (const auto& item : *items) {
                RC_ASSERT(cookies.insert(item.cookie).second);
                after = item.cookie;
                if (item.cookie <= 2) continue;
                RC_ASSERT(found.insert(item.name).second);
                check(item.view, prefix + item.name);
            }
            if (items->size() < limit) break;
            names_->read_ahead(node, after, limit);
        }
        // A page that waits, perhaps until much has changed.
        if (!cookies.empty()) names_->read_ahead(node, *cookies.rbegin(), limit);
        names_->read_ahead(node, 2, limit);
        for (const auto& each : paths()) {
            if (!each.starts_with(prefix) || each.find('/', prefix.size()) != std::string::npos) continue;
            if (each.size() == prefix.size() || found.count(each.substr(prefix.size())) != 0) continue;
            RC_ASSERT(was_true(each, span(), [](const Truth& truth) { return !truth.there; }));
        }
    }
    void refuse_listing(const Error& error, const std::string& path) const {
        if (down_ && error.code == ETIMEDOUT) return;
        RC_ASSERT(error.code == ENOENT || error.code == ESTALE || error.code == ENOTDIR);
        RC_ASSERT(was_true(path, milliseconds(0), [](const Truth& truth) {
            return !truth.there || truth.kind != ObjectKind::directory;
        }));
    }

    /// The kernel has a node for as long as it likes: what it names does not change.
    void ask_again(const model::Command& command) {
        if (nodes_.empty()) return;
        const NodeId node = nodes_[command.b % nodes_.size()];
        const auto object = names_->object(node);
        if (object) {
            const std::string& meaning = meanings_.at(node);
            RC_ASSERT((*object)->path + "|" + (*object)->version == meaning.substr(0, meaning.rfind('|')));
        }
        const View view = attributes(node);
        if (!view) return;
        RC_ASSERT(view->node == node);
        const std::string& meaning = meanings_.at(node);
        RC_ASSERT(meaning.find("|" + view->attributes.version + "|") != std::string::npos);
    }
    void forget(const model::Command& command) {
        if (!nodes_.empty()) names_->version_gone(nodes_[command.b % nodes_.size()]);
    }

    const milliseconds ttl_;
    std::map<std::string, std::deque<std::pair<std::int64_t, Truth>>> history_;
    std::map<NodeId, std::string> meanings_;
    std::vector<NodeId> nodes_;
    bool down_ = false, ever_down_ = false, settled_ = false;
};

void run_all(const std::vector<unsigned>& weights) {
    const auto ttl = milliseconds(*rc::gen::element(0, 1, 1000, 60000));
    const auto page = *rc::gen::element<std::size_t>(1, 2, 1000);
    const auto commands = *model::commands(150, weights);
    NamesModel names(ttl, page);
    for (const auto& command : commands) names.run(command);
    names.finish();
    RC_ASSERT(!testing::Test::HasFatalFailure());
}

TEST(NamesModelTest, AnswersWereTrueWithinTheTtl) {
    //                             change walk list time gone down reopen again
    model::check(15, [] { run_all({8, 12, 6, 6, 1, 0, 1, 4}); });
}

TEST(NamesModelTest, OrWithinTwiceTheTtlWhenTheOriginCannotBeAsked) {
    model::check(15, [] { run_all({8, 12, 6, 6, 1, 2, 1, 4}); });
}

}  // namespace names_model_test
}  // namespace tierfs
