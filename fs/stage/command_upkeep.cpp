#include <CLI/CLI.hpp>
#include <memory>

#include "fs/stage/command.hpp"
#include "fs/stage/copy/upkeep.hpp"
#include "fs/stage/run.hpp"

namespace tierfs::stage {

namespace {

/// The command line of one of them; not all have all.
struct UpkeepRequest {
    std::vector<std::string> folders;
    ReportOptions report;
    VerifyOptions verify;
    EvictOptions evict;
    bool quick = false;
    std::string reason, free = "20%";
};

using Work = std::function<int(UpkeepRequest&, Reporter&, const StopFlag&)>;

/// A subcommand with DEST... and what every one has.
CLI::App& add(CLI::App& app, int& status, const std::string& name, const std::string& help,
              const std::shared_ptr<UpkeepRequest>& request, Work work) {
    CLI::App* const command = app.add_subcommand(name, help);
    command->add_option("DEST", request->folders, "Folders that datasets are staged in")->required();
    request->report.add_to(*command);
    command->callback([request, work = std::move(work), &status] {
        status = run_with(request->report, [&](Reporter& reporter, const StopFlag& stop) {
            return work(*request, reporter, stop);
        });
    });
    return *command;
}

void add_verify(CLI::App& app, int& status) {
    const auto request = std::make_shared<UpkeepRequest>();
    CLI::App& command = add(app, status, "verify", "Compare staged files with what was staged", request,
                            [](UpkeepRequest& asked, Reporter& reporter, const StopFlag& stop) {
                                return stage_verify(asked.folders, asked.verify, reporter, stop);
                            });
    auto* const quick = command.add_flag("--quick", request->quick, "Sizes, times and extents (the default)");
    command.add_flag("--full", request->verify.full, "Read every byte, past the page cache")->excludes(quick);
    command.add_flag("--remove-bad", request->verify.remove_bad,
                     "Remove files that are not what was staged; `in` then copies them again");
}

void add_evict(CLI::App& app, int& status) {
    const auto request = std::make_shared<UpkeepRequest>();
    CLI::App& command = add(app, status, "evict", "Remove what was staged", request,
                            [](UpkeepRequest& asked, Reporter& reporter, const StopFlag& stop) {
                                return stage_evict(asked.folders, asked.evict, reporter, stop);
                            });
    command.add_flag("--even-pinned", request->evict.even_pinned, "Pinned datasets too");
    command.add_flag("--wait", request->evict.wait, "Wait for another tierfs-stage that works in DEST");
    command.add_flag("--dry-run", request->evict.dry_run, "Only say what would go");
    command.add_option("--farm", request->evict.farm, "Folder whose symbolic links go too");
}

void add_gc(CLI::App& app, int& status) {
    const auto request = std::make_shared<UpkeepRequest>();
    CLI::App& command = add(app, status, "gc",
                            "Evict the datasets below DEST that were used longest ago, until enough is free",
                            request, [](UpkeepRequest& asked, Reporter& reporter, const StopFlag& stop) {
                                const KeepFree wanted = must(parse_keep_free(asked.free), "--free");
                                return stage_gc(asked.folders, wanted, asked.evict, reporter, stop);
                            });
    command.add_option("--free", request->free, "SIZE or PERCENT that is to be free")->capture_default_str();
    command.add_flag("--dry-run", request->evict.dry_run, "Only say what would go");
}

}  // namespace

void add_upkeep(CLI::App& app, int& status) {
    add(app, status, "status", "Show what is staged, what is unfinished and what is pinned",
        std::make_shared<UpkeepRequest>(),
        [](UpkeepRequest& asked, Reporter& reporter, const StopFlag& stop) {
            return stage_status(asked.folders, reporter, stop);
        });
    add_verify(app, status);
    const auto pin = std::make_shared<UpkeepRequest>();
    add(app, status, "pin", "Keep datasets from evict and gc", pin,
        [](UpkeepRequest& asked, Reporter& reporter, const StopFlag& stop) {
            return stage_pin(asked.folders, asked.reason, reporter, stop);
        })
        .add_option("--reason", pin->reason, "For people who look into DEST/.tierfs-stage/pin");
    add(app, status, "unpin", "Let evict and gc have them again", std::make_shared<UpkeepRequest>(),
        [](UpkeepRequest& asked, Reporter& reporter, const StopFlag& stop) {
            return stage_unpin(asked.folders, reporter, stop);
        });
    add_evict(app, status);
    add_gc(app, status);
}

}  // namespace tierfs::stage
