#include "fs/stage/command.hpp"

#include <cstdio>

namespace tierfs::stage {

int complain(const std::string& text) {
    std::fprintf(stderr, "tierfs-stage: %s\n", text.c_str());
    return 1;
}

}  // namespace tierfs::stage
