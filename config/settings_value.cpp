// One value of a setting: read from its text, and written as text.
#include <algorithm>
#include <charconv>

#include "config/base/text.hpp"
#include "config/base/units.hpp"
#include "config/listen_address.hpp"
#include "config/settings_table.hpp"

namespace tierfs::settings {
namespace {

std::string octal(std::uint64_t value) {
    std::string digits;
    for (; value != 0; value /= 8) digits.insert(digits.begin(), static_cast<char>('0' + value % 8));
    return "0" + digits;
}

std::chrono::milliseconds period(std::uint64_t count) {
    return std::chrono::milliseconds{static_cast<std::int64_t>(count)};
}

std::string number_text(const Key& key, std::uint64_t value) {
    if (key.kind == Kind::size) return format_size_exact(value);
    if (key.kind == Kind::octal) return octal(value);
    if (key.kind == Kind::duration) return format_duration(period(value));
    return std::to_string(value);
}

/// A number of the key's kind, its range not yet looked at.
std::optional<std::uint64_t> number(const Key& key, std::string_view text) {
    if (key.kind == Kind::size) {
        const auto value = parse_size(text);
        return value ? std::optional(*value) : std::nullopt;
    }
    if (key.kind == Kind::duration) {
        const auto value = parse_duration(text);
        return value ? std::optional(static_cast<std::uint64_t>(value->count())) : std::nullopt;
    }
    if (key.kind == Kind::octal && text.starts_with("0o")) text.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, key.kind == Kind::octal ? 8 : 10);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<bool> flag(std::string_view text) {
    if (text == "true" || text == "yes" || text == "on") return true;
    if (text == "false" || text == "no" || text == "off") return false;
    return std::nullopt;
}

/// ": the unit is missing: ..." of a size or a duration that cannot be read; else nothing.
std::string why_unreadable(const Key& key, std::string_view text) {
    std::string why;
    if (key.kind == Kind::size) {
        if (const auto size = parse_size(text); !size) why = size.error().message;
    } else if (key.kind == Kind::duration) {
        if (const auto time = parse_duration(text); !time) why = time.error().message;
    }
    // "found 'TEXT': WHY; allowed: ...": the caller tells both ends. The text may have the same words.
    const auto end = why.rfind("; allowed: ");
    const auto begin = std::string_view("found ''").size() + std::min<std::size_t>(text.size(), 64) +
                       (text.size() > 64 ? 3 : 0);
    return end == std::string::npos || begin > end ? "" : why.substr(begin, end - begin);
}

std::size_t scheme_length(std::string_view url) {
    return url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
}

/// With "***" for user and password (all before the last '@') and for a query or fragment, for either may be
/// a secret. Where a query seems to come before an '@', nobody can tell which of the two it is: all of it
/// goes.
std::string without_secrets(std::string_view url) {
    const std::string scheme(url.substr(0, scheme_length(url)));
    std::string rest(url.substr(scheme.size()));
    const auto at = rest.rfind('@');
    const auto query = rest.find_first_of("?#");
    if (at != std::string::npos && query < at) return scheme + "***";
    if (query != std::string::npos) rest.replace(query + 1, std::string::npos, "***");
    if (at != std::string::npos) rest.replace(0, at, "***");
    return scheme + rest;
}

std::string refused(const Key& key, std::string_view text) {
    const std::string found = shown(key.kind == Kind::url ? without_secrets(text) : text);
    return std::string(key.name) + ": found " + found + why_unreadable(key, text) +
           "; allowed: " + allowed(key);
}

/// Absolute paths, none of them another one or inside it, as far as their text tells.
bool are_apart(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        if (!path.starts_with('/')) return false;
        for (const std::string& other : paths) {
            if (&path != &other && is_path_within(path, other)) return false;
        }
    }
    return true;
}

/// Whether a string may stand for the key.
bool fits(const Key& key, std::string_view text) {
    if (has_control(text)) return false;
    if (key.kind == Kind::choice)
        return std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
    if (text.empty() || key.kind == Kind::text) return true;
    if (key.kind == Kind::address) return parse_listen_address(text).has_value();
    if (key.kind == Kind::path) return text[0] == '/';
    if (key.kind == Kind::paths) return are_apart(split_paths(text));
    const std::size_t scheme = scheme_length(text);
    return scheme != 0 && text.size() > scheme && text.find_first_of("@ ?#") == std::string_view::npos;
}

template <typename Value>
void copy_member(Value Settings::*member, Settings& to, const Settings& from) {
    to.*member = from.*member;
}

std::string_view profile_text(Profile profile) {
    return profile == Profile::small ? "small" : profile == Profile::large ? "large" : "auto";
}

std::string_view addressing_text(AddressingStyle style) {
    return style == AddressingStyle::path           ? "path"
           : style == AddressingStyle::virtual_host ? "virtual"
                                                    : "auto";
}

std::optional<std::string> set_flag(Settings& settings, const Key& key, std::string_view text) {
    const auto value = flag(text);
    if (!value) return refused(key, text);
    settings.*std::get<bool Settings::*>(key.member) = *value != key.opposite;
    return std::nullopt;
}

std::optional<std::string> set_number(Settings& settings, const Key& key, std::string_view text) {
    const auto value = number(key, text);
    if (!value || ((*value < key.min || *value > key.max) && !(key.zero && *value == 0)))
        return refused(key, text);
    if (auto* small = std::get_if<unsigned Settings::*>(&key.member))
        settings.** small = static_cast<unsigned>(*value);
    if (auto* large = std::get_if<std::uint64_t Settings::*>(&key.member)) settings.** large = *value;
    if (auto* maybe = std::get_if<std::optional<std::uint64_t> Settings::*>(&key.member))
        settings.** maybe = *value;
    if (auto* time = std::get_if<std::chrono::milliseconds Settings::*>(&key.member))
        settings.** time = period(*value);
    return std::nullopt;
}

std::optional<std::string> set_string(Settings& settings, const Key& key, std::string_view text) {
    if (!fits(key, text)) return refused(key, text);
    if (key.name == "fill.shard" && !text.empty()) {
        if (const auto share = parse_share(text); !share) return "fill.shard: " + share.error().message;
    }
    if (key.name == "fill.ahead" && text != "auto" && text != "off" && text != "all" && !parse_times(text))
        return "fill.ahead: found " + shown(text) +
               "; allowed: auto, all, off, or a number from 1 to 1000000";
    if (auto* string = std::get_if<std::string Settings::*>(&key.member))
        settings.** string = std::string(text);
    if (auto* profile = std::get_if<Profile Settings::*>(&key.member)) {
        settings.** profile = text == "small"   ? Profile::small
                              : text == "large" ? Profile::large
                                                : Profile::automatic;
    }
    if (auto* style = std::get_if<AddressingStyle Settings::*>(&key.member)) {
        settings.** style = text == "path"      ? AddressingStyle::path
                            : text == "virtual" ? AddressingStyle::virtual_host
                                                : AddressingStyle::automatic;
    }
    if (auto* dataset_class = std::get_if<DatasetClass Settings::*>(&key.member)) {
        settings.** dataset_class = parse_dataset_class(text).value_or(DatasetClass::automatic);
    }
    if (auto* mode = std::get_if<NfsMode Settings::*>(&key.member))
        settings.** mode = text == "hard" ? NfsMode::hard : NfsMode::soft;
    if (auto* codec = std::get_if<Codec Settings::*>(&key.member))
        settings.** codec = parse_codec(text).value_or(Codec::none);
    return std::nullopt;
}

}  // namespace

std::string allowed(const Key& key) {
    std::string out;
    switch (key.kind) {
        case Kind::flag:
            return "true or false";
        case Kind::text:
            return "text without control characters";
        case Kind::path:
            return "an absolute path";
        case Kind::paths:
            return "absolute paths with ':' between them, none twice or inside another";
        case Kind::url:
            return "http://HOST[:PORT] or https://HOST[:PORT], without user, password and query";
        case Kind::address:
            return "a port of this machine alone, as 127.0.0.1:9464 or [::1]:9464, or the absolute path of a "
                   "UNIX "
                   "socket";
        case Kind::choice:
            for (const auto choice : key.choices) out += (out.empty() ? "" : ", ") + std::string(choice);
            return out;
        case Kind::size:
            out = "a size";
            break;
        case Kind::duration:
            out = "a duration";
            break;
        case Kind::count:
            out = "a number";
            break;
        case Kind::octal:
            out = "an octal number";
            break;
    }
    const bool open_end = key.max == kLargestSize && key.kind == Kind::size;
    out += " from " + number_text(key, key.min) + (open_end ? " on" : " to " + number_text(key, key.max));
    if (key.zero) out += ", or 0";
    if (key.automatic) out += ", or auto";
    return out;
}

std::string value_text(const Key& key, const Settings& settings) {
    return std::visit(
        [&](auto member) -> std::string {
            const auto& value = settings.*member;
            using Value = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<Value, bool>)
                return value != key.opposite ? "true" : "false";
            else if constexpr (std::is_same_v<Value, std::string>)
                return value;
            else if constexpr (std::is_same_v<Value, Profile>)
                return std::string(profile_text(value));
            else if constexpr (std::is_same_v<Value, DatasetClass>)
                return name_of(value);
            else if constexpr (std::is_same_v<Value, Codec>)
                return std::string(name_of(value));
            else if constexpr (std::is_same_v<Value, NfsMode>)
                return value == NfsMode::hard ? "hard" : "soft";
            else if constexpr (std::is_same_v<Value, AddressingStyle>)
                return std::string(addressing_text(value));
            else if constexpr (std::is_same_v<Value, std::chrono::milliseconds>)
                return format_duration(value);
            else if constexpr (std::is_same_v<Value, std::optional<std::uint64_t>>)
                return value ? number_text(key, *value) : "auto";
            else
                return number_text(key, value);
        },
        key.member);
}

std::optional<std::string> set(Settings& settings, const Key& key, std::string_view text) {
    if (key.automatic && text == "auto") {
        const Settings from = defaults();
        std::visit([&](auto member) { copy_member(member, settings, from); }, key.member);
        return std::nullopt;
    }
    switch (key.kind) {
        case Kind::flag:
            return set_flag(settings, key, text);
        case Kind::size:
        case Kind::duration:
        case Kind::count:
        case Kind::octal:
            return set_number(settings, key, text);
        default:
            return set_string(settings, key, text);
    }
}

std::string shown(std::string_view text) {
    std::string out = "'";
    for (const char c : text.substr(0, 80)) {
        const auto byte = static_cast<unsigned char>(c);
        out += byte < 0x20 || byte == 0x7f ? '?' : c;
    }
    return out + (text.size() > 80 ? "...'" : "'");
}

}  // namespace tierfs::settings
