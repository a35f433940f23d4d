// Knowledge of a source that may have changed since it was packed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tierfs {

/// What a comparison of the source with its pack has found that nobody knew of, in one directory.
struct Renewed {
    struct Name {
        std::string name;
        /// The node stays what it was: a directory, or a file of the same version, whose attributes are
        /// others.
        bool same_object = false;
    };
    std::string directory;  ///< relative to the root
    std::vector<Name> names;
};

struct ComparisonStats {
    bool running = false;
    std::uint64_t ended = 0;                            ///< comparisons that reached their end
    std::int64_t ended_at = 0;                          ///< the last of them, seconds since 1970
    double took_s = 0;                                  ///< so long
    std::uint64_t changed = 0, added = 0, removed = 0;  ///< names, as it found them
    bool too_many = false;                              ///< the source is asked for every name
    std::string error;                                  ///< why the last one failed; empty: it did not
};

}  // namespace tierfs
