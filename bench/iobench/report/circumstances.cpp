#include "bench/iobench/report/markup.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;

std::string entry(const std::string& name, const std::string& content) {
    return content.empty() ? "" : element("dt", html(name)) + element("dd", content);
}

std::string shown(const Json& value) {
    return html(value.is_string() ? value.get<std::string>()
                                  : value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// "processes 4, runs 5".
std::string members(const Json& object) {
    std::string text;
    for (const auto& item : object.items())
        text += (text.empty() ? "" : ", ") + html(item.key()) + " " + shown(item.value());
    return text;
}

/// As one could type it: words with anything unusual in them in quotes.
std::string command_line(const std::vector<std::string>& words) {
    std::string line;
    for (const auto& word : words) {
        const bool bare = !word.empty() && word.find_first_not_of(
                                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                               "0123456789_-+=./:,@%") == std::string::npos;
        std::string quoted = "'";
        for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
        line += (line.empty() ? "" : " ") + (bare ? word : quoted + "'");
    }
    return line;
}

std::string device_of(const ResultTarget& target) {
    if (!target.device) return "";
    std::string text = html(target.device->name);
    if (!target.device->model.empty()) text += ", " + html(target.device->model);
    if (target.device->peak_mb_per_s) text += ", at most " + number(*target.device->peak_mb_per_s) + " MB/s";
    return text;
}

std::string daemon_of(const ResultTarget& target) {
    if (!target.daemon) return "";
    std::string text = html(target.daemon->command) + ", memory at most " +
                       number(static_cast<double>(target.daemon->peak_rss_bytes) / (1 << 20)) + " MiB, CPU " +
                       number(target.daemon->cpu_s) + " s";
    if (target.daemon->cpu_s_per_gib)
        text += ", " + number(*target.daemon->cpu_s_per_gib) + " s per GiB read";
    return text;
}

std::string target_rows(const Section& section) {
    std::string rows;
    for (const auto* result : section.results())
        for (const auto& target : result->file.targets)
            rows += element("tr", element("th scope='row'", html(target.name)) +
                                      element("td", element("code", html(target.path))) +
                                      element("td", html(target.fs_type) + " of " +
                                                        element("code", html(target.fs_source))) +
                                      element("td", element("code", html(target.mount_options))) +
                                      element("td", device_of(target)) + element("td", daemon_of(target))) +
                    "\n";
    return rows;
}

std::string targets(const Section& section) {
    std::string heads;
    for (const char* head : {"target", "path", "file system", "mount options", "device", "daemon"})
        heads += element("th scope='col'", head);
    return element("div class='scroll'", element("table", element("thead", element("tr", heads)) +
                                                              element("tbody", target_rows(section))));
}

std::string disturbances(const ResultFile& file) {
    if (file.disturbances.empty()) return "";
    std::string rows;
    for (const auto& one : file.disturbances)
        rows += element("tr", element("td", html(one.target)) + element("td", html(one.test)) +
                                  element("td class='number'", std::to_string(one.run)) +
                                  element("td", html(one.what)));
    std::string heads;
    for (const char* head : {"target", "case", "run", "what"}) heads += element("th scope='col'", head);
    return element("div class='scroll'",
                   element("table", element("caption",
                                            "Disturbances: what somebody else did to the machine "
                                            "while it was measured") +
                                        element("thead", element("tr", heads)) + element("tbody", rows)));
}

std::string about(const NamedResult& result) {
    const ResultFile& file = result.file;
    return element("dl", entry("file", element("code", html(result.name))) +
                             entry("command", element("code", html(command_line(file.command)))) +
                             entry("measured", html(file.started + " to " + file.ended) +
                                                   (file.complete ? "" : ", interrupted")) +
                             entry("tierfs", html(file.tierfs)) +
                             entry("preset", html(file.preset.value_or(""))) +
                             entry("dataset", html(file.dataset_rule)) + entry("host", members(file.host)) +
                             entry("parameters", members(file.parameters))) +
           disturbances(file);
}

}  // namespace

std::string circumstances(const Section& section) {
    std::string text = targets(section);
    for (const auto* result : section.results()) text += about(*result) + "\n";
    return text;
}

}  // namespace tierfs::iobench
