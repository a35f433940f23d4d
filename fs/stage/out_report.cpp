#include "fs/stage/out_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "config/base/json_text.hpp"
#include "config/base/units.hpp"
#include "fs/cli/say.hpp"

namespace tierfs::stage {
namespace {

constexpr std::chrono::milliseconds kBarInterval{200}, kLineInterval{10000};

void print_json(const OrderedJson& json) {
    say_json(stdout, json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
    std::fflush(stdout);
}

OrderedJson summary_json(const OutSummary& summary) {
    return OrderedJson{{"files", summary.files},
                       {"bytes", summary.bytes},
                       {"sent", summary.sent},
                       {"resumed", summary.resumed},
                       {"skipped", summary.skipped},
                       {"removed", summary.removed},
                       {"failed", summary.failed},
                       {"links", summary.links},
                       {"sent_bytes", summary.sent_bytes},
                       {"parts_found", summary.parts_found},
                       {"manifest_written", summary.manifest_written}};
}

}  // namespace

OutReport::OutReport(OutForm form, bool verbose)
    : form_(form), verbose_(verbose), terminal_(form == OutForm::people && ::isatty(STDERR_FILENO) == 1) {
    if (form_ != OutForm::quiet) thread_ = std::thread([this] { run(); });
}

OutReport::~OutReport() {
    stop();
}

void OutReport::stop() {
    {
        const MutexLock lock(mutex_);
        ended_ = true;
        wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    const MutexLock lock(mutex_);
    clear_bar();
}

void OutReport::run() {
    MutexLock lock(mutex_);
    auto next = Clock::now() + (terminal_ ? kBarInterval : kLineInterval);
    while (!ended_) {
        if (lock.wait_until(wake_, next) != std::cv_status::timeout) continue;
        next = Clock::now() + (terminal_ ? kBarInterval : kLineInterval);
        if (total_ > 0) tell_progress();
    }
}

void OutReport::tell_progress() {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
    const auto left_bytes = total_ - std::min(done_, total_);
    const double left = rate > 0 ? static_cast<double>(left_bytes) / rate : 0;
    if (form_ == OutForm::json) {
        print_json(OrderedJson{{"event", "progress"},
                               {"done_bytes", done_},
                               {"total_bytes", total_},
                               {"bytes_per_s", rate},
                               {"eta_s", left}});
        return;
    }
    const double share = 100.0 * static_cast<double>(total_ - left_bytes) / static_cast<double>(total_);
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(), "%5.1f %% of %s, %s/s, %.0f s left", share,
                  format_size(total_).c_str(), format_size(static_cast<std::uint64_t>(rate)).c_str(), left);
    if (terminal_) {
        say_over(stderr, text.data());
    } else {
        say_line(stderr, std::string("tierfs-stage out: ") + text.data());
    }
    bar_ = terminal_;
}

void OutReport::clear_bar() {
    if (bar_) say_over(stderr, "");
    bar_ = false;
}

void OutReport::planned(std::uint64_t files, std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    total_ = bytes;
    if (form_ == OutForm::json)
        print_json(OrderedJson{{"event", "plan"}, {"files", files}, {"bytes", bytes}});
}

void OutReport::remark(const std::string& text) {
    const MutexLock lock(mutex_);
    if (form_ == OutForm::json) {
        print_json(OrderedJson{{"event", "remark"}, {"text", printable(text)}});
        return;
    }
    clear_bar();
    say_line(stderr, "tierfs-stage: " + text);
}

void OutReport::file(const OutEvent& event) {
    const MutexLock lock(mutex_);
    if (form_ == OutForm::json) {
        OrderedJson json{{"event", "file"}};
        put_text(json, "path", event.path);
        json["fate"] = name_of(event.fate);
        json["size"] = event.size;
        json["sent_bytes"] = event.sent_bytes;
        if (!event.checksum.empty()) json["checksum"] = event.checksum;
        if (!event.error.empty()) json["error"] = printable(event.error);
        print_json(json);
        return;
    }
    if (event.fate == OutFate::failed) {
        clear_bar();
        say_line(stderr, "tierfs-stage: " + event.error);
        return;
    }
    const bool dry = event.fate == OutFate::would_send || event.fate == OutFate::would_compare ||
                     event.fate == OutFate::would_remove;
    if (!dry && !verbose_) return;
    clear_bar();
    sayf(stdout, "%s %s\n", name_of(event.fate).c_str(), printable(event.path).c_str());
}

void OutReport::progress(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    done_ += bytes;
}

void OutReport::end(int status, const OutSummary& summary, bool dry_run) {
    stop();
    if (form_ == OutForm::json) {
        print_json(OrderedJson{{"event", "end"}, {"status", status}, {"summary", summary_json(summary)}});
        return;
    }
    if (dry_run) {
        sayf(stdout,
             "%" PRIu64 " files, %s: %" PRIu64 " to send or compare, %" PRIu64 " there already, %" PRIu64
             " to remove; nothing was done\n",
             summary.files, format_size(summary.bytes).c_str(), summary.sent, summary.skipped,
             summary.removed);
        return;
    }
    sayf(stdout,
         "%" PRIu64 " files, %s: %" PRIu64 " sent (%s), %" PRIu64 " of them resumed, %" PRIu64
         " there already, %" PRIu64 " removed, %" PRIu64 " failed%s\n",
         summary.files, format_size(summary.bytes).c_str(), summary.sent + summary.resumed,
         format_size(summary.sent_bytes).c_str(), summary.resumed, summary.skipped, summary.removed,
         summary.failed, summary.manifest_written ? "" : "; the manifest was not written");
    if (summary.links > 0)
        sayf(stdout, "%" PRIu64 " symbolic links are in the manifest alone\n", summary.links);
}

void OutReport::end(int status, const std::string& error) {
    stop();
    if (form_ == OutForm::json) {
        print_json(OrderedJson{{"event", "end"}, {"status", status}, {"error", printable(error)}});
    }
    say_line(stderr, "tierfs-stage: " + error);
}

}  // namespace tierfs::stage
