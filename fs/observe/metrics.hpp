// fs/observe/: what a mount counts, for Prometheus. metrics.hpp has the table of metrics and the text that is
// fetched, http_responder.hpp serves it. fs/daemon starts it where metrics.listen asks for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fs/observe/status.hpp"

namespace tierfs {

enum class MetricKind { counter, gauge, histogram };

/// The samples of one metric, in the text format. Plain, of one thread.
class Samples {
  public:
    Samples(std::string& out, std::string_view name) : out_(out), name_(name) {}

    /// `labels`: as label() makes them, with commas between.
    void add(const std::string& labels, double value);
    void add(double value) { add({}, value); }
    void add(const std::string& labels, const LatencyStats& latencies);

  private:
    std::string& out_;
    std::string_view name_;
};

/// `name="value"`; what the format does not allow in a value is escaped, what is not UTF-8 becomes '?'.
std::string label(std::string_view name, std::string_view value);

/// One metric. Names follow Prometheus's rules: base units, counters end in _total.
struct Metric {
    std::string_view name;
    MetricKind kind;
    std::string_view labels;  ///< for people: "tier"; empty: none
    std::string_view help;
    void (*collect)(const StatusInputs& in, Samples& samples);
};

/// All of them: the served text and the manual's list come from it.
const std::vector<Metric>& metrics_table();

/// The text format, version 0.0.4
/// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format).
std::string metrics_text(const StatusInputs& in);

/// The list in man(7) markup, for tierfs(8).
std::string metrics_man();

}  // namespace tierfs
