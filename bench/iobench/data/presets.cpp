#include "bench/iobench/data/presets.hpp"

#include <algorithm>
#include <cmath>

namespace tierfs::iobench {

std::span<const Preset> presets() {
    static constexpr std::array<Preset, 4> kTable{{
        {"retinanet",
         Kind::jpeg,
         1'170'301,
         1,
         322'957,
         0,
         24,
         8,
         {0, 0, 0.04755},
         85,
         "retinanet_b200.yaml"},
        // 168 files are DLIO's; unet3d_b200.yaml names 7200, which is a scale of 43
        {"unet3d",
         Kind::npz,
         168,
         1,
         146'600'628,
         68'341'808,
         7,
         4,
         {0.636, 0.323, 0.162},
         90,
         "unet3d_a100.yaml, unet3d_h100.yaml, unet3d_b200.yaml"},
        {"resnet50",
         Kind::tfrecord,
         1024,
         1251,
         114'660,
         0,
         400,
         8,
         {0.435, 0.224, 0},
         90,
         "resnet50_a100.yaml, resnet50_h100.yaml"},
        {"cosmoflow",
         Kind::tfrecord,
         524'288,
         1,
         2'828'486,
         71'311,
         1,
         4,
         {0.00551, 0.00350, 0},
         70,
         "cosmoflow_a100.yaml, cosmoflow_h100.yaml"},
    }};
    return kTable;
}

const Preset* find_preset(std::string_view name) {
    const auto all = presets();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
    return found == all.end() ? nullptr : &*found;
}

std::string_view name_of(Accelerator accelerator) {
    constexpr std::array<std::string_view, 3> kNames{"a100", "h100", "b200"};
    return kNames.at(static_cast<std::size_t>(accelerator));
}

Result<ComputeTime> compute_time(const Preset& preset, std::optional<Accelerator> accelerator) {
    const auto of = [&](Accelerator which) { return preset.compute.at(static_cast<std::size_t>(which)); };
    if (!accelerator) accelerator = of(Accelerator::h100) > 0 ? Accelerator::h100 : Accelerator::b200;
    if (of(*accelerator) > 0) return ComputeTime{*accelerator, 1e3 * of(*accelerator)};
    std::string known;
    for (const auto other : {Accelerator::a100, Accelerator::h100, Accelerator::b200})
        if (of(other) > 0) known += (known.empty() ? "" : ", ") + std::string(name_of(other));
    return fail(EINVAL, "--preset " + std::string(preset.name) + ": the compute time of " +
                            std::string(name_of(*accelerator)) + " is not known; known: " + known +
                            "; --compute sets any other");
}

ScaledFiles scaled(const Preset& preset, double scale) {
    const double wanted = std::round(static_cast<double>(preset.files * preset.records) * scale);
    const auto samples = static_cast<std::uint64_t>(std::clamp(wanted, 1.0, 1e15));
    const std::uint64_t files = (samples + preset.records - 1) / preset.records;
    return {files, (samples + files - 1) / files};
}

}  // namespace tierfs::iobench
