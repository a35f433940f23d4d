#include "config/nfs_url.hpp"

#include <algorithm>
#include <charconv>

#include "config/base/hex.hpp"

namespace tierfs {
namespace {

constexpr std::string_view kScheme = "nfs://";
constexpr std::string_view kAllowed =
    "; allowed is nfs://HOST[,HOST][:PORT]/EXPORT[/PATH][?nfsport=N&mountport=N&uid=N&gid=N&mode=soft|hard"
    "&connections=N]";
constexpr std::size_t kMostHosts = 64, kLongestUrl = 8192, kLongestHost = 253;
constexpr unsigned kMostConnections = 64;
constexpr std::uint64_t kMostNfsId = 0xfffffffe;
/// Long enough to be none, short enough that no sum of times overflows.
constexpr std::chrono::hours kHardDeadline{24 * 365 * 10};

std::string percent_decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
            if (high >= 0 && low >= 0) {
                out += static_cast<char>(high * 16 + low);
                i += 2;
                continue;
            }
        }
        out += text[i];
    }
    return out;
}

std::optional<std::uint64_t> number(std::string_view text, std::uint64_t least, std::uint64_t most) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value < least || value > most ? std::nullopt : std::optional(value);
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(at);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

bool is_host(std::string_view text, bool is_bracketed) {
    return !text.empty() && text.size() <= kLongestHost && std::all_of(text.begin(), text.end(), [&](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_' ||
               (is_bracketed && (c == ':' || c == '%'));
    });
}

/// What is wrong, or nothing.
std::optional<std::string> read_hosts(std::string_view text, NfsUrl& url) {
    const auto bracket = text.rfind(']');
    const auto colon = text.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        const auto port = number(text.substr(colon + 1), 1, 65535);
        if (!port) return "'" + std::string(text.substr(colon + 1)) + "' is no port";
        url.nfs_port = static_cast<unsigned>(*port);
        text = text.substr(0, colon);
    }
    for (const auto part : split(text, ',')) {
        std::string host(part);
        std::transform(host.begin(), host.end(), host.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
        const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
        if (is_bracketed) host = host.substr(1, host.size() - 2);
        if (host.find('@') != std::string::npos) return "users and passwords mean nothing to NFS";
        if (!is_host(host, is_bracketed)) return "'" + host + "' is no host";
        url.hosts.push_back(std::move(host));
    }
    if (url.hosts.size() > kMostHosts) return "more than 64 hosts";
    return std::nullopt;
}

std::optional<std::string> read_path(std::string_view text, NfsUrl& url) {
    const std::string decoded = percent_decoded(text);
    if (decoded.find('\0') != std::string::npos) return "it holds a NUL";
    for (const auto part : split(decoded, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..") return "'..' leads out of an export";
        if (part.size() > 255) return "a name in it is longer than 255 bytes";
        url.path += '/';
        url.path += part;
    }
    if (url.path.empty()) url.path = "/";
    return std::nullopt;
}

template <typename Number>
bool take(std::string_view value, std::uint64_t least, std::uint64_t most, std::optional<Number>& to) {
    const auto parsed = number(value, least, most);
    if (parsed) to = static_cast<Number>(*parsed);
    return parsed.has_value();
}

std::optional<std::string> read_option(std::string_view option, NfsUrl& url) {
    const auto equals = option.find('=');
    const auto name = option.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
    bool fits = false;
    if (name == "nfsport") {
        fits = take(value, 1, 65535, url.nfs_port);
    } else if (name == "mountport") {
        fits = take(value, 1, 65535, url.mount_port);
    } else if (name == "uid") {
        fits = take(value, 0, kMostNfsId, url.uid);
    } else if (name == "gid") {
        fits = take(value, 0, kMostNfsId, url.gid);
    } else if (name == "connections") {
        fits = take(value, 1, kMostConnections, url.connections);
    } else if (name == "mode") {
        fits = value == "soft" || value == "hard";
        if (fits) url.mode = value == "hard" ? NfsMode::hard : NfsMode::soft;
    } else if (name == "version") {
        if (value.starts_with('4'))
            return "NFS version 4 is not spoken here: mount the export with the kernel's client (mount -t "
                   "nfs "
                   "-o vers=4.2,nconnect=8) and give that directory as SOURCE";
        fits = value == "3";
    } else {
        return "'" + std::string(name.substr(0, 64)) + "' is no option of it";
    }
    if (fits) return std::nullopt;
    return "option " + std::string(name) + " cannot be '" + std::string(value.substr(0, 64)) + "'";
}

}  // namespace

std::string NfsUrl::identity() const {
    const bool is_bracketed = hosts.front().find(':') != std::string::npos;
    return std::string(kScheme) + (is_bracketed ? "[" + hosts.front() + "]" : hosts.front()) +
           (path == "/" ? "" : path);
}

Result<NfsUrl> parse_nfs_url(std::string_view source) {
    const auto refuse = [&](const std::string& why) {
        return fail(EINVAL,
                    "source '" + std::string(source.substr(0, 256)) + "': " + why + std::string(kAllowed));
    };
    if (!source.starts_with(kScheme)) return refuse("it is no nfs:// URL");
    if (source.size() > kLongestUrl) return refuse("it is too long");
    auto rest = source.substr(kScheme.size());
    NfsUrl url;
    const auto slash = rest.find('/');
    if (slash == std::string_view::npos) return refuse("the path of an export is missing");
    const auto question = rest.find('?', slash);
    if (const auto wrong = read_hosts(rest.substr(0, slash), url)) return refuse(*wrong);
    if (const auto wrong = read_path(rest.substr(slash, question - slash), url)) return refuse(*wrong);
    if (question == std::string_view::npos || question + 1 == rest.size()) return url;
    for (const auto option : split(rest.substr(question + 1), '&')) {
        if (const auto wrong = read_option(option, url)) return refuse(*wrong);
    }
    return url;
}

Result<void> apply_nfs_url(Settings& settings) {
    if (!settings.source.starts_with(kScheme)) return {};
    const auto url = parse_nfs_url(settings.source);
    if (!url) return fail(url.error());
    if (url->nfs_port) settings.nfs_port = *url->nfs_port;
    if (url->mount_port) settings.nfs_mount_port = *url->mount_port;
    if (url->connections) settings.nfs_connections = *url->connections;
    if (url->uid) settings.nfs_uid = *url->uid;
    if (url->gid) settings.nfs_gid = *url->gid;
    if (url->mode) settings.nfs_mode = *url->mode;
    if (waits_for_ever(settings)) settings.origin_deadline = kHardDeadline;
    return {};
}

bool waits_for_ever(const Settings& settings) {
    return settings.source.starts_with(kScheme) && settings.nfs_mode == NfsMode::hard;
}

}  // namespace tierfs
