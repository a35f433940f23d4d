#include <cstdio>
#include <exception>

#include "config/base/fault_point.hpp"
#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"

int main(int argc, char** argv) {
    try {
#if TIERFS_TEST_POINTS
        if (const auto problem = tierfs::fault::configure_from_environment(); !problem.empty()) {
            tierfs::say_line(stderr, "tierfs: " + problem);
            return 2;
        }
#endif
        return tierfs::run_command_line(argc, argv);
    } catch (const std::exception& error) {
        tierfs::say_line(stderr, std::string("tierfs: ") + error.what());
        return 1;
    }
}
