#include "fs/gds/cufile_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fs/gds/software.hpp"

namespace tierfs::gds {

namespace {

using Json = nlohmann::ordered_json;

const Json* find(const Json& json, std::initializer_list<const char*> path) {
    const Json* at = &json;
    for (const char* key : path) {
        if (!at->is_object()) return nullptr;
        const auto found = at->find(key);
        if (found == at->end()) return nullptr;
        at = &*found;
    }
    return at;
}

bool truth(const Json& json, std::initializer_list<const char*> path, bool otherwise) {
    const Json* value = find(json, path);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

}  // namespace

std::string cufile_json(const CuFileChoice& choice) {
    // NVIDIA's own file allows 32 GiB of pinned memory for each GPU: more than that the smallest need not
    // have.
    constexpr std::uint64_t kPinned = 33554432;
    const std::uint64_t pinned =
        choice.gpu_memory_kb == 0 ? kPinned : std::min<std::uint64_t>(kPinned, choice.gpu_memory_kb);
    const Json json = {
        {"logging", {{"level", choice.stats > 0 ? "INFO" : "ERROR"}}},
        {"profile", {{"nvtx", false}, {"cufile_stats", choice.stats}}},
        {"execution",
         {{"max_io_queue_depth", 128},
          {"max_io_threads", 4},
          {"parallel_io", true},
          {"min_io_threshold_size_kb", 8192},
          {"max_request_parallelism", 4}}},
        {"properties",
         {{"max_direct_io_size_kb", 16384},
          {"max_device_cache_size_kb", 131072},
          {"per_buffer_cache_size_kb", 1024},
          {"max_device_pinned_mem_size_kb", pinned},
          {"use_poll_mode", false},
          {"poll_mode_max_size_kb", 4},
          {"allow_compat_mode", choice.allow_compat},
          {"use_pci_p2pdma", choice.p2pdma}}},
        {"fs", {{"generic", {{"posix_unaligned_writes", false}}}}},
        {"block", {{"nvme", {{"use_pci_p2pdma", choice.p2pdma}}}}},
    };
    return json.dump(4) + "\n";
}

std::optional<CuFileSettings> parse_cufile_json(std::string_view text) {
    const Json json = Json::parse(text, nullptr, false, true);
    if (!json.is_object()) return std::nullopt;
    CuFileSettings settings;
    settings.p2pdma_property = truth(json, {"properties", "use_pci_p2pdma"}, false);
    settings.p2pdma_nvme = truth(json, {"block", "nvme", "use_pci_p2pdma"}, false);
    settings.block_misplaced = find(json, {"fs", "block"}) != nullptr;
    settings.allow_compat = truth(json, {"properties", "allow_compat_mode"}, true);
    settings.unaligned_posix = truth(json, {"fs", "generic", "posix_unaligned_writes"}, false);
    if (const Json* value = find(json, {"properties", "max_direct_io_size_kb"});
        value != nullptr && value->is_number_unsigned())
        settings.max_direct_io_kb = value->get<std::uint64_t>();
    return settings;
}

void judge_configuration(const Software& software, Findings& findings) {
    const std::string& path = software.configuration_path;
    const char* const advice =
        "tierfs-stage cufile-json --output FILE, and CUFILE_ENV_PATH_JSON=FILE for the program.";
    if (!software.configuration) {
        const std::string text = path + " is not there or cannot be read";
        fail(findings, "cufile-json", text,
             {"PCI P2PDMA is used only where the configuration asks for it.", advice}, Backends::p2pdma);
        warn(findings, "cufile-json", text,
             {"Without one libcufile cuts transfers into pieces of 1 MiB and does not use its threads.",
              advice},
             Backends::nvidia_fs);
        return;
    }
    const auto settings = parse_cufile_json(*software.configuration);
    if (!settings) {
        fail(findings, "cufile-json", path + " is not valid JSON",
             {"libcufile then reads through the processor's memory.", advice});
        return;
    }
    if (settings->p2pdma_property && settings->p2pdma_nvme) {
        pass(findings, "cufile-json", path + " asks for PCI P2PDMA", Backends::p2pdma);
    } else {
        fail(findings, "cufile-json", path + " does not ask for PCI P2PDMA at both places",
             {settings->block_misplaced
                  ? "\"block\" stands within \"fs\", where libcufile ignores it; it belongs to the top."
                  : "It needs use_pci_p2pdma in \"properties\" and in \"block\", \"nvme\".",
              advice},
             Backends::p2pdma);
    }
    if (settings->unaligned_posix)
        warn(findings, "cufile-json", path + " has posix_unaligned_writes",
             {"Writes that are not on 4 KiB go through the processor's memory.", advice});
    if (settings->allow_compat)
        warn(findings, "cufile-json", path + " allows compatibility mode",
             {"Where the direct path is not possible, reads quietly go through the processor's memory.",
              "Fine for production; to prove the path, set allow_compat_mode to false (cufile-json --strict) "
              "or look "
              "at libcufile's statistics (bench/gds-read)."});
    if (settings->max_direct_io_kb && *settings->max_direct_io_kb < 16384)
        warn(findings, "cufile-json",
             path + ": max_direct_io_size_kb is " + std::to_string(*settings->max_direct_io_kb),
             {"Staged files are written in chunks of 16 MiB, which can be read in one piece each.", advice});
}

}  // namespace tierfs::gds
