#include "bench/iobench/suites/utilization.hpp"

#include <algorithm>

namespace tierfs::iobench {

namespace {

std::uint64_t compute_of(const Step& step) {
    return step.computed - step.loaded;
}
std::uint64_t proc_of(const Step& step) {
    return step.computed - step.asked;
}
std::uint64_t barrier_of(const Step& step) {
    return step.synchronized - step.computed;
}

double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

Utilization& operator+=(Utilization& sum, const Utilization& more) {
    sum.au_percent += more.au_percent;
    sum.au_net_percent += more.au_net_percent;
    sum.samples_per_s += more.samples_per_s;
    return sum;
}

Utilization times(Utilization figures, double factor) {
    return {figures.au_percent * factor, figures.au_net_percent * factor, figures.samples_per_s * factor};
}

}  // namespace

Utilization block_utilization(const StepBlock& block, std::uint64_t epoch_steps, const Measured& measured) {
    const std::uint64_t first = measured.exclude_start;
    const std::uint64_t end = epoch_steps - std::min(epoch_steps, measured.exclude_end);  // s1 + 1
    std::uint64_t compute = 0, outside = 0, barriers = 0;
    for (std::uint64_t k = 0; k < block.steps.size(); ++k) {
        const Step& step = block.steps[k];
        if (k >= first && k < end) {
            compute += compute_of(step);
        } else {
            outside += proc_of(step);
        }
        barriers += barrier_of(step);
    }
    const double total = static_cast<double>(block.end - block.start) - static_cast<double>(outside);
    const double computed = static_cast<double>(compute);
    const double counted = static_cast<double>(std::max<std::size_t>(block.steps.size(), 2) - 2);
    return {100 * ratio(computed, total), 100 * ratio(computed, total - static_cast<double>(barriers)),
            ratio(counted, total / 1e9) * static_cast<double>(measured.batch)};
}

Utilization rank_utilization(const RankTrace& rank, const Measured& measured) {
    std::uint64_t steps = 0;
    for (const StepBlock& block : rank) steps += block.steps.size();
    if (steps == 0) return {};
    Utilization sum;
    for (const StepBlock& block : rank)
        sum += times(block_utilization(block, steps, measured), static_cast<double>(block.steps.size()));
    return times(sum, 1 / static_cast<double>(steps));
}

Utilization epoch_utilization(const EpochTrace& epoch, const Measured& measured) {
    Utilization sum;
    for (const RankTrace& rank : epoch) sum += rank_utilization(rank, measured);
    if (epoch.empty()) return sum;
    const auto ranks = static_cast<double>(epoch.size());
    return {sum.au_percent / ranks, sum.au_net_percent / ranks, sum.samples_per_s};
}

Utilization run_utilization(const std::vector<EpochTrace>& epochs, const Measured& measured) {
    Utilization sum;
    for (const EpochTrace& epoch : epochs) sum += epoch_utilization(epoch, measured);
    return epochs.empty() ? sum : times(sum, 1 / static_cast<double>(epochs.size()));
}

Times times_of(const EpochTrace& epoch) {
    std::uint64_t load = 0, compute = 0, barrier = 0;
    for (const RankTrace& rank : epoch)
        for (const StepBlock& block : rank)
            for (const Step& step : block.steps) {
                load += step.loaded - step.asked;
                compute += compute_of(step);
                barrier += barrier_of(step);
            }
    const double ranks = 1e9 * static_cast<double>(std::max<std::size_t>(epoch.size(), 1));
    return {static_cast<double>(load) / ranks, static_cast<double>(compute) / ranks,
            static_cast<double>(barrier) / ranks};
}

}  // namespace tierfs::iobench
