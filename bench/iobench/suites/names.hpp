// Names and attributes without content: what the suite metadata walks, and the directory that its writing
// cases work in.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/iobench/run/workers.hpp"
#include "config/base/result.hpp"

namespace tierfs::iobench {

/// What lies below a directory. Symbolic links are names like others and never followed.
struct NameTree {
    std::vector<std::string> directories;  ///< paths ready to open; the first is the directory itself
    std::vector<std::string> files;        ///< regular files; sorted, so that an order belongs to its seed
    std::uint64_t names = 0;               ///< of every kind, without the directory itself
};

/// Hears of one name of the directory that `fd` is open on.
using NameSink = std::function<Result<void>(int fd, const dirent& entry)>;

/// opendir, readdir to the end, closedir; "." and ".." are left out. Errors name the directory.
Result<void> for_each_name(const std::string& directory, const NameSink& sink);

/// Walks `directory`. Fails where a part of it cannot be listed.
Result<NameTree> find_names(const std::string& directory);

/// The name of a directory of our own below another one, and the directory while somebody works in it. It is
/// made and removed in a child, which may be killed on the way: the process that has the object, and it
/// alone, removes in the destructor what is left. Whoever works in it has to have ended by then.
class Scratch {
  public:
    /// Finds a free name, PARENT/iobench-scratch-XXXXXX, by making such a directory; it is removed again,
    /// since it would be one of the names that are measured. So a directory that takes none is known early.
    static Result<std::unique_ptr<Scratch>> reserve(const std::string& parent);

    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

    /// Mode 0700. EEXIST when another has it: then nothing of it is ever removed.
    Result<void> make();

    /// With all that is in it.
    Result<void> remove();

  private:
    explicit Scratch(std::string path);
    const std::string path_;
    const pid_t owner_;
    Shared<bool> made_{1};
};

}  // namespace tierfs::iobench
