#include "backends/dir/directory_origin.hpp"
#include "backends/nfs/nfs_origin.hpp"
#include "backends/origin/origin.hpp"
#include "backends/s3/s3_origin.hpp"
#include "backends/source_url.hpp"

namespace tierfs {

Result<std::unique_ptr<Origin>> open_origin(const Settings& settings) {
    constexpr std::string_view kAllowed =
        "; allowed is s3://BUCKET[/PREFIX], nfs://HOST/EXPORT[/PATH], an absolute directory, or file:///DIR";
    const std::string& source = settings.source;
    const auto refuse = [&](std::string_view why) {
        return fail(EINVAL, "source '" + source + "': " + std::string(why) + std::string(kAllowed));
    };
    if (source.empty()) return refuse("it is empty");
    if (source.find('\0') != std::string::npos) return refuse("it holds a NUL");
    if (source.starts_with("s3://")) return open_s3_origin(settings);
    if (source.starts_with("nfs://")) return open_nfs_origin(settings);
    if (const auto path = directory_of_source(source)) {
        if (!path->starts_with('/'))
            return refuse("there must be three slashes: another host's files are not served");
        if (path->find('\0') != std::string::npos) return refuse("it holds a NUL");
        return open_directory_origin(settings, *path);
    }
    if (source.find("://") != std::string::npos) return refuse("this kind of URL is not known");
    return refuse("a directory must be given with its absolute path");
}

}  // namespace tierfs
