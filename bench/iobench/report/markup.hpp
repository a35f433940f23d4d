// The parts that a page is put together from. All return HTML; what came from files is escaped in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/iobench/report/gnuplot.hpp"
#include "bench/iobench/report/sections.hpp"

namespace tierfs::iobench {

/// element("td class='number'", "5"): <td class='number'>5</td>. The content is HTML.
std::string element(std::string_view opening, std::string_view content);

/// A list of escaped texts.
std::string list_of(const std::vector<std::string>& texts);

/// The ratios of the metric that says most, over all sections.
std::string headline_tables(const std::vector<Section>& sections);

/// A table for each metric of the section.
std::string figure_tables(const Section& section);

/// Targets, and for each file its command, host, parameters and disturbances.
std::string circumstances(const Section& section);

/// Draws the plots of sections until gnuplot turns out not to be there. Not thread-safe.
class Plotter {
  public:
    /// `gnuplot` outlives it.
    explicit Plotter(const Gnuplot& gnuplot) : gnuplot_(gnuplot) {}

    /// <figure> elements; `id` begins the ids inside.
    std::string plots(const Section& section, const std::string& id);

    /// What could not be drawn, each once.
    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

  private:
    std::string drawing(const struct Chart& chart, const std::string& id, const std::string& description);

    const Gnuplot& gnuplot_;
    bool missing_ = false;
    std::vector<std::string> problems_;
};

}  // namespace tierfs::iobench
