// The identity of the device that a folder lies on, whatever its path. Internal to tiering/nvme.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "config/base/result.hpp"

namespace tierfs {

/// The id in the file "device" of this folder: 16 hexadecimal digits, random, never 0. A file that is absent
/// or says something else is replaced by a new id: what the index knows of the old one is then fetched again,
/// or taken in from the device. `is_taken`: an id that another device has, as when a folder was copied.
/// Errors: the folder cannot be read or written.
Result<std::uint64_t> device_id_of(const std::filesystem::path& folder,
                                   const std::function<bool(std::uint64_t)>& is_taken);

/// The id that stands there; 0: none.
std::uint64_t read_device_id(const std::filesystem::path& folder);

}  // namespace tierfs
