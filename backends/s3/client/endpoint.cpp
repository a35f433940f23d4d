#include "backends/s3/client/endpoint.hpp"

#include <algorithm>

namespace tierfs::s3 {
namespace {

std::string profile_value(const IniSection& profile, const std::string& key) {
    const auto found = profile.find(key);
    return found == profile.end() ? std::string() : found->second;
}

std::string aws_host(const std::string& region) {
    return "s3." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
}

bool is_aws_host(const std::string& host) {
    return host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
}

bool is_plain_aws_host(const std::string& host) {
    return is_aws_host(host) &&
           (host == "s3.amazonaws.com" || std::count(host.begin(), host.end(), '.') <= 4) &&
           host.starts_with("s3");
}

std::string first_of(std::initializer_list<std::string> candidates) {
    for (const auto& text : candidates) {
        if (!text.empty()) return text;
    }
    return {};
}

bool is_name(std::string_view text, std::string_view also) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
               also.find(c) != std::string_view::npos;
    });
}

bool choose_path_style(const Settings& settings, const Target& target) {
    if (settings.s3_addressing == AddressingStyle::path) return true;
    if (settings.s3_addressing == AddressingStyle::virtual_host) return false;
    if (!target.aws) return true;
    // Certificates are for *.s3.region: a dot more, and the name no longer matches.
    return target.endpoint.tls && target.bucket.find('.') != std::string::npos;
}

}  // namespace

bool is_region(std::string_view text) {
    constexpr std::size_t kLongestLabel = 63;  // of a name of the DNS
    return is_name(text, "") && text.size() <= kLongestLabel;
}

std::string Target::host() const {
    return path_style ? endpoint.authority() : bucket + "." + endpoint.authority();
}

std::string Target::path(std::string_view key) const {
    std::string path = path_style ? "/" + bucket : std::string();
    if (!key.empty() || path.empty()) path += "/" + http::percent_encode(key, true);
    return path;
}

void Target::move_to(const std::string& new_region) {
    region = new_region;
    endpoint.host = aws_host(new_region);
}

std::string Target::identity() const {
    std::string text =
        "s3://" + (aws ? std::string("s3.amazonaws.com") : endpoint.authority()) + "/" + bucket;
    if (!prefix.empty()) text += "/" + prefix.substr(0, prefix.size() - 1);
    return text;
}

Result<std::pair<std::string, std::string>> parse_source(const std::string& source) {
    constexpr std::string_view kScheme = "s3://";
    const auto refuse = [&](std::string_view why) {
        return fail(EINVAL, source + ": " + std::string(why) + "; allowed is s3://BUCKET[/PREFIX]");
    };
    if (!source.starts_with(kScheme)) return refuse("this is no S3 URL");
    const auto rest = std::string_view(source).substr(kScheme.size());
    const auto slash = std::min(rest.find('/'), rest.size());
    const std::string bucket(rest.substr(0, slash));
    if (!is_name(bucket, "._") || bucket.size() > 255 || bucket == "." || bucket == "..")
        return refuse("the bucket's name is empty or holds characters that no bucket's name has");
    std::string_view path = rest.substr(std::min(slash + 1, rest.size()));
    while (path.ends_with('/')) path.remove_suffix(1);
    std::string prefix;
    while (!path.empty()) {
        const auto end = std::min(path.find('/'), path.size());
        const auto component = path.substr(0, end);
        if (component.empty() || component == "." || component == ".." ||
            component.find('\0') != std::string_view::npos)
            return refuse("the prefix holds an empty component, '.' or '..'");
        prefix += std::string(component) + '/';
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return std::pair(bucket, prefix);
}

Result<Target> resolve_target(const Settings& settings, const Environment& environment,
                              const IniSection& profile) {
    auto source = parse_source(settings.source);
    if (!source) return fail(std::move(source.error()));
    Target target;
    std::tie(target.bucket, target.prefix) = std::move(*source);
    target.region = first_of({settings.s3_region, variable(environment, "AWS_REGION"),
                              variable(environment, "AWS_DEFAULT_REGION"), profile_value(profile, "region"),
                              "us-east-1"});
    if (!is_region(target.region))
        return fail(EINVAL, "s3.region: '" + target.region + "' is no region's name");
    const bool ignored = variable(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") == "true";
    const auto configured =
        ignored ? settings.s3_endpoint
                : first_of({settings.s3_endpoint, variable(environment, "AWS_ENDPOINT_URL_S3"),
                            variable(environment, "AWS_ENDPOINT_URL"),
                            profile_value(profile, "services.s3.endpoint_url"),
                            profile_value(profile, "endpoint_url")});
    const auto endpoint = configured.empty() ? "https://" + aws_host(target.region) : configured;
    auto url = http::parse_url(endpoint);
    // A text with an @ may hold a password.
    const bool printable = endpoint.find('@') == std::string::npos;
    if (!url) return fail(url.error().within(printable ? "s3.endpoint '" + endpoint + "'" : "s3.endpoint"));
    if ((!url->path.empty() && url->path != "/") || !url->query.empty())
        return fail(EINVAL,
                    "s3.endpoint '" + endpoint +
                        "': there must be no path behind the host; the bucket is named by s3://BUCKET");
    target.endpoint = std::move(*url);
    target.endpoint.path.clear();
    target.aws = is_plain_aws_host(target.endpoint.host);
    target.path_style = choose_path_style(settings, target);
    if (!target.path_style && target.endpoint.is_address())
        return fail(EINVAL, "s3.addressing=virtual-host needs a host name in s3.endpoint, not an address");
    return target;
}

std::string resolve_ca_bundle(const Settings& settings, const Environment& environment,
                              const IniSection& profile) {
    return first_of(
        {settings.s3_ca_bundle, variable(environment, "AWS_CA_BUNDLE"), profile_value(profile, "ca_bundle")});
}

}  // namespace tierfs::s3
