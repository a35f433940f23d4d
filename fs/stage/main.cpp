#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "config/base/fault_point.hpp"
#include "fs/stage/command.hpp"

int main(int argc, char** argv) {
    using namespace tierfs::stage;
    int status = 0;
    CLI::App app("tierfs-stage writes copies of datasets in the shape that GPUDirect Storage reads best.",
                 "tierfs-stage");
    app.set_version_flag("-V,--version", "tierfs-stage " TIERFS_VERSION);
    app.require_subcommand(1);
    try {
        add_plan(app, status);
        add_in(app, status);
        add_out(app, status);
        add_upkeep(app, status);
        add_check(app, status);
        add_cufile_json(app, status);
#if TIERFS_TEST_POINTS
        if (const auto problem = tierfs::fault::configure_from_environment(); !problem.empty()) {
            complain(problem);
            return 2;
        }
#endif
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    } catch (const std::exception& error) {
        return complain(error.what());
    }
    return status;
}
