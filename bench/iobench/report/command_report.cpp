#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "bench/iobench/command.hpp"
#include "bench/iobench/data/files.hpp"
#include "bench/iobench/report/page.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

struct ReportRequest {
    std::vector<std::string> files;
    std::string page, csv;
};

Result<void> write(const std::string& path, const std::string& text) {
    return write_atomically(path, false,
                            [&](const Sink& sink) { return sink(std::as_bytes(std::span(text))); });
}

Result<void> report(const ReportRequest& request) {
    std::vector<NamedResult> results;
    for (const auto& path : request.files) {
        auto file = read_result(path);
        if (!file) return fail(file.error());
        results.push_back({path, std::move(*file)});
    }
    if (!request.csv.empty())
        if (auto written = write(request.csv, csv_table(results)); !written) return written;
    if (request.page.empty()) return {};
    std::vector<std::string> problems;
    const std::string page = html_page(results, Gnuplot(), problems);
    for (const auto& problem : problems)
        std::fprintf(stderr, "iobench: warning: %s\n", printable(problem).c_str());
    return write(request.page, page);
}

constexpr const char* kReportFooter = R"(
The page is one file that loads nothing and runs nothing: plots, tables, hosts, commands, mount options, disturbances;
readable in the dark and on paper. Files of one suite with the same parameters and other targets stand beside each
other; the first target is the one that ratios and verdicts are about. gnuplot (Debian's package gnuplot-nox) draws the
plots; without it the page has tables alone.

The CSV (RFC 4180) has a line for each value: file, suite, target, case, metric, unit, run (counts from 1), value.

Exit status: 0 written, 1 failed (a file could not be read or written), 2 wrong usage.)";

}  // namespace

void add_report(CLI::App& app, int& status) {
    auto request = std::make_shared<ReportRequest>();
    auto* report_app = app.add_subcommand("report", "A page with plots and tables from results, and CSV");
    report_app->add_option("FILES", request->files, "files that iobench run --json wrote")
        ->required()
        ->expected(1, 1000);
    auto* page = report_app->add_option("--html", request->page, "write this page")->option_text("PAGE");
    auto* csv =
        report_app->add_option("--csv", request->csv, "write every value to this file")->option_text("FILE");
    report_app->footer(kReportFooter);
    report_app->callback([request, page, csv, &status] {
        if (page->count() + csv->count() == 0) throw CLI::RequiredError("--html or --csv");
        const auto done = report(*request);
        status = done ? 0 : complain(done.error().message);
    });
}

}  // namespace tierfs::iobench
