#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/iobench/command.hpp"
#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/run/progress.hpp"

namespace tierfs::iobench {

namespace {

const std::map<std::string, Kind> kKinds = {
    {"jpeg", Kind::jpeg}, {"npz", Kind::npz}, {"random", Kind::random}};

struct GenOptions {
    DatasetPlan plan;
    std::vector<std::string> large;
    std::string manifest;
};

/// "NAME:BYTES", divided at the last colon; throws CLI::ValidationError like a wrong option.
LargeFile parse_large(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0)
        throw CLI::ValidationError("--large",
                                   "--large " + text + ": give NAME:BYTES, for example model.bin:2G");
    std::string number = text.substr(colon + 1);
    if (const std::string wrong = CLI::AsSizeValue(false)(number); !wrong.empty())
        throw CLI::ValidationError("--large", "--large " + text + ": " + wrong);
    return {text.substr(0, colon), std::stoull(number)};
}

int gen(GenOptions& options) {
    const auto outcome = make_dataset(options.plan);
    if (!outcome) return complain(outcome.error().message);
    if (!options.manifest.empty())
        if (auto written = write_manifest(options.manifest, outcome->manifest); !written)
            return complain(written.error().message);
    std::printf("%s: %" PRIu64 " files, %.1f MB: %" PRIu64 " written, %" PRIu64 " were right already\n",
                options.plan.directory.c_str(), outcome->written + outcome->kept,
                static_cast<double>(outcome->bytes) / 1e6, outcome->written, outcome->kept);
    return 0;
}

struct VerifyOptions {
    std::string directory, manifest;
};

int verify_directory(const VerifyOptions& options) {
    const auto manifest = read_manifest(options.manifest);
    if (!manifest) return complain(manifest.error().message);
    std::uint64_t total = 0;
    for (const auto& entry : *manifest) total += entry.size;
    auto wrong = [&] {
        Progress progress("iobench: checking " + options.directory, total);
        return verify(options.directory, *manifest, [&](std::uint64_t bytes) { progress.update(bytes); });
    }();
    if (!wrong) return complain(wrong.error().message);
    // a manifest kept inside the dataset does not name itself
    std::erase_if(*wrong, [&](const Mismatch& mismatch) {
        std::error_code error;
        return std::filesystem::equivalent(options.directory + "/" + mismatch.path, options.manifest, error);
    });
    for (const auto& mismatch : *wrong) std::printf("%s: %s\n", mismatch.path.c_str(), mismatch.what.c_str());
    if (!wrong->empty())
        return complain(options.directory + ": " + std::to_string(wrong->size()) + " files differ from " +
                        options.manifest);
    std::printf("%s: %zu files, %.1f MB: all as %s says\n", options.directory.c_str(), manifest->size(),
                static_cast<double>(total) / 1e6, options.manifest.c_str());
    return 0;
}

}  // namespace

int complain(const std::string& text) {
    std::fprintf(stderr, "iobench: %s\n", text.c_str());
    return 1;
}

void add_gen(CLI::App& app, int& status) {
    auto options = std::make_shared<GenOptions>();
    auto* gen_app = app.add_subcommand("gen", "Make a dataset: the same seed gives the same bytes");
    gen_app->add_option("DIR", options->plan.directory, "where; made if it is not there")->required();
    gen_app
        ->add_option("--kind", options->plan.kind,
                     "of the files: jpeg (the default), npz (numpy) or random bytes")
        ->transform(CLI::CheckedTransformer(kKinds, CLI::ignore_case))
        ->option_text("KIND");
    gen_app->add_option("--files", options->plan.files, "how many; DIR/class_000/00000001.jpg and so on")
        ->capture_default_str();
    gen_app
        ->add_option("--size", options->plan.size, "of each file to the byte; K, M and G are powers of 1024")
        ->transform(CLI::AsSizeValue(false))
        ->option_text("SIZE");
    gen_app->add_option("--directories", options->plan.directories,
                        "over which the files are spread; default: one for each 1000 files");
    gen_app->add_option("--seed", options->plan.seed, "of all content")->capture_default_str();
    gen_app
        ->add_option("--large", options->large,
                     "NAME:BYTES, a file of random bytes beside them; may be repeated")
        ->allow_extra_args(false)
        ->option_text("NAME:SIZE ...");
    gen_app->add_option("--manifest", options->manifest,
                        "write sizes and XXH3-128 of the files made here to this file");
    gen_app->add_option("--threads", options->plan.threads, "default: one a processor");
    gen_app->footer("Files that are there and right are kept. Other files in DIR are left alone.");
    gen_app->callback([options, &status] {
        if (options->plan.files == 0 && options->large.empty())
            throw CLI::RequiredError("--files with --size, or --large");
        if (options->plan.files != 0 && options->plan.size == 0 && options->plan.kind != Kind::random)
            throw CLI::RequiredError("--files needs --size");
        for (const auto& text : options->large) options->plan.large.push_back(parse_large(text));
        status = gen(*options);
    });
}

void add_verify(CLI::App& app, int& status) {
    auto options = std::make_shared<VerifyOptions>();
    auto* verify_app = app.add_subcommand("verify", "Check the content of every file against a manifest");
    verify_app->add_option("DIR", options->directory, "the dataset, or a mount or a copy of it")->required();
    verify_app->add_option("MANIFEST", options->manifest, "written by iobench gen --manifest")->required();
    verify_app->footer(
        "Exit status 1, and a line for each file that is wrong, missing or not in the manifest.");
    verify_app->callback([options, &status] { status = verify_directory(*options); });
}

}  // namespace tierfs::iobench
