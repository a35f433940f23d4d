// Sections of a report: files of one suite that were measured alike, their targets as columns.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/iobench/report/comparison.hpp"

namespace tierfs::iobench {

/// A target of a file. Does not own the file.
struct Column {
    std::string label;  ///< unlike every other of its section
    Side side;
};

/// A metric of a section.
struct SectionMetric {
    std::string name, unit;
    Better better = Better::neither;
};

/// Immutable once made. Does not own the results.
class Section {
  public:
    Section(std::string title, std::vector<const NamedResult*> results);

    [[nodiscard]] const std::string& title() const { return title_; }
    [[nodiscard]] const std::vector<const NamedResult*>& results() const { return results_; }
    [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }

    /// In the order in which the files have them.
    [[nodiscard]] const std::vector<std::string>& cases() const { return cases_; }
    [[nodiscard]] const std::vector<SectionMetric>& metrics() const { return metrics_; }

    /// Null where the column has none.
    [[nodiscard]] const ResultFigure* figure(std::size_t column, const std::string& test,
                                             const std::string& metric) const;

    /// The first column against another one; none where a figure is missing on a side.
    [[nodiscard]] std::optional<Row> against_first(std::size_t column, const std::string& test,
                                                   const std::string& metric) const;

    /// Whether a column has it.
    [[nodiscard]] bool anywhere(const std::string& test, const std::string& metric) const;

    /// Metrics worth a plot, the one that says most first: at least one for each case, none of those of which
    /// more and less are alike.
    [[nodiscard]] std::vector<SectionMetric> main_metrics() const;

  private:
    void add_figures(std::size_t column);

    std::string title_;
    std::vector<const NamedResult*> results_;
    std::vector<Column> columns_;
    std::vector<std::string> cases_;
    std::vector<SectionMetric> metrics_;
    std::map<std::tuple<std::size_t, std::string, std::string>, const ResultFigure*> figures_;
};

/// Files share a section when suite, preset and parameters are the same and no target is in two of them.
std::vector<Section> sections_of(const std::vector<NamedResult>& results);

}  // namespace tierfs::iobench
