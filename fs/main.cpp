#include <cstdio>
#include <exception>

#include "config/base/fault_point.hpp"
#include "fs/commands/commands.hpp"

int main(int argc, char** argv) {
    try {
#if TIERFS_TEST_POINTS
        if (const auto problem = tierfs::fault::configure_from_environment(); !problem.empty()) {
            std::fprintf(stderr, "tierfs: %s\n", problem.c_str());
            return 2;
        }
#endif
        return tierfs::run_command_line(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tierfs: %s\n", error.what());
        return 1;
    }
}
