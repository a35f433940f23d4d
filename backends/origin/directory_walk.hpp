// Walks the directories of a source, several at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"

namespace tierfs {

/// Visits the root ("") and each directory that a visit returns, once for each time that it is returned, on
/// so many threads of its own. Before a visit `ended` is asked: once it says yes no visit begins any more.
/// Both are called on any of the threads, at the same time, and may lock what they like. Returns when the
/// last visit has.
void walk_directories(unsigned threads, const std::function<bool()>& ended,
                      const std::function<std::vector<std::string>(const std::string& directory)>& visit);

/// Lists a directory page by page and gives each page to `each`, until it says that it needs no more (false)
/// or fails. `stopped` is asked before every page. Blocks. Errors: ECANCELED when stopped, EIO from a server
/// that leads in a circle, those of the origin and of `each`.
Result<void> list_pages(Origin& origin, const std::string& directory, const std::function<bool()>& stopped,
                        const std::function<Result<bool>(ListPage& page)>& each);

}  // namespace tierfs
