// What the doctor says.
#include <nlohmann/json.hpp>

#include "config/base/log_lines.hpp"
#include "fs/observe/figures.hpp"
#include "fs/observe/rules.hpp"

namespace tierfs {
namespace {

using Json = nlohmann::json;

Json findings_json(const std::vector<Finding>& findings) {
    Json list = Json::array();
    for (const auto& finding : findings) {
        list.push_back(Json{{"id", finding.id},
                            {"share", finding.share},
                            {"what", finding.what},
                            {"evidence", finding.evidence},
                            {"advice", finding.advice}});
    }
    return list;
}

std::string percent(double part, double all) {
    return decimal(all > 0 ? 100 * part / all : 0, 0, " %");
}

void add(std::string& out, const Finding& finding, const std::string& mark, bool with_share) {
    const std::string indent(mark.size(), ' ');
    out += mark + finding.what + (with_share ? " (" + percent(finding.share, 1) + " of the waiting)" : "") +
           "\n";
    out += indent + "seen: " + finding.evidence + "\n";
    for (const auto& advice : finding.advice) out += indent + "do:   " + advice + "\n";
}

std::string verdict(const Facts& facts, const std::vector<Finding>& causes) {
    const Snapshot& s = facts.interval;
    if (s.under_way > 0 && s.oldest_s >= facts.seconds)
        return std::to_string(s.under_way) + " requests wait for an answer, the oldest for " +
               latency_text(s.oldest_s * 1e6) + ".\n";
    if (!s.origin_away_why.empty()) return "";
    if (s.reads == 0 && s.metadata_messages == 0)
        return s.passthrough_files > 0
                   ? "No request reached the daemon: the kernel reads files that are complete on NVMe by "
                     "itself.\n"
                   : "Nobody read through this mount meanwhile: run the doctor while the job runs.\n";
    if (waits_of(s).all() / facts.seconds < kHardlyWaiting)
        return "Readers hardly wait for tierfs: if the job is slow, it is not for this mount.\n";
    return causes.empty() ? "Readers wait, and no rule knows why: see tierfs top.\n" : "";
}

}  // namespace

Json doctor_json(const Facts& facts) {
    const Waits waits = waits_of(facts.interval);
    const double all = waits.all() > 0 ? waits.all() : 1;
    return Json{{"mountpoint", facts.interval.mountpoint},
                {"source", facts.interval.source},
                {"seconds", facts.seconds},
                {"reads_per_s", static_cast<double>(facts.interval.reads) / facts.seconds},
                {"bytes_per_s", static_cast<double>(facts.interval.read_bytes) / facts.seconds},
                {"waiting_readers", waits.all() / facts.seconds},
                {"under_way", facts.interval.under_way},
                {"oldest_s", facts.interval.oldest_s},
                {"waits",
                 {{"origin", waits.origin / all},
                  {"nvme", waits.nvme / all},
                  {"memory", waits.memory / all},
                  {"metadata", waits.metadata / all}}},
                {"findings", findings_json(find_causes(facts))},
                {"host", findings_json(check_host(facts))}};
}

std::string doctor_text(const Facts& facts) {
    const Snapshot& s = facts.interval;
    const Waits waits = waits_of(s);
    const auto causes = find_causes(facts);
    const auto host = check_host(facts);
    std::string out = s.mountpoint + " (" + s.source + "), " + decimal(facts.seconds, 1) +
                      " s: " + amount(static_cast<double>(s.reads) / facts.seconds) + " reads/s, " +
                      size_text(static_cast<double>(s.read_bytes) / facts.seconds) + "/s\n";
    const bool has_waited = waits.all() > 0;
    if (has_waited)
        out += amount(waits.all() / facts.seconds) + " requests waited on average, for: origin " +
               percent(waits.origin, waits.all()) + ", NVMe " + percent(waits.nvme, waits.all()) +
               ", memory " + percent(waits.memory, waits.all()) + ", names and attributes " +
               percent(waits.metadata, waits.all()) + "\n";
    out += "\n" + verdict(facts, causes);
    for (std::size_t i = 0; i < causes.size(); ++i)
        add(out, causes[i], std::to_string(i + 1) + ". ", has_waited);
    if (!host.empty()) out += "\nThis host:\n";
    for (const auto& finding : host) add(out, finding, "*  ", false);
    std::string safe;
    for (std::size_t at = 0; at < out.size();) {
        const auto end = out.find('\n', at);
        safe += log::escaped(std::string_view(out).substr(at, end - at)) + "\n";
        at = end + 1;
    }
    return safe;
}

}  // namespace tierfs
