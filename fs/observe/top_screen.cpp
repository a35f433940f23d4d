#include "fs/observe/top_screen.hpp"

#include <algorithm>
#include <cmath>

#include "config/base/log_lines.hpp"
#include "fs/observe/figures.hpp"

namespace tierfs {
namespace {

std::string two_digits(unsigned long long number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

/// Characters, not bytes: of UTF-8 those that begin one.
std::size_t columns(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string cut(std::string text, std::size_t width) {
    if (columns(text) <= width) return text;
    std::size_t at = 0;
    for (std::size_t left = width; at < text.size(); ++at) {
        if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
        if (left-- == 0) break;
    }
    return text.substr(0, at);
}

std::string left(const std::string& text, std::size_t width) {
    const auto kept = cut(text, width);
    return kept + std::string(width - columns(kept), ' ');
}

std::string right(const std::string& text, std::size_t width) {
    const auto kept = cut(text, width);
    return std::string(width - columns(kept), ' ') + kept;
}

double share(double part, double all) {
    return all > 0 ? std::clamp(part / all, 0.0, 1.0) : 0;
}

std::string share_text(double part, double all) {
    return all > 0 ? decimal(100 * share(part, all), 0, " %") : "-";
}

std::string bar(double filled, std::size_t width) {
    const auto full = static_cast<std::size_t>(std::lround(filled * static_cast<double>(width)));
    return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::string duration(double seconds) {
    const auto all = static_cast<unsigned long long>(std::max(seconds, 0.0));
    if (all >= 172800) return std::to_string(all / 86400) + " d";
    if (all >= 3600)
        return std::to_string(all / 3600) + ":" + two_digits(all / 60 % 60) + ":" + two_digits(all % 60);
    return std::to_string(all / 60) + ":" + two_digits(all % 60);
}

/// One picture's parts, each a few lines.
class Screen {
  public:
    Screen(const TopView& view, std::size_t width) : v_(view), s_(view.interval), width_(width) {}

    std::vector<std::string> head() const {
        const auto right_side = "up " + duration(s_.uptime_s) + "  " + v_.clock;
        const auto room = width_ > columns(right_side) + 2 ? width_ - columns(right_side) - 2 : 0;
        std::vector<std::string> out{left("tierfs top  " + s_.mountpoint + "  " + s_.source, room) + "  " +
                                     right_side};
        if (!v_.notice.empty()) {
            for (std::size_t at = 0; at < v_.notice.size(); at += width_)
                out.push_back(v_.notice.substr(at, width_));
            return out;
        }
        const double hits = of(s_.ram_bytes + s_.nvme_bytes);
        out.push_back("reads " + amount(rate(s_.reads)) + "/s  " + size_text(rate(s_.read_bytes)) +
                      "/s  from the tiers " + share_text(hits, hits + of(s_.origin_bytes)) +
                      (s_.read_errors != 0 ? "  ERRORS " + amount(of(s_.read_errors)) : "") +
                      (s_.read_only ? ""
                                    : "  writes " + amount(rate(s_.writes)) + "/s " +
                                          size_text(rate(s_.write_bytes)) + "/s"));
        out.push_back("waiting " + amount(stall_seconds(s_) / v_.seconds) + " readers on average: origin " +
                      seconds_a_second(s_.latency.origin) + ", nvme " + seconds_a_second(s_.latency.nvme) +
                      ", of these for memory " + seconds_a_second(s_.latency.memory) +
                      (s_.oldest_s >= v_.seconds
                           ? "; " + std::to_string(s_.under_way) + " NOW, the oldest for " +
                                 latency_text(s_.oldest_s * 1e6)
                           : ""));
        if (!s_.origin_away_why.empty())
            out.push_back(
                ("ORIGIN does not answer for " + duration(s_.origin_away_s) + ": " + s_.origin_away_why)
                    .substr(0, width_));
        return out;
    }

    std::vector<std::string> tiers() const {
        std::vector<std::string> out{
            row("tier", "bytes/s", "share", "reads/s", "p50", "p95", "p99", "used", "of")};
        out.push_back(tier_row("ram", s_.ram_bytes, s_.latency.ram, &s_.ram));
        out.push_back(tier_row("nvme", s_.nvme_bytes, s_.latency.nvme, &s_.nvme));
        out.push_back(tier_row("origin", s_.origin_bytes, s_.latency.origin, nullptr));
        return out;
    }

    std::vector<std::string> below() const {
        const LatencyStats& small = s_.latency.fetch_small;
        const LatencyStats& large = s_.latency.fetch_large;
        const double under_way = of(small.sum_us + large.sum_us) * 1e-6 / v_.seconds;
        std::vector<std::string> out;
        out.push_back("origin    " + amount(rate(s_.origin_requests)) + " requests/s, " +
                      size_text(rate(s_.origin_read)) + "/s, " + amount(under_way) + " of " +
                      std::to_string(s_.connections) + " connections" +
                      (s_.origin_errors != 0 ? ", ERRORS " + amount(of(s_.origin_errors)) : ""));
        out.push_back("          p50 " + latency_text(small.percentile_us(0.5)) + " small, " +
                      latency_text(large.percentile_us(0.5)) + " large; throttled " +
                      amount(rate(s_.throttled)) + "/s, retries " + amount(rate(s_.retries)) + "/s, hedged " +
                      amount(rate(s_.hedged)) + "/s");
        out.push_back("metadata  " + amount(rate(s_.metadata_messages)) + " requests/s, p50 " +
                      latency_text(s_.latency.metadata.percentile_us(0.5)) + ", p99 " +
                      latency_text(s_.latency.metadata.percentile_us(0.99)) + "; kernel reads " +
                      std::to_string(s_.passthrough_files) + " files by itself");
        out.push_back("requests  " + std::to_string(s_.under_way) + " under way, the oldest " +
                      latency_text(s_.oldest_s * 1e6) + "; over their deadline " +
                      amount(of(s_.over_deadline)));
        out.push_back("memory    " + size_text(of(s_.memory_used)) + " of " + size_text(of(s_.memory_limit)) +
                      " " + bar(share(of(s_.memory_used), of(s_.memory_limit)), 20) + ", " +
                      std::to_string(s_.waiting_for_memory) + " reads wait for it");
        return out;
    }

    std::vector<std::string> devices() const {
        std::vector<std::string> out;
        for (const auto& device : s_.devices) {
            out.push_back("device    " + left(device.state, 9) + right(size_text(of(device.used)), 10) +
                          " of " + left(size_text(of(device.limit)), 10) +
                          bar(share(of(device.used), of(device.limit)), 10) + " " + device.path +
                          (device.reason.empty() ? "" : ": " + device.reason));
        }
        return out;
    }

    std::vector<std::string> fills() const {
        std::vector<std::string> out;
        for (const auto& dataset : s_.datasets) {
            if (dataset.filled == 0) continue;
            const double rest = of(dataset.fill_total) - of(dataset.filled_so_far);
            out.push_back("fill      " + dataset.match + "  " + size_text(of(dataset.filled_so_far)) +
                          " of " + size_text(of(dataset.fill_total)) + "  " +
                          size_text(rate(dataset.filled)) + "/s" +
                          (rest > 0 ? "  " + duration(rest / rate(dataset.filled)) + " left" : ""));
        }
        return out;
    }

    std::vector<std::string> datasets() const {
        auto sorted = s_.datasets;
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const auto& a, const auto& b) { return a.read > b.read; });
        const auto name = width_ > 66 ? width_ - 66 : 10;
        std::vector<std::string> out{left("dataset", name) + right("bytes/s", 12) + right("origin", 12) +
                                     right("kept", 12) + "  class"};
        for (const auto& dataset : sorted) {
            out.push_back(left(dataset.match, name) + right(size_text(rate(dataset.read)) + "/s", 12) +
                          right(share_text(of(dataset.from_origin), of(dataset.read)), 12) +
                          right(size_text(of(dataset.kept)), 12) + "  " + dataset.current +
                          (dataset.frozen ? ", frozen" : ""));
        }
        return out;
    }

  private:
    double rate(std::uint64_t value) const { return of(value) / v_.seconds; }
    std::string seconds_a_second(const LatencyStats& latency) const {
        return amount(of(latency.sum_us) * 1e-6 / v_.seconds);
    }

    std::string row(const std::string& name, const std::string& bytes, const std::string& part,
                    const std::string& reads, const std::string& p50, const std::string& p95,
                    const std::string& p99, const std::string& used, const std::string& limit) const {
        const std::size_t wider = width_ > 80 ? std::min<std::size_t>((width_ - 80) / 8, 6) : 0;
        return left(name, 7) + right(bytes, 11 + wider) + right(part, 7 + wider) + right(reads, 8 + wider) +
               right(p50, 8 + wider) + right(p95, 8 + wider) + right(p99, 8 + wider) +
               right(used, 11 + wider) + right(limit, 11 + wider);
    }

    std::string tier_row(const char* name, std::uint64_t bytes, const LatencyStats& latency,
                         const TierSample* tier) const {
        const double all = of(s_.ram_bytes + s_.nvme_bytes + s_.origin_bytes);
        const bool off = tier != nullptr && tier->state == "off";
        return row(name, off ? "off" : size_text(rate(bytes)), off ? "" : share_text(of(bytes), all),
                   amount(rate(latency.count())), latency_text(latency.percentile_us(0.5)),
                   latency_text(latency.percentile_us(0.95)), latency_text(latency.percentile_us(0.99)),
                   tier == nullptr || off ? "" : size_text(of(tier->used)),
                   tier == nullptr || off ? "" : size_text(of(tier->limit)));
    }

    const TopView& v_;
    const Snapshot& s_;
    const std::size_t width_;
};

/// Takes lines while there is room; the last of a part that does not fit says how many are missing.
void put(std::vector<std::string>& out, const std::vector<std::string>& part, std::size_t height, bool gap) {
    if (part.empty()) return;
    if (gap && out.size() + 1 < height) out.emplace_back();
    for (std::size_t i = 0; i < part.size() && out.size() < height; ++i) {
        const std::size_t rest = part.size() - i;
        if (out.size() + 1 == height && rest > 1) {
            out.push_back("... " + std::to_string(rest) + " more lines");
        } else {
            out.push_back(part[i]);
        }
    }
}

}  // namespace

std::vector<std::string> top_lines(const TopView& view, std::size_t width, std::size_t height) {
    width = std::max<std::size_t>(width, 20);
    const Screen screen(view, width);
    std::vector<std::string> out;
    put(out, screen.head(), height, false);
    if (view.notice.empty()) {
        put(out, screen.tiers(), height, true);
        put(out, screen.below(), height, true);
        put(out, screen.devices(), height, false);
        put(out, screen.fills(), height, false);
        put(out, screen.datasets(), height, true);
    }
    for (auto& line : out) line = cut(log::escaped(line), width);
    return out;
}

}  // namespace tierfs
