// The workloads of MLPerf Storage, as numbers: what a dataset holds and how a trainer reads it.
//
// Source: github.com/mlcommons/storage, configs/dlio/workload: unet3d_{a100,h100,b200}.yaml,
// resnet50_{a100,h100}.yaml, cosmoflow_{a100,h100}.yaml, retinanet_b200.yaml (the one of v3.0; those of A100
// and H100 describe another dataset and are not used).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/iobench/data/payload.hpp"

namespace tierfs::iobench {

enum class Accelerator { a100, h100, b200 };

/// Sizes in bytes. A plain value.
struct Preset {
    std::string_view name;
    Kind kind;
    std::uint64_t files;            ///< num_files_train
    std::uint64_t records;          ///< num_samples_per_file
    std::uint64_t size;             ///< record_length_bytes; with tfrecord its framing is a part of it
    std::uint64_t size_stdev;       ///< record_length_bytes_stdev
    unsigned batch;                 ///< batch_size, of one accelerator
    unsigned workers;               ///< read_threads
    std::array<double, 3> compute;  ///< computation_time, seconds, by Accelerator; 0: not known
    double au_percent;              ///< metric.au: what a submission has to reach
    std::string_view source;
};

std::span<const Preset> presets();

/// Null when there is none of that name.
const Preset* find_preset(std::string_view name);

/// "a100".
std::string_view name_of(Accelerator accelerator);

/// Milliseconds of a step. Without an accelerator: of the H100, or where that is not known of the newest one
/// that is. EINVAL with those that are known.
struct ComputeTime {
    Accelerator accelerator;
    double milliseconds;
};
Result<ComputeTime> compute_time(const Preset& preset, std::optional<Accelerator> accelerator);

/// How many files with how many records each make `scale` of the preset's samples: at least one sample.
struct ScaledFiles {
    std::uint64_t files, records;
};
ScaledFiles scaled(const Preset& preset, double scale);

}  // namespace tierfs::iobench
