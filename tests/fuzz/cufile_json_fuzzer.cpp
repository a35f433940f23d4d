// floor: fs
// A configuration of cuFile that somebody wrote, and versions in texts. Input: the file.
#include "fs/gds/cufile_json.hpp"
#include "fs/gds/host_files.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto text = fuzz::text_of(data, size);
    if (const auto settings = gds::parse_cufile_json(text)) {
        const gds::CuFileChoice choice{.p2pdma = settings->p2pdma_property && settings->p2pdma_nvme,
                                       .allow_compat = settings->allow_compat,
                                       .stats = 0,
                                       .gpu_memory_kb = settings->max_direct_io_kb.value_or(0)};
        const auto again = gds::parse_cufile_json(gds::cufile_json(choice));
        fuzz::require(again.has_value(), "what is written is read");
        fuzz::require(again->p2pdma_property == choice.p2pdma && again->p2pdma_nvme == choice.p2pdma &&
                          again->allow_compat == choice.allow_compat && !again->block_misplaced,
                      "and means the same");
    }
    if (const auto version = gds::version_in(text)) {
        fuzz::require(version->parts.size() >= 2, "a version has a dot");
        fuzz::require(gds::version_in(version->text()) == *version, "a version prints and parses back");
    }
    return 0;
}
