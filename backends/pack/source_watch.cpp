#include "backends/pack/source_watch.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "config/base/log.hpp"

namespace tierfs::pack {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{1000}, kPauseAfterError{60'000};
constexpr int kShareOfTime = 10;
constexpr std::size_t kNamesAtATime = 1000;

std::int64_t now_s() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string counted(const Changes& changes) {
    return std::to_string(changes.counts.changed) + " names changed, " +
           std::to_string(changes.counts.added) + " new, " + std::to_string(changes.counts.removed) +
           " removed since the pack was made";
}

}  // namespace

SourceWatch::SourceWatch(PackIndex& index, Origin& source, SourceWatchOptions options)
    : index_(index), source_(source), options_(std::move(options)) {
    auto kept = Changes::load(options_.kept);
    if (!kept && kept.error().code != ENOENT)
        log::warning(kept.error().message + ": what has changed is not known before the source is listed");
    changes_ = std::make_shared<const Changes>(kept ? std::move(*kept) : Changes());
    stats_.too_many = changes_->too_many;
}

void SourceWatch::start(Told told) {
    told_ = std::move(told);
    thread_ = std::thread([this] { run(); });
}

void SourceWatch::begin_stop() {
    const MutexLock lock(mutex_);
    stopping_ = true;
    stopped_.notify_all();
}

void SourceWatch::stop() {
    begin_stop();
    if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Changes> SourceWatch::changes() const {
    const MutexLock lock(mutex_);
    return changes_;
}

ComparisonStats SourceWatch::stats() const {
    const MutexLock lock(mutex_);
    return stats_;
}

void SourceWatch::run() {
    while (!stopping_) {
        compare_once();
        MutexLock lock(mutex_);
        if (stats_.too_many && stats_.error.empty()) return;
        const auto until = Clock::now() + pause();
        while (!stopping_ && Clock::now() < until) lock.wait_until(stopped_, until);
    }
}

milliseconds SourceWatch::pause() const {
    const auto took = milliseconds(static_cast<std::int64_t>(stats_.took_s * 1000.0));
    const auto after = std::max({options_.every, took * kShareOfTime, kShortestPause});
    return stats_.error.empty() ? after : std::min(after, kPauseAfterError);
}

void SourceWatch::compare_once() {
    {
        const MutexLock lock(mutex_);
        stats_.running = true;
    }
    const auto began = Clock::now();
    auto options = options_.comparison;
    options.stopped = [this] { return stopping_.load(); };
    auto now = compare(index_, source_, options);
    if (now) {
        take_in(std::move(*now), std::chrono::duration<double>(Clock::now() - began).count());
    } else if (!stopping_) {
        failed(now.error());
    }
    const MutexLock lock(mutex_);
    stats_.running = false;
}

void SourceWatch::take_in(Changes now, double took_s) {
    const auto before = changes();
    const auto taken = std::make_shared<const Changes>(std::move(now));
    const bool others = before->names() != taken->names() || before->too_many != taken->too_many;
    if (others) {
        const MutexLock lock(mutex_);
        changes_ = taken;
    }
    // In this order: a daemon that dies in between is followed by one that finds the differences again.
    if (others) tell(*before, *taken);
    if (others) keep(*taken);
    bool failed_before = false;
    {
        const MutexLock lock(mutex_);
        failed_before = !stats_.error.empty();
        stats_.error.clear();
        ++stats_.ended;
        stats_.ended_at = now_s();
        stats_.took_s = took_s;
        stats_.too_many = taken->too_many;
        std::tie(stats_.changed, stats_.added, stats_.removed) =
            std::tie(taken->counts.changed, taken->counts.added, taken->counts.removed);
    }
    if (failed_before) log::info(options_.shown + " could be compared with its pack again");
    if (taken->too_many) {
        log::warning(options_.shown + ": more than " + std::to_string(options_.comparison.most) +
                     " names are not as in the pack: the source is asked for all names from now on; pack it "
                     "again");
    } else if (others) {
        log::info(options_.shown + ": " + counted(*taken));
    }
}

void SourceWatch::failed(const Error& error) {
    bool first = false;
    {
        const MutexLock lock(mutex_);
        first = stats_.error.empty();
        stats_.error = error.message;
    }
    if (first)
        log::warning(options_.shown +
                     " cannot be compared with its pack, what is known of it stays: " + error.message);
}

bool SourceWatch::is_same_before(const std::string& key, const Changes& before, const Changes& now) const {
    const auto attributes = [&](const Changes& changes) -> std::optional<Attributes> {
        if (const auto found = changes.names().find(key); found != changes.names().end())
            return found->second.now;
        auto path = key;
        if (const auto zero = path.find('\0'); zero == 0) {
            path.erase(0, 1);
        } else if (zero != std::string::npos) {
            path[zero] = '/';
        }
        auto entry = index_.find(path);
        return entry ? std::optional(std::move(entry->attributes)) : std::nullopt;
    };
    const auto was = attributes(before), is = attributes(now);
    return was && is && is_same_object(*was, *is);
}

void SourceWatch::tell(const Changes& before, const Changes& now) {
    Renewed renewed;
    const auto flush = [&] {
        if (!renewed.names.empty()) told_(renewed);
        renewed.names.clear();
    };
    const auto add = [&](const std::string& key) {
        if (stopping_ || key.empty()) return;  // the root's attributes: metadata.ttl covers them
        const auto zero = key.find('\0');
        const auto directory = std::string_view(key).substr(0, zero);
        if (directory != renewed.directory || renewed.names.size() == kNamesAtATime) flush();
        renewed.directory = directory;
        renewed.names.push_back({key.substr(zero + 1), is_same_before(key, before, now)});
    };
    auto a = before.names().begin();
    auto b = now.names().begin();
    while (a != before.names().end() || b != now.names().end()) {
        const bool only_a = b == now.names().end() || (a != before.names().end() && a->first < b->first);
        const bool only_b = a == before.names().end() || (b != now.names().end() && b->first < a->first);
        if (only_a) {
            add((a++)->first);
        } else if (only_b) {
            add((b++)->first);
        } else {
            if (!(a->second == b->second)) add(b->first);
            ++a;
            ++b;
        }
    }
    flush();
}

void SourceWatch::keep(const Changes& now) const {
    if (const auto saved = now.save(options_.kept); !saved)
        log::warning(saved.error().message +
                     ": what has changed at the source is found anew by the next mount");
}

}  // namespace tierfs::pack
