// floor: bench
// A result of iobench, which may come from anybody, on its way to a page, a table and gnuplot. Input: the
// file.
#include "bench/iobench/report/page.hpp"
#include "bench/iobench/report/plots.hpp"
#include "bench/iobench/report/text.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace tierfs;
using namespace tierfs::iobench;

/// Every string of a script of gnuplot's ends on its line and holds nothing that gnuplot obeys.
void check_script(const std::string& script) {
    bool inside = false;
    for (const char c : script) {
        if (c == '\'')
            inside = !inside;
        else if (inside)
            fuzz::require(std::string_view("`\"\\{}@^~\n").find(c) == std::string_view::npos,
                          "a name is only text to gnuplot");
    }
    fuzz::require(!inside, "a string of the script ends");
}

void check_page(const std::vector<NamedResult>& results) {
    std::vector<std::string> problems;
    const std::string page = html_page(results, Gnuplot("/nonexistent/gnuplot"), problems);
    fuzz::require(page.find("<script") == std::string::npos, "a page has no script");
    for (auto rest = std::string_view(page); !rest.empty();) {
        const auto line = fuzz::take_line(rest);
        fuzz::require(printable(line) == line, "a page is UTF-8 without control characters");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const fuzz::MemoryFile file(fuzz::text_of(data, size));
    auto result = read_result(file.path());
    if (!result) return 0;
    const std::vector<NamedResult> results = {{"fuzz.json", std::move(*result)}};
    check_page(results);
    for (const auto& section : sections_of(results))
        for (const auto& plot : plots_of(section))
            for (const auto& panel : plot.panels) check_script(script_of(panel));
    fuzz::require(csv_table(results).ends_with("\r\n"), "a table ends with a line's end");
    const auto& targets = results[0].file.targets;
    for (const auto& target : targets) {
        const auto comparison = compare({&results[0], targets.front().name}, {&results[0], target.name});
        static_cast<void>(to_json({comparison}, doubts(results[0])).dump());
    }
    return 0;
}
