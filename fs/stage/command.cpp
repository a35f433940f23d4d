#include "fs/stage/command.hpp"

#include <cstdio>

#include "fs/cli/say.hpp"

namespace tierfs::stage {

int complain(const std::string& text) {
    say_line(stderr, "tierfs-stage: " + text);
    return 1;
}

}  // namespace tierfs::stage
