#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "fs/cli/environment.hpp"
#include "fs/stage/command.hpp"
#include "fs/stage/copy/stage_in.hpp"
#include "fs/stage/run.hpp"

namespace tierfs::stage {

namespace {

/// The command line of `in` and `plan`.
struct InRequest {
    std::string source, shard, keep_free = "5%";
    std::vector<std::string> settings;
    StageOptions options;
    ReportOptions report;
    bool no_ring = false;
};

void add_options(CLI::App& command, InRequest& request) {
    StageOptions& options = request.options;
    command
        .add_option("SOURCE", request.source,
                    "s3://BUCKET[/PREFIX], nfs://HOST/EXPORT[/PATH], a directory, or file:///DIR")
        ->required();
    command.add_option("DEST", options.destinations, "Folders on XFS or ext4; files go where most is free")
        ->required();
    command
        .add_option("-o", request.settings,
                    "KEY=VALUE of a setting of tierfs(8), such as s3.endpoint=http://HOST; may be repeated")
        ->allow_extra_args(false);
    command.add_option("--farm", options.farm, "Folder of symbolic links that shows all DESTs as one tree");
    command.add_option("--keep-free", request.keep_free, "SIZE or PERCENT that stays free on each device")
        ->capture_default_str();
    command
        .add_option("--gpu-affinity", options.plan.gpu_affinity,
                    "NUMA node: its devices are filled first, the others only when these are full")
        ->check(CLI::Range(0, 4095));
    command.add_option("--shard", request.shard,
                       "I/N, I from 0: only this one of N parts of the files, for job arrays");
    command.add_flag("--delete", options.plan.remove_vanished,
                     "Remove staged files that the source lacks now");
    command.add_flag("--overwrite", options.plan.overwrite,
                     "Replace files in DEST that are not of tierfs-stage or were changed");
    request.report.add_to(command);
}

/// Wrong usage throws CLI::Error.
int stage_in_as(InRequest& request, bool only_plan) {
    StageOptions& options = request.options;
    options.only_plan = only_plan;
    options.plan.keep_free = must(parse_keep_free(request.keep_free), "--keep-free");
    if (!request.shard.empty()) options.plan.shard = must(parse_shard(request.shard), "--shard");
    options.use_ring = !request.no_ring;
    SettingsSources sources;
    sources.source = request.source;
    const bool is_path = request.source.find("://") == std::string::npos && !request.source.empty();
    if (is_path) sources.source = std::filesystem::absolute(request.source).string();
    sources.options = request.settings;
    sources.environment = process_environment();
    options.settings = must(load_settings(sources), "-o");
    return run_with(request.report, [&](Reporter& reporter, const StopFlag& stop) {
        return stage_in(options, reporter, stop);
    });
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
    CLI::App* const command =
        app.add_subcommand("plan", "Show what `in` would copy, keep and remove, and where");
    const auto request = std::make_shared<InRequest>();
    add_options(*command, *request);
    command->callback([request, &status] { status = stage_in_as(*request, true); });
}

void add_in(CLI::App& app, int& status) {
    CLI::App* const command = app.add_subcommand(
        "in",
        "Copy a dataset into DEST; the same command goes on after an interruption, or copies what changed");
    const auto request = std::make_shared<InRequest>();
    add_options(*command, *request);
    const auto dry_run = std::make_shared<bool>(false);
    command->add_flag("--dry-run", *dry_run, "Only show what would be done, as plan does");
    command->add_flag("--wait", request->options.wait, "Wait for another tierfs-stage that works in DEST");
    command->add_flag("--force-unsuitable", request->options.force_unsuitable,
                      "Stage on other file systems than XFS and ext4 too");
    command
        ->add_option("--workers", request->options.workers,
                     "Pieces of memory of 16 MiB; at most that is lost by a kill")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1024U));
    command->add_flag("--check-md5", request->options.check_md5,
                      "Compare objects with their ETags, where these are MD5s (not with SSE-KMS)");
    command->add_flag("--no-io-uring", request->no_ring, "Write with pwrite(2)");
    command->callback([request, dry_run, &status] { status = stage_in_as(*request, *dry_run); });
}

}  // namespace tierfs::stage
