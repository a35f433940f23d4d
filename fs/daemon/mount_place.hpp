// The place of a mount, held so that nobody can lead it elsewhere.
#pragma once

#include <string>
#include <utility>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// A mount point by its directory, which is held, and the name in it. The path was found free of symbolic links
/// when the mount was checked; whoever owns a directory on the way may have put one there since, to have root
/// mount or unmount something of his choice.
class MountPlace {
  public:
    /// Of an absolute path. ELOOP: a part of it is a symbolic link.
    static Result<MountPlace> hold(const std::string& mountpoint);

    [[nodiscard]] int directory() const { return directory_.get(); }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// For umount2(2) with UMOUNT_NOFOLLOW, while this lives and in this process.
    [[nodiscard]] std::string path() const;

  private:
    MountPlace(FileDescriptor directory, std::string name)
        : directory_(std::move(directory)), name_(std::move(name)) {}

    FileDescriptor directory_;
    std::string name_;
};

}  // namespace tierfs
