// The place of a bucket: endpoint, region, and how its name goes into URLs.
#pragma once

#include "backends/http/url.hpp"
#include "backends/s3/client/profile.hpp"
#include "config/settings.hpp"

namespace tierfs::s3 {

/// A plain value. URLs and Host headers of one bucket.
struct Target {
    http::Url endpoint;
    std::string bucket, region;
    std::string prefix;  ///< of the keys below the root: empty, or ends in '/'
    bool aws = false;    ///< one of Amazon's endpoints: the region follows the bucket
    bool path_style = true;

    [[nodiscard]] std::string host() const;
    /// Encoded path of a key; of the bucket itself when `key` is empty.
    [[nodiscard]] std::string path(std::string_view key) const;
    [[nodiscard]] std::string base() const { return (endpoint.tls ? "https://" : "http://") + host(); }

    /// Only for aws: the same bucket in another region.
    void move_to(const std::string& new_region);

    /// See Origin::identity. Amazon's buckets have one name the world over, whatever the region and the
    /// style.
    [[nodiscard]] std::string identity() const;
};

/// Bucket and prefix of "s3://BUCKET[/PREFIX]"; EINVAL with what is allowed.
Result<std::pair<std::string, std::string>> parse_source(const std::string& source);

/// False: it must not become a part of a host's name, whoever says that it is the bucket's region.
bool is_region(std::string_view text);

/// From the settings, the environment and the profile, in this order.
Result<Target> resolve_target(const Settings& settings, const Environment& environment,
                              const IniSection& profile);

/// s3.ca_bundle, AWS_CA_BUNDLE, the profile's ca_bundle; empty: the system's.
std::string resolve_ca_bundle(const Settings& settings, const Environment& environment,
                              const IniSection& profile);

}  // namespace tierfs::s3
