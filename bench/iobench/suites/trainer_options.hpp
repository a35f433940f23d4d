// The options of smallfiles, epoch and depth on the command line, and presets, which fill in what it does not
// say.
#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/iobench/data/presets.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

/// The parser writes into this object and into the options given to `add`: both have to outlive it.
class TrainerCommandLine {
  public:
    void add(CLI::App& app, RunOptions& options);

    /// After parsing: what the preset says goes into `options` where the command line said nothing. EINVAL
    /// when the accelerator's compute time is not known. Without a preset it changes nothing.
    Result<void> apply_preset(RunOptions& options) const;

    /// For the report: "preset", "scale", "accelerator" and the options that are shared.
    [[nodiscard]] nlohmann::ordered_json parameters(const RunOptions& options) const;

  private:
    void add_samples(CLI::App& app, SampleOptions& samples);
    void add_trainer(CLI::App& app, TrainerOptions& trainer);
    void add_presets(CLI::App& app, RunOptions& options);
    [[nodiscard]] bool given(const char* name) const;

    const CLI::App* app_ = nullptr;
    double scale_ = 1;
    std::optional<Accelerator> accelerator_;
};

}  // namespace tierfs::iobench
