// A directory of this machine as PosixOrigin.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "backends/dir/acl.hpp"
#include "backends/origin/posix_origin.hpp"
#include "config/base/file_descriptor.hpp"

namespace tierfs {

/// Counters that files which outlive the tree go on with. Thread-safe.
struct PosixCounters {
    std::atomic<std::uint64_t> reads{0}, writes{0}, removes{0}, lookups{0}, lists{0}, others{0};
    std::atomic<std::uint64_t> bytes_read{0}, bytes_written{0}, errors{0};
};

/// See PosixOrigin. A node is an O_PATH descriptor, open(2); names are resolved one by one, relative to it
/// and without following links (beneath.hpp), so that nothing leads out of `root`. What O_PATH descriptors
/// cannot do (chmod, extended attributes) goes through their names in /proc/self/fd.
class PosixTree final : public PosixOrigin {
  public:
    explicit PosixTree(FileDescriptor root);

    [[nodiscard]] PosixNodePtr root() override { return root_; }
    Result<PosixAttributes> look_up(const PosixNode& directory, const std::string& name) override;
    Result<PosixNodePtr> hold(const PosixNode& directory, const std::string& name) override;
    Result<PosixAttributes> attributes(const PosixNode& node) override;
    Result<std::string> read_link(const PosixNode& node) override;
    Result<PosixCreated> create(const PosixNode& directory, const std::string& name, int flags, mode_t mode,
                                const Caller& caller) override;
    Result<PosixCreated> make_nameless(const PosixNode& directory, int flags, mode_t mode,
                                       const Caller& caller) override;
    Result<void> make_directory(const PosixNode& directory, const std::string& name, mode_t mode,
                                const Caller& caller) override;
    Result<void> make_node(const PosixNode& directory, const std::string& name, mode_t mode, dev_t device,
                           const Caller& caller) override;
    Result<void> make_link(const PosixNode& directory, const std::string& name, const std::string& target,
                           const Caller& caller) override;
    Result<void> add_name(const PosixNode& node, const PosixNode& directory,
                          const std::string& name) override;
    Result<void> remove(const PosixNode& directory, const std::string& name, bool is_directory) override;
    Result<void> rename(const PosixNode& from, const std::string& name, const PosixNode& to,
                        const std::string& new_name, unsigned flags) override;
    Result<PosixFilePtr> open(const PosixNode& node, int flags) override;
    Result<PosixDirectoryPtr> open_directory(const PosixNode& node) override;
    Result<Adopted> adopt(FileDescriptor file) override;
    Result<void> set_mode(const PosixNode& node, mode_t mode) override;
    Result<void> set_owner(const PosixNode& node, uid_t uid, gid_t gid) override;
    Result<void> set_times(const PosixNode& node, const struct timespec& access,
                           const struct timespec& modification) override;
    Result<void> resize(const PosixNode& node, std::uint64_t size) override;
    Result<std::size_t> get_xattr(const PosixNode& node, const std::string& name,
                                  std::span<char> value) override;
    Result<std::size_t> list_xattrs(const PosixNode& node, std::span<char> names) override;
    Result<void> set_xattr(const PosixNode& node, const std::string& name, std::span<const char> value,
                           int flags) override;
    Result<void> remove_xattr(const PosixNode& node, const std::string& name) override;
    Result<struct statvfs> statistics() override;
    [[nodiscard]] bool has_acls() const override { return has_acls_; }
    [[nodiscard]] bool has_locks() const override { return true; }
    [[nodiscard]] std::string against_passthrough() const override { return {}; }
    [[nodiscard]] PosixStats stats() const override;

  private:
    const PosixNodePtr root_;
    bool has_acls_ = false;
    bool has_reserve_ = false;  ///< blocks that a user by his number may have alone
    const std::shared_ptr<PosixCounters> counters_ = std::make_shared<PosixCounters>();
};

/// Attributes of what a descriptor refers to (`name` empty), or of a name in a directory. statx(2).
Result<PosixAttributes> posix_attributes(int descriptor, const std::string& name);
/// Of what has a name that does not count.
Result<PosixAttributes> attributes_of_nameless(int descriptor);

/// A regular file that is open. `is_nameless`: one of its names does not count, see PosixOrigin::make_nameless.
PosixFilePtr make_posix_file(FileDescriptor file, std::shared_ptr<PosixCounters> counters,
                             bool is_nameless = false);
/// Opens the file behind a descriptor once more, for locks.
Result<PosixLocksPtr> open_posix_locks(int file, bool for_writing, std::shared_ptr<PosixCounters> counters);
/// A directory that is open for reading.
Result<PosixDirectoryPtr> make_posix_directory(FileDescriptor directory,
                                               std::shared_ptr<PosixCounters> counters);

}  // namespace tierfs
