#include <cstdio>
#include <exception>

#include "fs/commands/commands.hpp"

int main(int argc, char** argv) {
    try {
        return tierfs::run_command_line(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "tierfs: %s\n", error.what());
        return 1;
    }
}
