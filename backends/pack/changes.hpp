// Changes of a source since its pack was made: the paths that are not as the pack says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backends/pack/format.hpp"

namespace tierfs::pack {

/// Names that differ, with what they are at the source. A value; const calls are thread-safe.
class Changes {
  public:
    /// What a name is at the source, where the pack says something else.
    struct Name {
        std::optional<Attributes> now;  ///< none: it is gone, and all below it
        friend bool operator==(const Name&, const Name&);
    };
    using Names = std::map<std::string, Name>;  ///< by key_of

    /// What was counted when the source was compared: files, symbolic links and directories that have another
    /// version or kind, are new, or are gone. Directories that only have other attributes are none of these.
    struct Counts {
        std::uint64_t changed = 0, added = 0, removed = 0;
        friend bool operator==(const Counts&, const Counts&) = default;
    };

    /// What is known of `path`; null: it is what the pack says. Gone is what lies below something that is
    /// gone or is no directory (any longer).
    [[nodiscard]] const Name* find(const std::string& path) const;

    /// The names of `directory` behind `after` (empty: all), in their order, until `each` says false.
    void list(const std::string& directory, const std::string& after,
              const std::function<bool(const std::string& name, const Name&)>& each) const;

    [[nodiscard]] const Names& names() const { return names_; }
    [[nodiscard]] Names& names() { return names_; }

    Counts counts;  ///< not part of the file
    /// More differs than is kept: the source is to be asked for every name.
    bool too_many = false;

    /// As a file, which a later daemon goes on with. load() gives ENOENT, or EIO for a file that is damaged.
    [[nodiscard]] Result<void> save(const std::string& path) const;
    static Result<Changes> load(const std::string& path);

  private:
    Names names_;
};

/// Whether two attributes of a name stand for the same bytes, or the same directory.
[[nodiscard]] bool is_same_object(const Attributes& a, const Attributes& b);
/// The same in all that a stat shows. `owners`: modes and owners count.
[[nodiscard]] bool is_same(const Attributes& a, const Attributes& b, bool owners);

}  // namespace tierfs::pack
