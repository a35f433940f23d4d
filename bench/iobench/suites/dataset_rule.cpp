#include "bench/iobench/suites/dataset_rule.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "bench/iobench/suites/samples.hpp"

namespace tierfs::iobench {

namespace {

constexpr double kAsked = 5;  // x the memory

std::string_view name_of(DropCaches drop) {
    return drop == DropCaches::page ? "the page cache is dropped"
                                    : "page cache, dentries and inodes are dropped";
}

std::string size_of(const DatasetFacts& facts) {
    char text[100];
    const double share =
        facts.memory == 0 ? 0 : static_cast<double>(facts.dataset) / static_cast<double>(facts.memory);
    std::snprintf(text, sizeof text, "an epoch reads %.3g MB, %.2g x the memory",
                  static_cast<double>(facts.dataset) / 1e6, share);
    return text;
}

}  // namespace

DatasetRule judge(const DatasetFacts& facts) {
    const auto dataset = static_cast<double>(facts.dataset), memory = static_cast<double>(facts.memory);
    DatasetRule rule{size_of(facts), {}, facts.drop};
    const bool large = dataset >= kAsked * memory;
    rule.text += large ? ", as MLPerf Storage asks (5 x)" : "; MLPerf Storage asks for 5 x";
    if (!large && facts.preset && facts.drop == DropCaches::none && !facts.drop_given && facts.can_drop)
        rule.drop = DropCaches::page;
    if (rule.drop != DropCaches::none)
        rule.text += "; " + std::string(name_of(rule.drop)) + " before each epoch";
    if (facts.in_memory) {
        rule.warning = "the dataset is on a tmpfs: it is read from memory, whatever is dropped";
    } else if (!large && rule.drop == DropCaches::none) {
        rule.text += "; no caches are dropped";
        if (facts.preset)
            rule.warning =
                "the figures may be those of the page cache: the dataset is smaller than 5 x the memory, "
                "and " +
                std::string(facts.drop_given ? "--drop-caches none was given; leave it out"
                                             : "caches cannot be dropped here; run as root") +
                ", or raise --scale";
    }
    return rule;
}

Result<DatasetRule> dataset_rule(const RunOptions& options, bool drop_given) {
    const auto set = find_samples(options);
    const auto packed = set ? Result<std::optional<SampleSet>>(std::nullopt) : find_packed(options);
    if (!set && (!packed || !*packed)) return fail(set.error());
    const SampleSet& samples = set ? *set : **packed;
    DatasetFacts facts;
    const std::uint64_t count = samples.samples.size();
    const std::uint64_t read = options.samples.files == 0 ? count : std::min(count, options.samples.files);
    facts.dataset = static_cast<std::uint64_t>(mean_size(samples, options) * static_cast<double>(read));
    facts.memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    facts.drop = options.drop;
    facts.drop_given = drop_given;
    facts.preset = !options.preset.empty();
    facts.can_drop = access("/proc/sys/vm/drop_caches", W_OK) == 0;
    struct statfs attributes {};
    facts.in_memory = statfs(options.path.c_str(), &attributes) == 0 &&
                      (attributes.f_type == TMPFS_MAGIC || attributes.f_type == RAMFS_MAGIC);
    return judge(facts);
}

}  // namespace tierfs::iobench
