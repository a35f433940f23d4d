#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/iobench/command.hpp"
#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/data/presets.hpp"
#include "bench/iobench/run/progress.hpp"

namespace tierfs::iobench {

namespace {

const std::map<std::string, Kind> kKinds = {
    {"jpeg", Kind::jpeg}, {"npz", Kind::npz}, {"tfrecord", Kind::tfrecord}, {"random", Kind::random}};

struct GenOptions {
    DatasetPlan plan;
    std::vector<std::string> large;
    std::string manifest, preset;
    double scale = 1;
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

/// What the preset says, where the command line did not say otherwise.
void apply_preset(const CLI::App& app, GenOptions& options) {
    const Preset* preset = find_preset(options.preset);
    if (preset == nullptr) return;
    const auto given = [&](const char* name) { return app.get_option(name)->count() > 0; };
    const ScaledFiles count = scaled(*preset, options.scale);
    DatasetPlan& plan = options.plan;
    if (!given("--kind")) plan.kind = preset->kind;
    if (!given("--files")) plan.files = count.files;
    if (!given("--records-per-file")) plan.records = plan.kind == Kind::tfrecord ? count.records : 1;
    if (!given("--size") && !given("--size-stdev")) plan.size_stdev = preset->size_stdev;
    if (!given("--size")) plan.size = preset->size;
    std::printf("preset %s x %g: %" PRIu64 " %s of %" PRIu64 " samples, %" PRIu64 " +- %" PRIu64
                " bytes each (MLPerf Storage, %s)\n",
                options.preset.c_str(), options.scale, plan.files, plan.files == 1 ? "file" : "files",
                plan.records, plan.size, plan.size_stdev, std::string(preset->source).c_str());
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

void add_sample_options(CLI::App& app, GenOptions& options) {
    DatasetPlan& plan = options.plan;
    std::vector<std::string> names;
    for (const auto& preset : presets()) names.emplace_back(preset.name);
    app.add_option("--preset", options.preset,
                   "the dataset of an MLPerf Storage workload: " + CLI::detail::join(names, ", ") +
                       "; kind, number and sizes, of which any may be given otherwise")
        ->check(CLI::IsMember(names))
        ->option_text("NAME");
    app.add_option("--scale", options.scale, "of the preset's samples, so many: 0.01 makes a hundredth")
        ->check(CLI::Range(1e-9, 1e6))
        ->needs("--preset")
        ->option_text("FACTOR");
    app.add_option("--kind", plan.kind,
                   "of the files: jpeg (the default), npz (numpy), tfrecord (TensorFlow's framing around "
                   "random bytes) or random bytes")
        ->transform(CLI::CheckedTransformer(kKinds, CLI::ignore_case))
        ->option_text("KIND");
    app.add_option("--files", plan.files, "how many; DIR/class_000/00000001.jpg and so on")
        ->capture_default_str();
    app.add_option(
           "--size", plan.size,
           "of each sample to the byte, or with --size-stdev their mean; K, M and G are powers of 1024")
        ->transform(CLI::AsSizeValue(false))
        ->option_text("SIZE");
    app.add_option("--size-stdev", plan.size_stdev,
                   "standard deviation of the sizes: a normal distribution, cut off at size/16 and at 4 "
                   "deviations above; default 0, all of one size")
        ->transform(CLI::AsSizeValue(false))
        ->option_text("SIZE");
}

void add_packing_options(CLI::App& app, DatasetPlan& plan) {
    app.add_option(
           "--records-per-file", plan.records,
           "samples in each file; above 1 only with tfrecord, and DIR/records.tsv then says where each is")
        ->option_text("N");
    auto* count =
        app.add_option("--tar-shards", plan.shards.count,
                       "pack the same samples into so many tars too, DIR/shards/00000.tar and so on, with "
                       "an index of them, DIR/shards/index.tsv")
            ->check(CLI::PositiveNumber)
            ->option_text("N");
    app.add_option("--shard-size", plan.shards.size, "likewise, in tars of at most so many bytes of samples")
        ->transform(CLI::AsSizeValue(false) & CLI::PositiveNumber)
        ->excludes(count)
        ->option_text("SIZE");
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
    add_sample_options(*gen_app, *options);
    gen_app->add_option("--directories", options->plan.directories,
                        "over which the files are spread; default: one for each 1000 files");
    gen_app->add_option("--seed", options->plan.seed, "of all content")->capture_default_str();
    gen_app
        ->add_option("--large", options->large,
                     "NAME:BYTES, a file of random bytes beside them; may be repeated")
        ->allow_extra_args(false)
        ->option_text("NAME:SIZE ...");
    add_packing_options(*gen_app, options->plan);
    gen_app->add_option("--manifest", options->manifest,
                        "write sizes and XXH3-128 of the files made here to this file");
    gen_app->add_option("--threads", options->plan.threads, "default: one a processor");
    gen_app->footer("Files that are there and right are kept. Other files in DIR are left alone.");
    gen_app->callback([options, gen_app, &status] {
        apply_preset(*gen_app, *options);
        if (options->plan.files == 0 && options->large.empty())
            throw CLI::RequiredError("--preset, --files with --size, or --large");
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
