#include "fs/observe/metrics.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace tierfs {
namespace {

/// Length of the UTF-8 character that begins there; 0: none does.
std::size_t character_at(std::string_view text, std::size_t at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    if (length == 0 || at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((static_cast<unsigned char>(text[at + i]) & 0xC0U) != 0x80U) return 0;
    }
    const auto second = length > 1 ? static_cast<unsigned char>(text[at + 1]) : 0U;
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool outside = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
    return overlong || outside ? 0 : length;
}

std::string number(double value) {
    std::array<char, 40> text{};
    const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
    std::snprintf(text.data(), text.size(), whole ? "%.0f" : "%.9g", value);
    return text.data();
}

std::string_view kind_name(MetricKind kind) {
    return kind == MetricKind::counter ? "counter" : kind == MetricKind::gauge ? "gauge" : "histogram";
}

}  // namespace

std::string label(std::string_view name, std::string_view value) {
    std::string out = std::string(name) + "=\"";
    for (std::size_t at = 0; at < value.size();) {
        const auto length = character_at(value, at);
        if (length == 0) {
            out += '?';
        } else if (value[at] == '\n') {
            out += "\\n";
        } else {
            if (value[at] == '"' || value[at] == '\\') out += '\\';
            out += value.substr(at, length);
        }
        at += std::max<std::size_t>(length, 1);
    }
    return out + '"';
}

void Samples::add(const std::string& labels, double value) {
    out_ += name_;
    if (!labels.empty()) out_ += "{" + labels + "}";
    out_ += " " + number(value) + "\n";
}

void Samples::add(const std::string& labels, const LatencyStats& latencies) {
    constexpr double kMicrosecond = 1e-6;
    const std::string before = labels.empty() ? std::string() : labels + ",";
    const std::string after = labels.empty() ? std::string() : "{" + labels + "}";
    std::uint64_t below = 0;
    const auto bucket = [&](const std::string& bound) {
        out_ += std::string(name_) + "_bucket{" + before + label("le", bound) + "} " + std::to_string(below) +
                "\n";
    };
    for (std::size_t i = 0; i < LatencyStats::kBuckets; ++i) {
        below += latencies.counts.at(i);
        const bool last = i + 1 == LatencyStats::kBuckets;
        bucket(last ? "+Inf" : number(static_cast<double>(LatencyStats::bound_us(i)) * kMicrosecond));
    }
    out_ += std::string(name_) + "_sum" + after + " " +
            number(static_cast<double>(latencies.sum_us) * kMicrosecond) + "\n";
    out_ += std::string(name_) + "_count" + after + " " + std::to_string(below) + "\n";
}

std::string metrics_text(const StatusInputs& in) {
    std::string out;
    for (const Metric& metric : metrics_table()) {
        std::string samples;
        Samples collected(samples, metric.name);
        metric.collect(in, collected);
        if (samples.empty()) continue;
        out += "# HELP " + std::string(metric.name) + " " + std::string(metric.help) + "\n";
        out += "# TYPE " + std::string(metric.name) + " " + std::string(kind_name(metric.kind)) + "\n";
        out += samples;
    }
    return out;
}

std::string metrics_man() {
    std::string out;
    for (const Metric& metric : metrics_table()) {
        const std::string labels = metric.labels.empty() ? "" : "{" + std::string(metric.labels) + "}";
        out += ".TP\n.B " + std::string(metric.name) + labels + "\n" + std::string(kind_name(metric.kind)) +
               ": " + std::string(metric.help) + "\n";
    }
    return out;
}

}  // namespace tierfs
