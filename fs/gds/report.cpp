// How a report looks, to people and to programs.
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "fs/gds/check.hpp"

namespace tierfs::gds {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kIndent = "      ";

std::string only(Backends backends) {
    switch (backends) {
        case Backends::nvidia_fs:
            return " [nvidia-fs]";
        case Backends::p2pdma:
            return " [PCI P2PDMA]";
        case Backends::both:
            break;
    }
    return {};
}

std::string sentence(const std::string& name, const Verdict& verdict) {
    if (verdict.direct) return name + ": direct\n";
    std::string list;
    for (const auto& id : verdict.because) list += (list.empty() ? "" : ", ") + id;
    return name + ": not direct, because of " + list + "\n";
}

Json backends_json(Backends backends) {
    Json list = Json::array();
    if (concerns(backends, Backends::nvidia_fs)) list.push_back("nvidia-fs");
    if (concerns(backends, Backends::p2pdma)) list.push_back("p2pdma");
    return list;
}

Json verdict_json(const Verdict& verdict) {
    return {{"direct", verdict.direct}, {"because", verdict.because}};
}

std::string lower(Level level) {
    std::string text(name_of(level));
    for (char& c : text) c = static_cast<char>(c - 'A' + 'a');
    return text;
}

Json or_null(const std::optional<Version>& version) {
    return version ? Json(version->text()) : Json();
}

template <typename Number>
Json or_null(const std::optional<Number>& number) {
    return number ? Json(*number) : Json();
}

Json devices_json(const std::vector<BlockDevice>& devices) {
    Json list = Json::array();
    for (const auto& device : devices) {
        Json controllers = Json::array();
        for (const auto& controller : device.controllers)
            controllers.push_back({{"name", controller.name},
                                   {"transport", controller.transport},
                                   {"pci", controller.pci_path.substr(controller.pci_path.rfind('/') + 1)}});
        list.push_back({{"name", device.name},
                        {"number", device.number},
                        {"depth", device.depth},
                        {"what", describe(device)},
                        {"controllers", controllers}});
    }
    return list;
}

Json gpus_json(const std::vector<Gpu>& gpus) {
    Json list = Json::array();
    for (const auto& gpu : gpus)
        list.push_back({{"pci", gpu.pci.address},
                        {"model", gpu.model},
                        {"numa_node", or_null(gpu.pci.numa_node)},
                        {"bar1_bytes", gpu.bar1_bytes},
                        {"memory_bytes", or_null(gpu.memory_bytes)}});
    return list;
}

Json software_json(const Software& software) {
    Json libraries = Json::array();
    for (const auto& library : software.libraries) {
        Json entry = {{"path", library.path}, {"version", or_null(library.version)}};
        libraries.push_back(std::move(entry));
    }
    return {{"kernel", or_null(software.kernel)},
            {"nvidia_driver", or_null(software.driver)},
            {"open_driver", software.open_driver},
            {"nvidia_fs", or_null(software.nvidia_fs_version)},
            {"libcufile", libraries},
            {"cufile_json", software.configuration_path}};
}

}  // namespace

std::string report_text(const Report& report) {
    std::string text;
    for (const auto& finding : report.findings) {
        text += std::string(name_of(finding.level)) + "  " + finding.id + ": " + finding.what +
                only(finding.backends) + "\n";
        if (!finding.why.empty()) text += std::string(kIndent) + finding.why + "\n";
        if (!finding.advice.empty()) text += std::string(kIndent) + "-> " + finding.advice + "\n";
    }
    text += "\n" + report.place.path + "\n";
    text += sentence("nvidia-fs", report.nvidia_fs);
    text += sentence("PCI P2PDMA", report.p2pdma);
    return text;
}

std::string report_json(const Report& report) {
    Json findings = Json::array();
    for (const auto& finding : report.findings)
        findings.push_back({{"id", finding.id},
                            {"level", lower(finding.level)},
                            {"what", finding.what},
                            {"why", finding.why},
                            {"advice", finding.advice},
                            {"backends", backends_json(finding.backends)}});
    const Place& place = report.place;
    const Json json = {
        {"path", place.path},
        {"direct", report.direct()},
        {"verdicts",
         {{"nvidia-fs", verdict_json(report.nvidia_fs)}, {"p2pdma", verdict_json(report.p2pdma)}}},
        {"file_system",
         {{"type", place.type},
          {"mountpoint", place.mountpoint},
          {"source", place.source},
          {"options", place.options},
          {"super_options", place.super_options},
          {"block_size", place.block_size},
          {"free_bytes", place.free_bytes},
          {"total_bytes", place.total_bytes}}},
        {"devices", devices_json(report.devices)},
        {"gpus", gpus_json(report.gpus)},
        {"software", software_json(report.software)},
        {"findings", findings}};
    // A path may hold bytes that are no UTF-8.
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tierfs::gds
