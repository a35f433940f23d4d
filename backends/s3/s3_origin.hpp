// A bucket, or a prefix of one, as an origin.
#pragma once

#include <memory>

#include "backends/origin/origin.hpp"

namespace tierfs {

/// settings.source is s3://BUCKET[/PREFIX]. Sends nothing yet. EINVAL for a URL, endpoint or region that
/// cannot be.
Result<std::unique_ptr<Origin>> open_s3_origin(const Settings& settings);

/// The same with an environment of the caller's, for tests.
Result<std::unique_ptr<Origin>> open_s3_origin(const Settings& settings,
                                               const std::map<std::string, std::string>& environment);

}  // namespace tierfs
