// Options of mount(8): what becomes of each. One table, so that none is dropped without a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.hpp"

namespace tierfs {

/// The change that an option makes to the flags MS_* of mount(2). "exec" takes MS_NOEXEC away, "user" sets three.
struct FlagChange {
    std::uint32_t set = 0, clear = 0;
    [[nodiscard]] std::uint32_t applied_to(std::uint32_t flags) const { return (flags & ~clear) | set; }
};

/// Nothing: it is no option of mount(8) but perhaps a key of the settings (as ro is). Both 0: it is
/// the business of mount(8) or systemd, or says what is so anyway. EINVAL, with the reason: it cannot be honoured.
std::optional<Result<FlagChange>> mount_option(std::string_view option);

/// The flags of a mount with these settings, allow_suid and ro among them.
std::uint32_t all_mount_flags(const Settings& settings);

/// "nosuid,noexec": flags by their names, in the order of the table.
std::string flag_names(std::uint32_t flags);

/// Flags that have these names in a line of mountinfo; other words there are no flags.
std::uint32_t flags_of_names(std::string_view names);

}  // namespace tierfs
