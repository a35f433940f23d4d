// cufile.json: the configuration of libcufile, written for a host and judged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tierfs::gds {

/// What differs from host to host. The names of the keys are those of NVIDIA's GPUDirect Storage Parameters.
struct CuFileChoice {
    bool p2pdma = false;              ///< PCI P2PDMA where a file allows it
    bool allow_compat = true;         ///< reads through the processor's memory where nothing else is possible
    unsigned stats = 0;               ///< level of libcufile's statistics, 0 to 3
    std::uint64_t gpu_memory_kb = 0;  ///< of the smallest GPU; 0: not known
};

/// JSON without comments, with a newline at its end.
std::string cufile_json(const CuFileChoice& choice);

/// What a configuration says; comments as in NVIDIA's own file are allowed.
struct CuFileSettings {
    bool p2pdma_property = false;  ///< properties.use_pci_p2pdma
    bool p2pdma_nvme = false;      ///< block.nvme.use_pci_p2pdma
    bool block_misplaced = false;  ///< "block" within "fs", where libcufile does not look
    bool allow_compat = true;      ///< properties.allow_compat_mode
    bool unaligned_posix = false;  ///< fs.generic.posix_unaligned_writes
    std::optional<std::uint64_t> max_direct_io_kb;
};

/// None when the text is not a JSON object.
std::optional<CuFileSettings> parse_cufile_json(std::string_view text);

}  // namespace tierfs::gds
