#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "config/base/units.hpp"
#include "config/settings.hpp"
#include "fs/cli/environment.hpp"
#include "fs/cli/signals.hpp"
#include "fs/stage/command.hpp"
#include "fs/stage/out_report.hpp"

extern char** environ;  // NOLINT: environ(7)

namespace tierfs::stage {
namespace {

struct OutRequest {
    OutOptions out;
    std::string destination;
    std::vector<std::string> settings;
    std::string part_size, verify = "checksums";
    bool json = false, quiet = false, verbose = false;
};

/// A directory is made when only its last component is absent: a mistyped path must not fill another disk.
Result<std::string> destination_of(const OutRequest& options) {
    const auto& text = options.destination;
    if (text.find("://") != std::string::npos) return text;
    std::error_code error;
    const auto path = std::filesystem::absolute(text, error);
    if (error) return fail(error.value(), text + ": " + error.message());
    if (!options.out.dry_run && ::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
        return fail(system_error(errno, path.string() + ": cannot be made"));
    return path.string();
}

Result<std::unique_ptr<Origin>> open_destination(const OutRequest& options, Settings& settings) {
    auto destination = destination_of(options);
    if (!destination) return fail(destination.error());
    settings.source = std::move(*destination);
    auto origin = open_origin(settings);
    // Said once, and not for each file.
    if (origin && (*origin)->kind() == "nfs") {
        if (const auto there = (*origin)->check(); !there) return fail(there.error());
    }
    return origin;
}

int stage_out_as(OutRequest& options, Settings& settings) {
    StopFlag stop;
    const Signals signals(stop);
    const auto form = options.json ? OutForm::json : options.quiet ? OutForm::quiet : OutForm::people;
    OutReport report(form, options.verbose);
    auto destination = open_destination(options, settings);
    if (!destination) {
        const int status = destination.error().code == EINVAL ? 2 : 1;
        report.end(status, destination.error().message);
        return status;
    }
    options.out.memory = settings.memory_limit / 2;
    options.out.workers = std::min(options.out.workers, settings.origin_connections);
    const auto summary = stage_out(options.out, **destination, report, stop);
    (*destination)->stop();
    if (!summary) {
        report.end(1, summary.error().message);
        if ((*destination)->is_held()) ::_exit(1);
        return 1;
    }
    const int status = summary->failed > 0 ? 1 : 0;
    report.end(status, *summary, options.out.dry_run);
    return status;
}

/// Wrong values end with status 2, as the parser's own complaints do.
int checked_run(OutRequest& options) {
    if (!options.part_size.empty()) {
        const auto size = parse_size(options.part_size);
        if (!size || *size == 0 || *size % kChunkBytes != 0 || *size > std::uint64_t{4} << 30) {
            complain("--part-size " + options.part_size + ": allowed: a multiple of 16M, up to 4G");
            return 2;
        }
        options.out.part_size = *size;
    }
    if (options.verify == "full") options.out.verify = OutVerify::full;
    SettingsSources sources;
    sources.source = options.destination;
    sources.options = options.settings;
    sources.environment = process_environment();
    auto settings = load_settings(sources);
    if (!settings) {
        complain(settings.error().message);
        return 2;
    }
    return stage_out_as(options, *settings);
}

}  // namespace

void add_out(CLI::App& app, int& status) {
    auto options = std::make_shared<OutRequest>();
    auto* command = app.add_subcommand(
        "out",
        "Send the files of a directory, checkpoints for example, to an object store or another directory: in "
        "parallel parts, verified, resumed after an interruption, the manifest last.");
    command->add_option("DIR", options->out.directory, "what to send")->required();
    command
        ->add_option("DEST", options->destination,
                     "s3://BUCKET[/PREFIX], nfs://HOST/EXPORT[/PATH] or a directory")
        ->required();
    command
        ->add_option("-o", options->settings, "settings as for tierfs(8): -o s3.endpoint=URL,s3.region=NAME")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->option_text("KEY=VALUE[,...]");
    command->add_option("-j,--jobs", options->out.workers, "parts and files in flight (16)")
        ->check(CLI::Range(1U, 256U))
        ->option_text("N");
    command
        ->add_option("--part-size", options->part_size,
                     "of large files (16M); larger where a store's limits ask it")
        ->option_text("SIZE");
    command->add_option("--state", options->out.state, "folder of the journal (DIR/.tierfs-stage-out)")
        ->option_text("FOLDER");
    command
        ->add_option("--verify", options->verify,
                     "checksums: as the store tells them; full: read everything back")
        ->check(CLI::IsMember({"checksums", "full"}))
        ->option_text("HOW");
    command->add_flag("--delete", options->out.remove_vanished,
                      "remove what an earlier run sent and DIR no longer has");
    command->add_flag("-n,--dry-run", options->out.dry_run, "tell what would be done, and do nothing");
    command->add_flag("--json", options->json, "events as JSON lines on standard output");
    command->add_flag("-q,--quiet", options->quiet, "no progress");
    command->add_flag("-v,--verbose", options->verbose, "tell of each file");
    command->callback([options, &status] { status = checked_run(*options); });
}

}  // namespace tierfs::stage
