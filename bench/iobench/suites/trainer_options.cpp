#include "bench/iobench/suites/trainer_options.hpp"

#include <CLI/CLI.hpp>

namespace tierfs::iobench {

namespace {

/// Above the largest sample of any preset.
constexpr std::uint64_t kPresetMaxFile = 2ULL << 30;

const std::map<std::string, Accelerator> kAccelerators = {
    {"a100", Accelerator::a100}, {"h100", Accelerator::h100}, {"b200", Accelerator::b200}};

}  // namespace

void TrainerCommandLine::add(CLI::App& app, RunOptions& options) {
    app_ = &app;
    add_samples(app, options.samples);
    add_trainer(app, options.trainer);
    add_presets(app, options);
}

void TrainerCommandLine::add_samples(CLI::App& app, SampleOptions& samples) {
    app.add_option(
           "--files", samples.files,
           "smallfiles, epoch, depth: read at most so many samples, drawn at random and the same ones in "
           "every epoch and run; 0: all")
        ->capture_default_str();
    app.add_option(
        "--list", samples.list,
        "smallfiles, epoch, depth: read only the files that this file names, a path below --path a line; no "
        "directory is then listed. With a tab and the size behind a path nothing is asked for before it is "
        "read");
    app.add_option("--max-file", samples.max_file,
                   "smallfiles, epoch, depth: leave larger samples out; default 4M, with --preset 2G")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1}, kPresetMaxFile))
        ->option_text("SIZE");
    app.add_option(
           "--record-size", samples.record_size,
           "smallfiles, epoch, depth: a sample is each piece of so many bytes of a file, read where it lies; "
           "default: the whole file, or what DIR/records.tsv says")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(std::uint64_t{1}, kPresetMaxFile))
        ->option_text("SIZE");
}

void TrainerCommandLine::add_trainer(CLI::App& app, TrainerOptions& trainer) {
    app.add_option("--batch", trainer.batch, "epoch, depth: samples in a batch of one rank")
        ->check(CLI::Range(1U, 1U << 20))
        ->capture_default_str();
    app.add_option("--prefetch", trainer.prefetch, "epoch: batches that a worker may be ahead")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    app.add_option("--compute", trainer.compute_ms,
                   "epoch, depth, loader: milliseconds of computing for a batch")
        ->check(CLI::Range(0.0, 3.6e6))
        ->capture_default_str();
    app.add_option("--ranks", trainer.ranks,
                   "epoch, depth: emulated accelerators, over which samples are divided")
        ->check(CLI::Range(1U, 1024U))
        ->capture_default_str();
    app.add_option("--workers", trainer.workers, "epoch: worker processes of each rank; default: --processes")
        ->check(CLI::Range(1U, 4096U))
        ->option_text("N");
    app.add_option("--epochs", trainer.epochs, "epoch: of a run, each shuffled anew and its caches dropped")
        ->check(CLI::Range(1U, 1000U))
        ->capture_default_str();
    app.add_flag(
        "--keep-last", trainer.keep_last,
        "epoch, depth: read the samples that do not fill a batch too, and some twice if they do not divide "
        "evenly over the ranks (torch's drop_last=False)");
}

void TrainerCommandLine::add_presets(CLI::App& app, RunOptions& options) {
    std::vector<std::string> names;
    for (const auto& preset : presets()) names.emplace_back(preset.name);
    auto* preset =
        app.add_option(
               "--preset", options.preset,
               "epoch, depth, smallfiles: batch, workers, compute time and number of samples of an "
               "MLPerf Storage workload (" +
                   CLI::detail::join(names, ", ") +
                   ") where the options do not say otherwise; the page cache is dropped before "
                   "each epoch unless the dataset is at least 5 x the memory, or --drop-caches is given")
            ->check(CLI::IsMember(names))
            ->option_text("NAME");
    app.add_option("--scale", scale_,
                   "of the preset's samples, at most so many are read, as with iobench gen")
        ->check(CLI::Range(1e-9, 1e6))
        ->needs(preset)
        ->option_text("FACTOR");
    app.add_option("--accelerator", accelerator_,
                   "whose compute time the preset takes: a100, h100 or b200; default: h100, or b200 where "
                   "that is the "
                   "one that is known")
        ->transform(CLI::CheckedTransformer(kAccelerators, CLI::ignore_case))
        ->needs(preset)
        ->option_text("NAME");
}

bool TrainerCommandLine::given(const char* name) const {
    return app_ != nullptr && app_->get_option(name)->count() > 0;
}

Result<void> TrainerCommandLine::apply_preset(RunOptions& options) const {
    const Preset* preset = find_preset(options.preset);
    if (preset == nullptr) return {};
    const ScaledFiles count = scaled(*preset, scale_);
    if (!given("--files")) options.samples.files = count.files * count.records;
    if (!given("--max-file")) options.samples.max_file = kPresetMaxFile;
    TrainerOptions& trainer = options.trainer;
    if (!given("--batch")) trainer.batch = preset->batch;
    if (!given("--workers")) trainer.workers = preset->workers;
    trainer.au_bar_percent = preset->au_percent;
    if (given("--compute")) return {};
    const auto time = compute_time(*preset, accelerator_);
    if (!time) return fail(time.error());
    trainer.compute_ms = time->milliseconds;
    return {};
}

nlohmann::ordered_json TrainerCommandLine::parameters(const RunOptions& options) const {
    const TrainerOptions& trainer = options.trainer;
    nlohmann::ordered_json json = {{"files", options.samples.files},
                                   {"max_file", options.samples.max_file},
                                   {"list", options.samples.list},
                                   {"record_size", options.samples.record_size},
                                   {"batch", trainer.batch},
                                   {"prefetch", trainer.prefetch},
                                   {"compute_ms", trainer.compute_ms},
                                   {"ranks", trainer.ranks},
                                   {"workers", trainer.workers != 0 ? trainer.workers : options.processes},
                                   {"epochs", trainer.epochs},
                                   {"keep_last", trainer.keep_last}};
    const Preset* preset = find_preset(options.preset);
    if (preset == nullptr) return json;
    json["preset"] = options.preset;
    json["scale"] = scale_;
    json["au_bar_percent"] = trainer.au_bar_percent;
    json["preset_source"] = "mlcommons/storage: " + std::string(preset->source);
    const auto time = compute_time(*preset, accelerator_);
    if (time && !given("--compute")) json["accelerator"] = name_of(time->accelerator);
    return json;
}

}  // namespace tierfs::iobench
