#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "config/units.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/parse.hpp"
#include "tiering/nvme/verify_cache.hpp"

namespace tierfs {

namespace {

using Clock = std::chrono::steady_clock;

/// Tells how far it is: on a terminal all the time, else every 10 s.
class Progress {
  public:
    void tell(const CacheReport& report) {
        const auto now = Clock::now();
        if (now - told_ < (terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10))) return;
        told_ = now;
        const double seconds = std::chrono::duration<double>(now - begun_).count();
        const auto rate = static_cast<std::uint64_t>(static_cast<double>(report.bytes) / seconds);
        std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n",
                     (format_size(report.bytes) + " verified, " + format_size(rate) + "/s").c_str());
    }
    void end() const {
        if (terminal_) std::fputs("\r\033[K", stderr);
    }

  private:
    const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
    const Clock::time_point begun_ = Clock::now();
    Clock::time_point told_ = begun_;
};

nlohmann::json report_json(const std::string& folder, const CacheReport& report) {
    auto bad = nlohmann::json::array();
    for (const auto& each : report.bad)
        bad.push_back({{"file", each.file.string()}, {"what", each.what}, {"dropped", each.dropped}});
    return {{"cache", folder},
            {"extents", report.extents},
            {"backing_files", report.backing_files},
            {"bytes", report.bytes},
            {"unknown_codecs", report.unknown_codecs},
            {"bad_files", report.bad_files},
            {"dropped_files", report.dropped_files},
            {"bad", std::move(bad)}};
}

void print_report(const std::string& folder, const CacheReport& report) {
    for (const auto& each : report.bad) {
        std::fprintf(stderr, "tierfs: %s: %s%s\n", each.file.c_str(), each.what.c_str(),
                     each.dropped ? "; dropped" : "");
    }
    if (report.unknown_codecs != 0)
        std::fprintf(stderr, "tierfs: %s: %llu objects are of a codec that this version does not know\n",
                     folder.c_str(), static_cast<unsigned long long>(report.unknown_codecs));
    std::printf("%s: %llu extents, %llu large files, %s verified, %llu files bad, %llu dropped\n",
                folder.c_str(), static_cast<unsigned long long>(report.extents),
                static_cast<unsigned long long>(report.backing_files), format_size(report.bytes).c_str(),
                static_cast<unsigned long long>(report.bad_files),
                static_cast<unsigned long long>(report.dropped_files));
}

}  // namespace

int verify_command(const std::vector<std::string>& arguments) {
    std::string path;
    bool json = false;
    VerifyOptions options;
    CLI::App app("Compares all that a cache folder holds with its checksums", "tierfs verify");
    app.add_option("CACHE", path, "a folder that nvme.path named, not in use")->required();
    app.add_flag("--repair", options.repair, "remove files with anything bad in them");
    app.add_flag("--json", json, "print JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto caches = find_caches(path);
    if (!caches) return command_failed(caches.error().message);
    auto reports = nlohmann::json::array();
    bool good = true;
    for (const auto& cache : *caches) {
        Progress progress;
        options.progress = [&](const CacheReport& report) { progress.tell(report); };
        const auto report = verify_cache(cache, options);
        progress.end();
        if (!report) return command_failed(report.error().message);
        good = good && report->bad_files == report->dropped_files;
        if (json) {
            reports.push_back(report_json(cache.string(), *report));
        } else {
            print_report(cache.string(), *report);
        }
    }
    if (json)
        std::printf("%s\n", reports.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return good ? 0 : 1;
}

}  // namespace tierfs
