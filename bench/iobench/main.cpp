#include <CLI/CLI.hpp>
#include <exception>

#include "bench/iobench/command.hpp"

int main(int argc, char** argv) {
    using namespace tierfs::iobench;
    int status = 0;
    CLI::App app("iobench makes datasets and measures how fast a file system serves them.", "iobench");
    app.set_version_flag("-V,--version", "iobench " TIERFS_VERSION);
    app.require_subcommand(1);
    try {
        add_gen(app, status);
        add_verify(app, status);
        add_run(app, status);
        add_compare(app, status);
        add_report(app, status);
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    } catch (const std::exception& error) {
        return complain(error.what());
    }
    return status;
}
