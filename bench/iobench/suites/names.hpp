// Names and attributes without content: what the suite metadata walks, and the directory that its writing
// cases work in.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/result.hpp"

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

/// A directory of our own below another one, removed with all that is in it: by `remove`, which tells what
/// went wrong, or else by the destructor, which can only complain. Whoever works in it has to have ended by
/// then. Not copied: one owner.
class Scratch {
  public:
    /// Makes PARENT/iobench-scratch-XXXXXX, mode 0700.
    static Result<Scratch> make(const std::string& parent);

    ~Scratch();
    Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    Scratch& operator=(Scratch&&) = delete;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }
    Result<void> remove();

  private:
    explicit Scratch(std::string path) : path_(std::move(path)) {}
    std::string path_;  // empty: removed
};

}  // namespace tierfs::iobench
