#include "fs/stage/copy/reporter.hpp"

#include <array>

#include "config/base/units.hpp"
#include "fs/cli/say.hpp"

namespace tierfs::stage {

namespace {

std::string clock_text(double seconds) {
    constexpr long kMinute = 60;
    constexpr long kHour = 3600;
    const auto whole = static_cast<long>(seconds);
    std::array<char, 64> text{};
    if (whole >= kHour) {
        std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", whole / kHour, whole % kHour / kMinute,
                      whole % kMinute);
    } else {
        std::snprintf(text.data(), text.size(), "%ld:%02ld", whole / kMinute, whole % kMinute);
    }
    return text.data();
}

}  // namespace

Reporter::Reporter(Options options) : options_(options) {}

Reporter::~Reporter() {
    end_progress();
}

double Reporter::seconds() const {
    return std::chrono::duration<double>(Clock::now() - started_).count();
}

void Reporter::start_progress() {
    copying_since_ = Clock::now();
    if (options_.quiet || options_.interval.count() == 0 || thread_.joinable()) return;
    thread_ = std::thread([this] { run(); });
}

void Reporter::end_progress() {
    {
        const MutexLock lock(mutex_);
        ended_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Reporter::run() {
    MutexLock lock(mutex_);
    while (!ended_) {
        const auto next = Clock::now() + options_.interval;
        while (!ended_ && lock.wait_until(changed_, next) == std::cv_status::no_timeout) {
        }
        if (ended_) break;
        lock.unlock();
        report_progress();
        lock.lock();
    }
}

void Reporter::report_progress() {
    if (options_.json) {
        event("progress", totals_json());
    } else {
        line(stderr, progress_line());
    }
}

std::string Reporter::progress_line() {
    constexpr std::uint64_t kHundred = 100;
    const std::uint64_t planned = totals_.bytes_planned;
    const std::uint64_t done = totals_.bytes_done;
    const double spent = std::chrono::duration<double>(Clock::now() - copying_since_).count();
    const double rate = spent > 0 ? static_cast<double>(done) / spent : 0;
    std::string text = std::to_string(planned == 0 ? kHundred : done * kHundred / planned) + " %, " +
                       format_size(done) + " of " + format_size(planned) + ", " +
                       std::to_string(totals_.files_staged) + " of " + std::to_string(totals_.files_planned) +
                       " files, " + format_size(static_cast<std::uint64_t>(rate)) + "/s";
    if (rate > 0 && planned > done) text += ", ETA " + clock_text(static_cast<double>(planned - done) / rate);
    return text;
}

OrderedJson Reporter::totals_json() {
    OrderedJson json;
    json["files_planned"] = totals_.files_planned.load();
    json["bytes_planned"] = totals_.bytes_planned.load();
    json["files_staged"] = totals_.files_staged.load();
    json["bytes_staged"] = totals_.bytes_staged.load();
    json["bytes_done"] = totals_.bytes_done.load();
    json["bytes_from_source"] = totals_.bytes_from_source.load();
    json["bytes_reused"] = totals_.bytes_reused.load();
    json["files_kept"] = totals_.files_kept.load();
    json["bytes_kept"] = totals_.bytes_kept.load();
    json["files_removed"] = totals_.files_removed.load();
    json["files_changed"] = totals_.files_changed.load();
    json["files_failed"] = totals_.files_failed.load();
    json["warnings"] = totals_.warnings.load();
    json["seconds"] = seconds();
    return json;
}

void Reporter::event(const std::string& name, OrderedJson members) {
    if (!options_.json) return;
    OrderedJson json = {{"event", name}};
    json.update(members);
    say_json(stdout, json.dump());
}

void Reporter::warning(const std::string& text) {
    ++totals_.warnings;
    if (options_.json) return event("warning", {{"message", printable(text)}});
    line(stderr, "tierfs-stage: warning: " + printable(text));
}

void Reporter::failed(const std::string& path, const Error& error) {
    ++totals_.files_failed;
    OrderedJson members = {{"message", printable(error.message)}, {"errno", error.code}};
    put_text(members, "path", path);
    if (options_.json) return event("failed", std::move(members));
    line(stderr, "tierfs-stage: " + printable(path) + ": " + printable(error.message));
}

void Reporter::error(const std::string& text) {
    if (options_.json) event("error", {{"message", printable(text)}});
    line(stderr, "tierfs-stage: " + printable(text));
}

void Reporter::say(const std::string& text) {
    if (!options_.json) line(stdout, printable(text));
}

void Reporter::line(std::FILE* to, const std::string& text) {
    say_line(to, text);  // one call: lines of several threads do not mix
    std::fflush(to);
}

}  // namespace tierfs::stage
