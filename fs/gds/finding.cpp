#include "fs/gds/finding.hpp"

#include <algorithm>
#include <utility>

namespace tierfs::gds {

std::string_view name_of(Level level) {
    switch (level) {
        case Level::pass:
            return "PASS";
        case Level::warn:
            return "WARN";
        case Level::fail:
            return "FAIL";
        case Level::skip:
            return "SKIP";
    }
    return "SKIP";
}

void pass(Findings& findings, std::string id, std::string what, Backends backends) {
    findings.push_back({std::move(id), Level::pass, std::move(what), {}, {}, backends});
}

void warn(Findings& findings, std::string id, std::string what, Reason reason, Backends backends) {
    findings.push_back({std::move(id), Level::warn, std::move(what), std::move(reason.why),
                        std::move(reason.advice), backends});
}

void fail(Findings& findings, std::string id, std::string what, Reason reason, Backends backends) {
    findings.push_back({std::move(id), Level::fail, std::move(what), std::move(reason.why),
                        std::move(reason.advice), backends});
}

void skip(Findings& findings, std::string id, std::string what, std::string why, Backends backends) {
    findings.push_back({std::move(id), Level::skip, std::move(what), std::move(why), {}, backends});
}

Verdict verdict_of(const Findings& findings, Backends one) {
    Verdict verdict;
    for (const auto& finding : findings) {
        if (finding.level != Level::fail || !concerns(finding.backends, one)) continue;
        if (std::find(verdict.because.begin(), verdict.because.end(), finding.id) == verdict.because.end())
            verdict.because.push_back(finding.id);
    }
    verdict.direct = verdict.because.empty();
    return verdict;
}

}  // namespace tierfs::gds
