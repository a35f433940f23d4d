#include <cstdio>
#include <nlohmann/json.hpp>

#include "config/base/log_lines.hpp"
#include "config/base/units.hpp"
#include "fs/cli/progress.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/pack.hpp"
#include "fs/commands/parse.hpp"
#include "tiering/nvme/verify_cache.hpp"

namespace tierfs {

namespace {

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
    const auto shown = log::escaped(folder);
    for (const auto& each : report.bad) {
        sayf(stderr, "tierfs: %s: %s%s\n", log::escaped(each.file.string()).c_str(),
             log::escaped(each.what).c_str(), each.dropped ? "; dropped" : "");
    }
    if (report.unknown_codecs != 0)
        sayf(stderr, "tierfs: %s: %llu objects are of a codec that this version does not know\n",
             shown.c_str(), static_cast<unsigned long long>(report.unknown_codecs));
    sayf(stdout, "%s: %llu extents, %llu large files, %s verified, %llu files bad, %llu dropped\n",
         shown.c_str(), static_cast<unsigned long long>(report.extents),
         static_cast<unsigned long long>(report.backing_files), format_size(report.bytes).c_str(),
         static_cast<unsigned long long>(report.bad_files),
         static_cast<unsigned long long>(report.dropped_files));
}

}  // namespace

int verify_command(const std::vector<std::string>& arguments) {
    std::string path;
    bool json = false;
    VerifyOptions options;
    std::vector<std::string> settings;
    CLI::App app("Compares all that a cache folder or a pack holds with its checksums", "tierfs verify");
    app.add_option("CACHE-or-PACK", path, "a folder that nvme.path named, not in use; or a pack")->required();
    app.add_flag("--repair", options.repair, "remove files with anything bad in them; of a cache alone");
    app.add_option("-o", settings, "settings of tierfs(8) for reaching a pack, KEY=VALUE,...")
        ->allow_extra_args(false);
    app.add_flag("--json", json, "print JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    if (is_pack(path)) {
        if (!options.repair) return verify_pack_command(path, settings, json);
        return wrong_usage("--repair is for caches: a pack is made anew by tierfs pack", "tierfs verify");
    }
    const auto caches = find_caches(path);
    if (!caches) return command_failed(caches.error().message);
    auto reports = nlohmann::json::array();
    bool good = true;
    for (const auto& cache : *caches) {
        ProgressLine progress;
        options.progress = [&](const CacheReport& report) {
            progress.tell([&](double seconds) {
                const auto rate = seconds > 0 ? static_cast<double>(report.bytes) / seconds : 0;
                return format_size(report.bytes) + " verified, " +
                       format_size(static_cast<std::uint64_t>(rate)) + "/s";
            });
        };
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
    if (json) say_json(stdout, reports.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return good ? 0 : 1;
}

}  // namespace tierfs
