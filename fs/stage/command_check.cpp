#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "fs/cli/say.hpp"
#include "fs/gds/check.hpp"
#include "fs/stage/command.hpp"
#include "fs/stage/place.hpp"

namespace tierfs::stage {

namespace {

struct CheckOptions {
    std::string path;
    bool json = false, full = false;
};

int check(const CheckOptions& options) {
    const auto place = look_at_place(options.path);
    if (!place) {
        // 1 says that the direct path is shut, which nobody knows here.
        complain(place.error().message);
        return 2;
    }
    const gds::Findings tried = options.full ? try_direct_io(options.path) : gds::Findings{};
    const gds::Host host{gds::HostFiles(), gds::library_environment(), gds::memory_by_nvml};
    const auto report = gds::check(host, *place, tried);
    const std::string text = options.json ? gds::report_json(report) : gds::report_text(report);
    if (!say(stdout, text)) {
        complain("standard output: the report could not be written");
        return 2;
    }
    return report.direct() ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& app, int& status) {
    const auto options = std::make_shared<CheckOptions>();
    auto* command = app.add_subcommand(
        "check", "Tells whether cuFile would read directly from PATH to a GPU, and if not, why");
    command->add_option("PATH", options->path, "a folder or a file")->required();
    command->add_flag("--json", options->json, "for programs: everything that was found, as JSON");
    command->add_flag("--full", options->full,
                      "also write 4 MiB to a file without a name there, and see that direct I/O is direct");
    command->footer("Exit status: 0 the direct path is open, 1 it is not, 2 wrong usage or no such path.");
    command->callback([options, &status] { status = check(*options); });
}

}  // namespace tierfs::stage
