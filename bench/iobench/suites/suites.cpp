#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {

std::vector<std::unique_ptr<SuiteKind>> suite_kinds() {
    std::vector<std::unique_ptr<SuiteKind>> kinds;
    kinds.push_back(seqrand_kind());
    kinds.push_back(smallfiles_kind());
    kinds.push_back(epoch_kind());
    kinds.push_back(depth_kind());
    kinds.push_back(metadata_kind());
    kinds.push_back(loader_kind());
    kinds.push_back(checkpoint_kind());
    return kinds;
}

}  // namespace tierfs::iobench
