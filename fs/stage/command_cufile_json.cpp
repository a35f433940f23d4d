#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "fs/cli/say.hpp"
#include "fs/gds/cufile_json.hpp"
#include "fs/gds/pci.hpp"
#include "fs/gds/software.hpp"
#include "fs/stage/command.hpp"

namespace tierfs::stage {

namespace {

struct CufileJsonOptions {
    std::string output, p2pdma = "auto";
    bool force = false, strict = false;
    unsigned stats = 0;
};

std::uint64_t smallest_memory_kb(const gds::HostFiles& files) {
    std::uint64_t smallest = 0;
    for (const auto& gpu : gds::find_gpus(files, gds::memory_by_nvml)) {
        const std::uint64_t kb = gpu.memory_bytes.value_or(0) >> 10U;
        if (kb != 0) smallest = smallest == 0 ? kb : std::min(smallest, kb);
    }
    return smallest;
}

/// Whole under its name or not there at all: a program may be starting that reads it.
Result<void> write_whole(const CufileJsonOptions& options, const std::string& text) {
    const std::string part = options.output + ".tierfs-part." + std::to_string(::getpid());
    const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file) return tierfs::fail(system_error(errno, options.output));
    const auto undone = [&](int code) {
        ::unlink(part.c_str());
        return tierfs::fail(system_error(code, options.output));
    };
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 || ::fsync(file.get()) != 0) return undone(errno);
    if (static_cast<std::size_t>(written) != text.size()) return undone(ENOSPC);
    // link(2) does not replace what is there, whoever made it meanwhile.
    const int done = options.force ? ::rename(part.c_str(), options.output.c_str())
                                   : ::link(part.c_str(), options.output.c_str());
    if (done != 0) return undone(errno);
    if (!options.force) ::unlink(part.c_str());
    return {};
}

int write_cufile_json(const CufileJsonOptions& options) {
    const gds::HostFiles files;
    gds::CuFileChoice choice;
    choice.p2pdma =
        options.p2pdma == "on" || (options.p2pdma == "auto" &&
                                   gds::can_p2pdma(gds::look_at_software(files, gds::library_environment())));
    choice.allow_compat = !options.strict;
    choice.stats = options.stats;
    choice.gpu_memory_kb = smallest_memory_kb(files);
    const std::string text = gds::cufile_json(choice);
    if (options.output.empty()) {
        return !say(stdout, text) ? complain("standard output: the text could not be written") : 0;
    }
    if (const auto written = write_whole(options, text); !written) {
        return complain(written.error().code == EEXIST
                            ? options.output + " is there already: --force replaces it"
                            : written.error().message);
    }
    return 0;
}

}  // namespace

void add_cufile_json(CLI::App& app, int& status) {
    const auto options = std::make_shared<CufileJsonOptions>();
    auto* command = app.add_subcommand(
        "cufile-json", "Writes a configuration of cuFile (cufile.json) that is right for this machine");
    command->add_option("--output", options->output, "write it to this file (default: standard output)");
    command->add_flag("--force", options->force, "replace the file when it is there");
    command
        ->add_option("--p2pdma", options->p2pdma, "use PCI P2PDMA: auto, when driver and kernel can; on; off")
        ->check(CLI::IsMember({"auto", "on", "off"}))
        ->capture_default_str();
    command->add_flag("--strict", options->strict,
                      "forbid compatibility mode: what cannot be read directly is an error");
    command->add_option("--stats", options->stats, "level of cuFile's own statistics, 0 to 3; from 1, logged")
        ->check(CLI::Range(0U, 3U))
        ->capture_default_str();
    command->footer(
        "Exit status: 0 written, 1 not, 2 wrong usage. CUFILE_ENV_PATH_JSON=FILE tells programs of it.");
    command->callback([options, &status] { status = write_cufile_json(*options); });
}

}  // namespace tierfs::stage
