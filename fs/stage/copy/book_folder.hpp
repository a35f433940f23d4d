// A folder of books: the records that tierfs-stage keeps beside what it copies.
#pragma once

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs::stage {

/// The books may lie in a folder of a user, with tierfs-stage run by root. So each name is looked up in the
/// folder that is held, never by a path; a book is a regular file with one name, and links, FIFOs, devices and
/// second names of other files are refused (ELOOP, EINVAL, EMLINK), without waiting for anything. Movable; its
/// functions may be called from any thread. Errors: errno of the call, with the path.
class BookFolder {
  public:
    /// `name` below the folder `above`, whose path is for messages. ENOTDIR for anything but a folder.
    /// `make`: the mode it is made with when it is absent; 0: it has to be there.
    static Result<BookFolder> open(int above, const std::string& above_path, const std::string& name,
                                   mode_t make = 0);
    /// Of a path that HeldFolder follows; its last name is made where it is absent.
    static Result<BookFolder> at(const std::string& path, mode_t make = 0);

    [[nodiscard]] int fd() const { return fd_.get(); }
    /// For messages.
    [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
    [[nodiscard]] const std::string& path() const { return path_; }

    /// flags as open(2).
    [[nodiscard]] Result<FileDescriptor> book(const std::string& name, int flags, mode_t mode = 0644) const;
    /// For reading line by line.
    [[nodiscard]] Result<std::ifstream> read(const std::string& name) const;
    /// Made durably as a whole. EEXIST when it is there.
    [[nodiscard]] Result<void> make(const std::string& name, const std::string& text) const;
    /// lstat(2). ENOENT.
    [[nodiscard]] Result<struct stat> status(const std::string& name) const;
    /// No error where it is absent.
    [[nodiscard]] Result<void> remove(const std::string& name) const;
    [[nodiscard]] Result<void> rename(const std::string& from, const std::string& to,
                                      unsigned flags = 0) const;
    /// What was made, renamed and removed survives a power cut.
    [[nodiscard]] Result<void> sync() const;
    [[nodiscard]] std::vector<std::string> names() const;
    /// Gives the descriptor away: closing it is the caller's from now on.
    int release() { return fd_.release(); }

  private:
    BookFolder(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    FileDescriptor fd_;
    std::string path_;
};

/// Of what lies in a folder, in no order; none where that cannot be read.
std::vector<std::string> names_below(int folder);

/// Removes `name` below the folder `above`, with all that lies in it. Follows no link. ENOENT is none.
Result<void> remove_all_of(int above, const std::string& name);

}  // namespace tierfs::stage
